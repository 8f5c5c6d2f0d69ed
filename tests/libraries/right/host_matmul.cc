// A host library whose matmul is the reference's, so that the gate's statements about matmul run without a GPU; and,
// named by MATMUL_FAULT, the faults that kernels make. MATMUL_FORMAT leaves one format of operands.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "numerics/format/codec.h"
#include "reference/matmul/operand.h"
#include "tests/libraries/right/right_call.h"

namespace {

using mxcheck::Format;

std::string_view fault() { return right::variable("MATMUL_FAULT"); }

using right::refuse;

const mxcheck_matmul_policy* policy_of(const mxcheck_policy* p) {
  return p != nullptr && p->size >= sizeof(mxcheck_matmul_policy) ? reinterpret_cast<const mxcheck_matmul_policy*>(p)
                                                                  : nullptr;
}

mxcheck_status supports(const mxcheck_policy* base, DLDataType) {
  const mxcheck_matmul_policy* p = policy_of(base);
  if (p == nullptr) return MXCHECK_INVALID;
  const std::string_view only = right::variable("MATMUL_FORMAT");  // of both operands; empty: any
  if (!only.empty() && (only != p->policy.format || only != p->format_b)) return MXCHECK_UNSUPPORTED;
  return p->policy.block_cols == 128 || p->scale_type == 0 ? MXCHECK_OK : MXCHECK_UNSUPPORTED;
}

mxcheck_status supports_nvfp4(const mxcheck_policy* base, DLDataType) {
  const mxcheck_matmul_policy* p = policy_of(base);
  if (p == nullptr) return MXCHECK_INVALID;
  const std::string_view only = right::variable("MATMUL_FORMAT");
  if (!only.empty() && only != p->policy.format) return MXCHECK_UNSUPPORTED;
  return p->scale_type == MXCHECK_E4M3 ? MXCHECK_OK : MXCHECK_UNSUPPORTED;
}

bool has_shape(const DLTensor& t, std::int64_t rows, std::int64_t cols, int code, int bits) {
  return t.ndim == 2 && t.shape[0] == rows && t.shape[1] == cols && t.dtype.code == code && t.dtype.bits == bits;
}

std::int64_t blocks(std::int64_t extent, std::int64_t block) { return (extent + block - 1) / block; }

// Blocks as a policy may have them: of scales, or none.
bool has_blocks(const mxcheck_matmul_policy& p) {
  const auto is = [](std::int64_t value, std::int64_t a, std::int64_t b) { return value == a || value == b; };
  if (p.scale_type == MXCHECK_NO_SCALES)
    return p.policy.block_rows == 0 && p.policy.block_cols == 0 && p.block_b_rows == 0 && p.block_b_cols == 0;
  if (p.scale_type == MXCHECK_E4M3)
    return p.policy.block_rows == 1 && p.policy.block_cols == 16 && p.block_b_rows == 1 && p.block_b_cols == 16;
  return p.policy.block_rows == 1 && is(p.policy.block_cols, 32, 128) && is(p.block_b_rows, 1, 128) &&
         is(p.block_b_cols, 32, 128);
}

// The inputs after A, B, their scales and C: offsets or counts, an index, each at most once.
struct Groups {
  const DLTensor* offsets = nullptr;
  const DLTensor* index = nullptr;
  bool masked = false;
  [[nodiscard]] bool none() const { return offsets == nullptr || offsets->shape[0] == 0; }
  [[nodiscard]] std::int64_t experts() const { return none() ? 1 : offsets->shape[0] - (masked ? 0 : 1); }
  // Columns of scales: blocks of k, of each group along k.
  [[nodiscard]] std::int64_t scale_columns(const mxcheck_matmul_policy& p) const {
    const std::int64_t block = p.policy.block_cols;
    if (p.grouping != MXCHECK_DEPTH) return blocks(p.depth, block);
    const auto* values = reinterpret_cast<const std::int64_t*>(right::data_of(*offsets));
    std::int64_t columns = 0;
    for (std::int64_t e = 0; e < experts(); ++e) columns += blocks(values[e + 1] - values[e], block);
    return columns;
  }
};

int inputs_before_groups(const mxcheck_matmul_policy& p) {
  return 2 + (p.scale_type != 0 ? 2 : 0) + (p.accumulate != 0 ? 1 : 0);
}

// Empty (null) where nothing is wrong.
const char* problem_of_policy(const mxcheck_call& call, const mxcheck_matmul_policy& p) {
  const auto is = [](std::int64_t value, std::int64_t last) { return value >= 0 && value <= last; };
  const int needed = inputs_before_groups(p);
  const bool right = mxcheck::find_format(p.policy.format) && mxcheck::find_format(p.format_b) &&
                     is(p.depth, INT32_MAX) && p.policy.layout == 0 && is(p.grouping, 3) && is(p.scale_type, 3) &&
                     call.num_outputs == 1 && call.num_inputs >= needed && call.num_inputs <= needed + 2 &&
                     has_blocks(p) && is(p.accumulate, 1);
  return right ? nullptr : "policy and tensors make no matmul";
}

const char* find_groups(const mxcheck_call& call, const mxcheck_matmul_policy& p, Groups& groups) {
  for (int i = inputs_before_groups(p); i < call.num_inputs; ++i) {
    const DLTensor& t = call.inputs[i];
    const DLTensor*& one = t.dtype.bits == 32 ? groups.index : groups.offsets;
    if (t.ndim != 1 || t.dtype.code != kDLInt || one != nullptr) return "neither offsets nor index";
    if (t.dtype.bits == 32 || t.dtype.bits == 64) one = &t;
  }
  groups.masked = p.grouping == MXCHECK_MASKED;
  if (groups.masked && groups.index != nullptr) return "masked groups have no row index";
  return groups.none() == (p.grouping == 0) ? nullptr : "offsets go with groups";
}

const char* problem_of_tensors(const mxcheck_call& call, const mxcheck_matmul_policy& p, const Groups& groups) {
  const DLTensor* in = call.inputs;
  const std::int64_t m = p.policy.rows;
  const std::int64_t n = p.policy.cols;
  const std::int64_t matrices = p.grouping == MXCHECK_ROWS || groups.masked ? groups.experts() : 1;
  const std::int64_t results = p.grouping == MXCHECK_DEPTH ? groups.experts() : 1;
  if (groups.index == nullptr ? in[0].shape[0] != m : groups.index->shape[0] != m) return "rows differ";
  if (in[0].ndim != 2) return "a is no matrix";
  const std::int64_t a_rows = in[0].shape[0];
  const Format a = *mxcheck::find_format(p.policy.format);
  const int width = std::max(8, mxcheck::spec(a).bits);
  const std::int64_t line = p.scale_type == MXCHECK_E4M3 ? (p.depth + 1) / 2 : p.depth;
  const int type = a == Format::bf16 ? kDLBfloat : width <= 8 ? kDLUInt : kDLFloat;
  const int out_bits = call.outputs[0].dtype.bits;
  const int out_type = out_bits == 16 ? kDLBfloat : kDLFloat;
  bool right = has_shape(in[0], a_rows, line, type, width) && has_shape(in[1], matrices * n, line, type, width) &&
               has_shape(call.outputs[0], results * m, n, out_type, out_bits);
  if (p.scale_type != 0) {
    const int scale_bits = p.scale_type == MXCHECK_FP32 ? 32 : 8;
    const int scale_code = p.scale_type == MXCHECK_FP32 ? kDLFloat : kDLUInt;
    const std::int64_t columns = groups.scale_columns(p);
    right = right && has_shape(in[2], blocks(a_rows, p.policy.block_rows), columns, scale_code, scale_bits) &&
            has_shape(in[3], matrices * blocks(n, p.block_b_rows), columns, scale_code, scale_bits);
  }
  if (p.accumulate != 0)
    right = right && has_shape(in[inputs_before_groups(p) - 1], results * m, n, out_type, out_bits);
  return right ? nullptr : "a tensor has another shape or type";
}

std::string faulty_contract(std::string_view contract, bool scaled) {
  const std::string_view injected = fault();
  if (injected == "no_promotion" && !scaled) return "sm90_fp8";
  if (injected == "promotes_every_256" && !scaled) return "sm90_fp8+promote256";
  if (injected == "fp32_sums") return "ieee_fp32";
  if (injected == "nvfp4_fp32_sums") return contract.ends_with("+decode") ? "ieee_fp32+decode" : std::string(contract);
  if (injected == "order_changes" && !contract.ends_with("+decode")) {  // from call to call, as with atomics
    static std::atomic<unsigned> calls{0};
    constexpr std::string_view kOrders[] = {"+descending", "", "exact", "ieee_fp32"};
    const std::string_view order = kOrders[calls++ % 4];
    return order.empty() || order[0] == '+' ? std::string(contract) + std::string(order) : std::string(order);
  }
  return std::string(contract) + (injected == "a_scale_first" ? "+a_first"
                                  : injected == "backwards"   ? "+descending"
                                                              : "");
}

// A's scales, each from the block of k before.
std::vector<std::byte> shifted_scales(const mxcheck::Matmul& x) {
  const std::size_t width = x.a.scale_format == Format::e8m0 ? 1 : 4;
  const auto* from = static_cast<const std::byte*>(x.a.scales);
  const std::size_t line = static_cast<std::size_t>(x.a.depth / x.a.block.cols) * width;
  std::vector<std::byte> shifted(from, from + line * static_cast<std::size_t>(x.a.rows));
  for (std::size_t i = 0; i < shifted.size(); ++i) {
    if (i % line >= width) shifted[i] = from[i - width];
  }
  return shifted;
}

// A's scales, of FP32, without their signs.
std::vector<std::byte> magnitudes(const mxcheck::Matmul& x) {
  const auto* from = static_cast<const std::byte*>(x.a.scales);
  std::vector<std::byte> scales(from, from + 4 * x.a.scale_row_stride * x.a.rows);
  for (std::size_t i = 3; i < scales.size(); i += 4) scales[i] &= std::byte{0x7F};
  return scales;
}

// Faults of NVFP4 operands.

std::uint8_t flushed_scale(std::uint8_t byte) { return (byte & 0x7FU) < 8 ? 0 : byte; }
std::uint8_t scale_without_nan(std::uint8_t byte) { return (byte & 0x7FU) == 0x7F ? 0x7E : byte; }
std::uint8_t without_half(std::uint8_t code) { return (code & 7U) == 1 ? 0 : code; }

void exchange_nibbles(std::vector<std::uint8_t>& codes, std::size_t depth) {
  for (std::size_t row = 0; row < codes.size(); row += depth) {
    for (std::size_t k = 0; k + 1 < depth; k += 2) std::swap(codes[row + k], codes[row + k + 1]);
  }
}

// Each scale for 32 of k: every second one is not read.
void widen_blocks(std::vector<std::uint8_t>& scales, std::size_t line) {
  for (std::size_t i = 0; i < scales.size(); ++i) {
    if (i % line % 2 == 1) scales[i] = scales[i - 1];
  }
}

// The nibble after the last of an odd k as one more product.
void read_on(mxcheck::Matmul& x, right::Nvfp4Operands& of, const mxcheck_call& call) {
  const std::int64_t depth = x.a.depth + x.a.depth % 2;
  for (int i = 0; i < 2; ++i) {
    const DLTensor& t = call.inputs[i];
    of.codes[i] = mxcheck::unpacked_rows({right::data_of(t), static_cast<std::size_t>(t.shape[0] * t.shape[1])}, depth);
    mxcheck::MatmulOperand& o = i == 0 ? x.a : x.b;
    o.codes = of.codes[i].data(), o.depth = o.row_stride = depth;
  }
}

// Scales of other bits than E4M3 has: what a kernel takes the bytes for.
std::vector<float> scales_as(const std::vector<std::uint8_t>& bytes, float (*value)(std::uint8_t)) {
  std::vector<float> scales;
  for (const std::uint8_t byte : bytes) scales.push_back(value(byte));
  return scales;
}
float signed_scale(std::uint8_t byte) { return static_cast<float>(mxcheck::decode(Format::e4m3, byte)); }
float power_of_two(std::uint8_t byte) { return static_cast<float>(mxcheck::decode(Format::e8m0, byte)); }

// fp32: where scales are kept that are no E4M3 any more.
void spoil_nvfp4(mxcheck::Matmul& x, const mxcheck_call& call, right::Nvfp4Operands& of, std::vector<float>& fp32) {
  const std::string_view injected = fault();
  const auto line = static_cast<std::size_t>(x.a.scale_row_stride);
  const auto each = [](std::vector<std::uint8_t>& bytes, std::uint8_t (*change)(std::uint8_t)) {
    std::transform(bytes.begin(), bytes.end(), bytes.begin(), change);
  };
  if (injected == "nvfp4_nibbles_exchanged") exchange_nibbles(of.codes[0], static_cast<std::size_t>(x.a.depth));
  if (injected == "nvfp4_odd_k_reads_on" && x.grouping != mxcheck::Grouping::depth) read_on(x, of, call);
  if (injected == "nvfp4_scales_of_32" && line > 0) widen_blocks(of.scales[0], line);
  if (injected == "nvfp4_scale_subnormals_flushed") each(of.scales[0], flushed_scale);
  if (injected == "nvfp4_scale_nan_is_448") each(of.scales[1], scale_without_nan);
  if (injected == "nvfp4_half_is_zero") each(of.codes[1], without_half);
  const bool is_signed = injected == "nvfp4_scale_sign_counts";
  if (is_signed || injected == "nvfp4_scales_read_as_e8m0") {
    fp32 = scales_as(of.scales[0], is_signed ? signed_scale : power_of_two);
    x.a.scale_format = Format::fp32, x.a.scales = fp32.data();
  }
  if (injected == "nvfp4_alpha_in_operand" && x.alpha != 1) {  // rounded with it to BF16
    fp32 = scales_as(of.scales[0], [](std::uint8_t byte) { return signed_scale(byte & 0x7FU); });
    for (float& scale : fp32) scale *= x.alpha;
    x.a.scale_format = Format::fp32, x.a.scales = fp32.data(), x.alpha = 1;
  }
}

// How a faulty kernel reads the counts.
std::vector<std::int64_t> wrong_counts(const mxcheck::Matmul& x) {
  std::vector<std::int64_t> counts(x.counts.begin(), x.counts.end());
  const std::vector<std::int64_t> right = counts;
  if (fault() == "masked_next_count") std::rotate(counts.begin(), counts.begin() + 1, counts.end());
  for (std::size_t e = 1; e < counts.size() && fault() == "masked_counts_are_ends"; ++e)
    counts[e] = std::max<std::int64_t>(0, right[e] - right[e - 1]);
  for (std::int64_t& n : counts) {
    if (fault() == "masked_whole_tiles_alone") n = n / 64 * 64;
  }
  return counts;
}

// Scales of A where those of groups without rows between them are.
std::vector<std::byte> packed_scales(const mxcheck::Matmul& x) {
  const std::size_t width = x.a.scale_format == Format::fp32 ? 4 : 1;
  const std::int64_t line = x.a.scale_row_stride * static_cast<std::int64_t>(width);
  const auto* from = static_cast<const std::byte*>(x.a.scales);
  std::vector<std::byte> scales(from, from + line * x.a.rows);
  std::int64_t packed = 0;
  for (std::int64_t e = 0; e < x.experts(); ++e) {
    const std::int64_t count = x.counts[static_cast<std::size_t>(e)];
    for (std::int64_t i = 0; i < count && line > 0; ++i)
      std::memcpy(scales.data() + (e * x.capacity() + i) * line, from + (packed + i) * line,
                  static_cast<std::size_t>(line));
    packed += count;
  }
  return scales;
}

// D of groups that follow one another, whatever their capacity.
void write_packed(mxcheck::Matmul x, std::byte* d) {
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t n : x.counts) offsets.push_back(offsets.back() + n);
  x.a.rows = offsets.back();
  x.grouping = mxcheck::Grouping::rows, x.offsets = offsets, x.counts = {};
  mxcheck::matmul(x, d);
}

// After the groups' rows, of this many bytes: rows that are another group's.
void write_into_neighbours(const mxcheck::Matmul& x, std::byte* d, std::int64_t line) {
  for (std::int64_t e = 0; e + 1 < x.experts() && x.capacity() > 0; ++e) {
    const std::int64_t count = x.counts[static_cast<std::size_t>(e)];
    const std::int64_t next = (e + 1) * x.capacity();
    if (fault() == "masked_empty_writes_a_row" && count == 0)
      std::memset(d + next * line, 0, static_cast<std::size_t>(line));
    const std::int64_t past = (count + 63) / 64 * 64 - x.capacity();  // of the last tile
    const std::int64_t rows = std::min(past, x.a.rows - next);
    if (fault() == "masked_tile_past_capacity" && rows > 0)
      std::memset(d + next * line, 0, static_cast<std::size_t>(rows * line));
  }
}

// Faults of masked groups; a row of D has `line` bytes.
void compute_masked(mxcheck::Matmul x, std::byte* d, std::int64_t line) {
  std::vector<std::int64_t> asked(x.counts.begin(), x.counts.end());
  for (std::int64_t& n : asked) {
    if (fault() == "masked_counts_clamped") n = std::clamp<std::int64_t>(n, 0, x.capacity());
  }
  x.counts = asked;
  check_matmul(x);
  std::vector<std::byte> scales;
  if (fault() == "masked_scales_packed" && x.a.scaled()) {
    scales = packed_scales(x);
    x.a.scales = scales.data();
  }
  if (fault() == "masked_capacity_ignored") return write_packed(x, d);
  const std::vector<std::int64_t> counts = wrong_counts(x);
  x.counts = counts;
  mxcheck::matmul(x, d);
  x.counts = asked;
  write_into_neighbours(x, d, line);
}

// D in BF16, cut from FP32.
void write_cut(mxcheck::Matmul& x, std::size_t count, std::byte* d) {
  std::vector<float> uncut(count);
  x.output = Format::fp32;
  mxcheck::matmul(x, uncut.data());
  for (std::size_t i = 0; i < count; ++i) std::memcpy(d + 2 * i, reinterpret_cast<const std::byte*>(&uncut[i]) + 2, 2);
}

// D in FP32 as alpha * sum + C, rounded once: a fused multiply-add in the epilogue.
void write_fused(mxcheck::Matmul x, std::size_t count, std::byte* d) {
  const auto* const c = static_cast<const float*>(x.c);
  const float alpha = x.alpha;
  x.c = nullptr, x.alpha = 1;
  std::vector<float> sums(count);
  mxcheck::matmul(x, sums.data());
  for (std::size_t i = 0; i < count; ++i) sums[i] = std::fma(alpha, sums[i], c[i]);
  std::memcpy(d, sums.data(), 4 * count);
}

// D in BF16 or FP32 as the sum of two halves of k, each of which was rounded to BF16: a split of k whose workspace is
// narrow.
void write_halves(mxcheck::Matmul x, std::size_t count, std::byte* d) {
  const Format output = x.output;
  x.output = Format::bf16;
  const std::int64_t half = x.a.depth / 256 * 128;
  const std::int64_t lengths[] = {half, x.a.depth - half};
  std::vector<std::uint16_t> parts[2];
  for (int i = 0; i < 2; ++i) {
    x.a.depth = x.b.depth = lengths[i];
    parts[i].resize(count);
    mxcheck::matmul(x, parts[i].data());
    for (mxcheck::MatmulOperand* o : {&x.a, &x.b}) {
      const std::int64_t width = (mxcheck::spec(o->format).bits + 7) / 8;
      o->codes = static_cast<const std::byte*>(o->codes) + half * width;
      if (o->scaled())
        o->scales = static_cast<const std::byte*>(o->scales) + half / 128 * (o->scale_format == Format::e8m0 ? 1 : 4);
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    const double sum = mxcheck::decode(Format::bf16, parts[0][i]) + mxcheck::decode(Format::bf16, parts[1][i]);
    const std::uint32_t word =
        mxcheck::encode(output, sum, mxcheck::Rounding::nearest_even, mxcheck::Overflow::non_saturate);
    std::memcpy(d + i * (output == Format::fp32 ? 4 : 2), &word, output == Format::fp32 ? 4 : 2);
  }
}

void compute(const mxcheck_call& call, const mxcheck_matmul_policy& p, std::string_view contract) {
  const std::string_view injected = fault();
  const bool scaled = p.scale_type != 0;
  const std::int64_t k = p.depth;
  right::Nvfp4Operands nvfp4;
  std::vector<float> fp32_scales;
  mxcheck::Matmul x = right::matmul_of(call, faulty_contract(contract, scaled), &nvfp4);
  if (p.scale_type == MXCHECK_E4M3) spoil_nvfp4(x, call, nvfp4, fp32_scales);
  std::vector<std::byte> other_scales;
  if (injected == "scale_before" && scaled && p.grouping == 0 && k % 128 == 0 && k > 0) {
    other_scales = shifted_scales(x);
    x.a.scales = other_scales.data();
  }
  if (injected == "scale_sign_lost" && scaled && x.a.scale_format == Format::fp32) {
    other_scales = magnitudes(x);
    x.a.scales = other_scales.data();
  }
  if (injected == "k_block_dropped" && k > 128) x.a.depth = x.b.depth = (k - 1) / 128 * 128;
  if (injected == "c_forgotten") x.c = nullptr, x.contract.from_c = false;
  const DLTensor& out = call.outputs[0];
  auto* d = const_cast<std::byte*>(right::data_of(out));
  const std::int64_t line = p.policy.cols * out.dtype.bits / 8;
  const std::int64_t rows = out.shape[0];
  if (injected == "d_cleared_first") std::memset(d, 0, static_cast<std::size_t>(rows * line));
  if (p.grouping == MXCHECK_MASKED && injected.starts_with("masked")) return compute_masked(x, d, line);
  if (injected == "output_cut" && out.dtype.bits == 16 && x.c == nullptr) {
    write_cut(x, static_cast<std::size_t>(rows * p.policy.cols), d);
  } else if (injected == "halves_in_bf16" && p.grouping != MXCHECK_DEPTH && k >= 256 && x.c == nullptr &&
             x.alpha == 1) {
    write_halves(x, static_cast<std::size_t>(rows * p.policy.cols), d);
  } else if (injected == "alpha_and_c_fused" && out.dtype.bits == 32 && x.c != nullptr && !x.contract.from_c) {
    write_fused(x, static_cast<std::size_t>(rows * p.policy.cols), d);
  } else {
    mxcheck::matmul(x, d);
  }
  if (injected == "last_row_zero" && p.policy.rows > 64 && p.policy.cols > 0)
    std::memset(d + (rows - 1) * line, 0, static_cast<std::size_t>(line));
  if (injected == "last_output_zero" && p.policy.rows > 64 && p.policy.cols > 0)
    std::memset(d + rows * line - out.dtype.bits / 8, 0, static_cast<std::size_t>(out.dtype.bits / 8));
}

mxcheck_status run_as(const mxcheck_call* call, std::string_view contract) {
  if (!right::has_fields(call)) return MXCHECK_INVALID;
  if (const char* problem = right::problem_of(*call, sizeof(mxcheck_matmul_policy), false))
    return refuse(call, MXCHECK_INVALID, problem);
  const mxcheck_matmul_policy* p = policy_of(call->policy);
  if (p == nullptr) return refuse(call, MXCHECK_INVALID, "no policy of a matmul");
  Groups groups;
  const char* problem = problem_of_policy(*call, *p);
  if (problem == nullptr) problem = find_groups(*call, *p, groups);
  if (problem == nullptr) problem = problem_of_tensors(*call, *p, groups);
  if (problem != nullptr) return refuse(call, MXCHECK_INVALID, problem);
  try {
    compute(*call, *p, contract);
  } catch (const std::exception& e) {
    return refuse(call, MXCHECK_INVALID, e.what());
  }
  return MXCHECK_OK;
}

mxcheck_status run_promoted(const mxcheck_call* call) { return run_as(call, "sm90_fp8+promote128"); }
// Sums begin at C, and alpha must be 1: supports() is not asked about this option.
mxcheck_status run_bf16(const mxcheck_call* call) {
  const mxcheck_matmul_policy* p = right::has_fields(call) ? policy_of(call->policy) : nullptr;
  if (p != nullptr && p->alpha != 1) return refuse(call, MXCHECK_UNSUPPORTED, "alpha is 1");
  return run_as(call, "sm90_bf16+from_c");
}

mxcheck_status run_nvfp4(const mxcheck_call* call) { return run_as(call, "sm90_bf16+decode"); }

constexpr mxcheck_operation kOperations[] = {
    {"matmul", "sm90_fp8+promote128", 0, 0, 1, 1, supports, nullptr, run_promoted},
    {"matmul", "sm90_bf16+from_c", 0, 0, 1, 1,
     [](const mxcheck_policy* p, DLDataType) {
       const mxcheck_matmul_policy* q = policy_of(p);
       return q != nullptr && q->grouping == 0 ? MXCHECK_OK : MXCHECK_UNSUPPORTED;
     },
     nullptr, run_bf16},
    {"matmul", "sm90_bf16+decode", 0, 0, 1, 1, supports_nvfp4, nullptr, run_nvfp4},
};
constexpr mxcheck_candidate_table kTable{
    MXCHECK_CANDIDATE_VERSION, sizeof(mxcheck_candidate_table), "host_matmul", "1", kDLCPU, 3, kOperations};

}  // namespace

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate() { return &kTable; }
