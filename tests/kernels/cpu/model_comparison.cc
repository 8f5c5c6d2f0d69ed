#include "tests/kernels/cpu/model_comparison.h"

#include "reference/quantize/scale_layout.h"
#include "tests/kernels/candidate_call.h"
#include "tests/kernels/cpu/simd_targets.h"

namespace mxcheck {
namespace {

mxcheck_policy policy_of(const Case& c, std::int64_t rows, std::int64_t cols) {
  mxcheck_policy p =
      make_policy(c.format == Format::e4m3 ? "e4m3" : "e5m2", c.recipe.c_str(), c.block.rows, c.block.cols, c.layout);
  p.rows = rows, p.cols = cols, p.threads = c.threads;
  return p;
}

std::vector<std::int64_t> scale_rows_of_experts(const Case& c, std::int64_t rows) {
  const std::vector<std::int64_t> ends = c.offsets.empty() ? std::vector<std::int64_t>{0, rows} : c.offsets;
  std::vector<std::int64_t> counts;
  for (std::size_t e = 0; e + 1 < ends.size(); ++e) {
    counts.push_back((ends[e + 1] - ends[e] + c.block.rows - 1) / c.block.rows);
  }
  return counts;
}

std::vector<std::uint8_t> in_layout(const Case& c, const std::vector<std::uint8_t>& compact, std::int64_t rows,
                                    std::int64_t scale_cols, std::uint8_t pad) {
  if (c.layout == MXCHECK_COMPACT) return compact;
  return to_layout(ScaleLayout::tcgen05, {scale_rows_of_experts(c, rows), scale_cols, c.block}, compact, pad);
}

TestTensor& scale_tensor(CandidateCall& call, mxcheck_layout layout, const std::vector<std::uint8_t>& expected,
                         std::int64_t scale_rows, std::int64_t scale_cols, bool filled) {
  const std::span<const std::byte> content = filled ? std::as_bytes(std::span(expected)) : std::span<const std::byte>{};
  if (layout == MXCHECK_TCGEN05) return call.flat(kU8Type, static_cast<std::int64_t>(expected.size()), content);
  return call.matrix(kU8Type, scale_rows, scale_cols, 0, content);
}

template <class T>
std::string first_difference(const char* what, const std::vector<T>& expected, const std::vector<T>& got) {
  if (expected.size() != got.size()) return std::string(what) + " differ in size";
  const auto at = std::mismatch(expected.begin(), expected.end(), got.begin());
  if (at.first == expected.end()) return "";
  return std::string(what) + "[" + std::to_string(at.first - expected.begin()) + "]: expected " +
         std::to_string(*at.first) + ", got " + std::to_string(*at.second) + "; ";
}

template <class T>
TestTensor& input(CandidateCall& call, const Sample<T>& x) {
  const std::int64_t elements = x.rows == 0 || x.cols == 0 ? 0 : (x.rows - 1) * x.stride + x.cols;
  return call.matrix(sizeof(T) == 2 ? kBf16Type : kFp32Type, x.rows, x.cols, x.stride,
                     std::as_bytes(std::span(x.bits).first(static_cast<std::size_t>(elements))));
}

mxcheck_status run(CandidateCall& call, const Case& c, const char* name, const std::vector<const TestTensor*>& in,
                   const std::vector<const TestTensor*>& out) {
  const UseControlBits control(c.mxcsr);
  return call.run(operation(*mxcheck_candidate(), name), in, out);
}

std::string failure(const CandidateCall& call, mxcheck_status status) {
  if (status != MXCHECK_OK) return "status " + std::to_string(status) + ": " + call.message.data();
  return call.kept_inside() ? "" : "wrote before an output's start; ";
}

// run(): the differences of one run; all targets must have none.
template <class Run>
std::string over_targets(const Case& c, const Run& run) {
  for (const std::int64_t target : simd_targets()) {
    const UseSimdTarget use(target);
    const std::string difference = run();
    if (!difference.empty()) return c.text() + ", " + simd_target_name(target) + ": " + difference;
  }
  return "";
}

}  // namespace

std::string Case::text() const {
  return std::string(spec(format).name) + " " + recipe + " " + to_text(block) +
         (layout == MXCHECK_TCGEN05 ? " tcgen05" : "") + ", " + std::to_string(offsets.size()) + " offsets, " +
         std::to_string(threads) + " threads";
}

template <class T>
std::string quantize_difference(const Case& c, const Sample<T>& x) {
  const QuantizedTensor q = quantize(x.view(), c.format, c.block, recipe_named(c.recipe), c.offsets);
  mxcheck_policy policy = policy_of(c, x.rows, x.cols);
  const std::vector<std::uint8_t> scales =
      in_layout(c, values_in<std::uint8_t>(q.scales().data), x.rows, q.scale_cols(), policy.pad_byte);
  const auto difference = [&] {
    CandidateCall call(policy);
    std::vector<const TestTensor*> in{&input(call, x)};
    if (!c.offsets.empty()) in.push_back(&call.offsets(c.offsets));
    const TestTensor& codes = call.matrix(kU8Type, x.rows, x.cols);
    const TestTensor& out = scale_tensor(call, c.layout, scales, q.scale_rows(), q.scale_cols(), false);
    const mxcheck_status status = run(call, c, "quantize", in, {&codes, &out});
    return failure(call, status) + first_difference("scales", scales, out.bytes()) +
           first_difference("codes", values_in<std::uint8_t>(q.codes.data), codes.bytes());
  };
  if (std::string text = over_targets(c, difference); !text.empty()) return text;
  for (const std::int32_t threads : c.also_threads) {
    policy.threads = threads;
    if (const std::string text = difference(); !text.empty())
      return c.text() + ", and with " + std::to_string(threads) + " threads: " + text;
  }
  return "";
}

template <class T>
std::string quantize_dual_difference(const Case& c, const Sample<T>& x) {
  const std::int64_t n = c.block.cols;
  const DualQuantized q = quantize_dual(x.view(), c.format, n, recipe_named(c.recipe), c.offsets);
  const mxcheck_policy policy = policy_of(c, x.rows, x.cols);
  Case columns = c;
  columns.block = {n, 1};
  const std::vector<std::uint8_t> scales =
      in_layout(c, values_in<std::uint8_t>(q.row.scales().data), x.rows, q.row.scale_cols(), policy.pad_byte);
  const std::vector<std::uint8_t> column_scales =
      in_layout(columns, values_in<std::uint8_t>(q.col.scales().data), x.rows, q.col.scale_cols(), policy.pad_byte);
  return over_targets(c, [&] {
    CandidateCall call(policy);
    std::vector<const TestTensor*> in{&input(call, x)};
    if (!c.offsets.empty()) in.push_back(&call.offsets(c.offsets));
    const TestTensor& codes = call.matrix(kU8Type, x.rows, x.cols);
    const TestTensor& out = scale_tensor(call, c.layout, scales, q.row.scale_rows(), q.row.scale_cols(), false);
    const TestTensor& column_codes = call.matrix(kU8Type, x.rows, x.cols);
    const TestTensor& column_out =
        scale_tensor(call, c.layout, column_scales, q.col.scale_rows(), q.col.scale_cols(), false);
    const mxcheck_status status = run(call, c, "quantize_dual", in, {&codes, &out, &column_codes, &column_out});
    return failure(call, status) + first_difference("row scales", scales, out.bytes()) +
           first_difference("row codes", values_in<std::uint8_t>(q.row.codes.data), codes.bytes()) +
           first_difference("column scales", column_scales, column_out.bytes()) +
           first_difference("column codes", values_in<std::uint8_t>(q.col.codes.data), column_codes.bytes());
  });
}

std::string dequantize_difference(const Case& c, const QuantizedTensor& q, Format wide) {
  std::vector<std::uint8_t> expected;
  const auto keep_bytes = [&](const auto& values) {
    expected.resize(values.size() * sizeof values[0]);
    if (!values.empty()) std::memcpy(expected.data(), values.data(), expected.size());
  };
  if (wide == Format::bf16) {
    keep_bytes(dequantize_bf16(q, c.offsets));
  } else {
    keep_bytes(dequantize(q, c.offsets));
  }
  const std::vector<std::uint8_t> scales =
      in_layout(c, values_in<std::uint8_t>(q.scales().data), q.rows(), q.scale_cols(), 0);
  return over_targets(c, [&] {
    CandidateCall call(policy_of(c, q.rows(), q.cols()));
    std::vector<const TestTensor*> in{&call.matrix(kU8Type, q.rows(), q.cols(), 0, q.codes.data),
                                      &scale_tensor(call, c.layout, scales, q.scale_rows(), q.scale_cols(), true)};
    if (!c.offsets.empty()) in.push_back(&call.offsets(c.offsets));
    const TestTensor& y = call.matrix(wide == Format::bf16 ? kBf16Type : kFp32Type, q.rows(), q.cols());
    const mxcheck_status status = run(call, c, "dequantize", in, {&y});
    return failure(call, status) + first_difference("bytes of y", expected, y.bytes());
  });
}

std::string scale_layout_difference(const Case& c, std::int64_t rows, std::int64_t cols) {
  const std::int64_t scale_rows = count_scale_rows(rows, c.block.rows, c.offsets);
  const std::int64_t scale_cols = cols == 0 ? 0 : c.block.cols == 0 ? 1 : (cols + c.block.cols - 1) / c.block.cols;
  std::vector<std::uint8_t> compact(static_cast<std::size_t>(scale_rows * scale_cols));
  Words words(static_cast<std::uint64_t>(rows * 1000 + cols));
  for (std::uint8_t& b : compact) b = static_cast<std::uint8_t>(words.next());
  Case tiled = c;
  tiled.layout = MXCHECK_TCGEN05;
  Case plain = c;
  plain.layout = MXCHECK_COMPACT;
  const mxcheck_policy policy = policy_of(c, rows, cols);
  const std::vector<std::uint8_t> tiles = in_layout(tiled, compact, rows, scale_cols, policy.pad_byte);
  const bool to_tiles = c.layout == MXCHECK_TCGEN05;
  CandidateCall call(policy);
  std::vector<const TestTensor*> in{&scale_tensor(call, to_tiles ? plain.layout : tiled.layout,
                                                  to_tiles ? compact : tiles, scale_rows, scale_cols, true)};
  if (!c.offsets.empty()) in.push_back(&call.offsets(c.offsets));
  const std::vector<std::uint8_t>& expected = to_tiles ? tiles : compact;
  const TestTensor& out = scale_tensor(call, c.layout, expected, scale_rows, scale_cols, false);
  const mxcheck_status status = run(call, c, "scale_layout", in, {&out});
  const std::string difference = failure(call, status) + first_difference("scales", expected, out.bytes());
  return difference.empty() ? ""
                            : c.text() + ", " + std::to_string(rows) + " x " + std::to_string(cols) + ": " + difference;
}

std::uint64_t Words::next() {
  std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return z ^ z >> 31;
}

template <class T>
Sample<T> random_sample(std::uint64_t seed, std::int64_t rows, std::int64_t cols, std::int64_t stride) {
  constexpr int kMantissa = 8 * static_cast<int>(sizeof(T)) - 9;
  Words words(seed);
  Sample<T> x{{}, rows, cols, stride == 0 ? cols : stride};
  x.bits.resize(static_cast<std::size_t>(rows * x.stride));
  const std::int64_t special_every = 1 + words.below(3) * 4000;  // specials: many, few, very few
  std::int64_t exponent = words.below(255);
  for (std::size_t i = 0; i < x.bits.size(); ++i) {
    const std::uint64_t word = words.next();
    if (i % 97 == 0) exponent = words.below(255);
    const std::int64_t field = std::clamp<std::int64_t>(exponent - static_cast<std::int64_t>(word % 20), 0, 254);
    std::uint64_t fraction = word >> 20 & ((1U << kMantissa) - 1);
    if (word >> 60 < 4) fraction &= std::uint64_t{7} << (kMantissa - 3);  // short fractions: ties, exact codes
    T bits =
        static_cast<T>(static_cast<std::uint64_t>(field) << kMantissa | fraction | (word >> 59 & 1) << (kMantissa + 8));
    if ((word >> 40) % 16 == 0 && words.below(special_every) == 0 && words.below(64) == 0)
      bits = static_cast<T>(T{0xFF} << kMantissa | (word & 1));
    if ((word >> 46) % 8 == 0) bits = static_cast<T>(bits & static_cast<T>(T{1} << (kMantissa + 8)));  // zeros
    x.bits[i] = bits;
  }
  return x;
}

template std::string quantize_difference(const Case&, const Sample<std::uint16_t>&);
template std::string quantize_difference(const Case&, const Sample<std::uint32_t>&);
template std::string quantize_dual_difference(const Case&, const Sample<std::uint16_t>&);
template std::string quantize_dual_difference(const Case&, const Sample<std::uint32_t>&);
template Sample<std::uint16_t> random_sample(std::uint64_t, std::int64_t, std::int64_t, std::int64_t);
template Sample<std::uint32_t> random_sample(std::uint64_t, std::int64_t, std::int64_t, std::int64_t);

}  // namespace mxcheck
