#pragma once
// One tcgen05.mma by the engine's threads: each a row of D and half of the columns, a row of A in registers, B's
// columns decoded in shared memory, 32 at a time.
//
// The same numbers as emulation/sm100/tensor_core/multiply.cc, which has the reckoning: a product's term is
// trunc(P * 2^s) with s = E - W + 25 - f, and every step of that is exact in FP32 but the conversion, which truncates.
//
// A term is |.| < 2^27, so 16 of them fit in 32 bits. Exponents are 16 bits, two to a word: VIADDMNMX adds and takes
// the larger of two at once.
//
// The FP4 kinds are groups of 16 products of small integers (emulation/sm100/tensor_core/groups.h): four DP4A each, on
// elements that are packed four to a word.

#include "emulation/on_sm90/device.cuh"
#include "emulation/sm100/descriptor.h"
#include "emulation/sm100/tensor_core/elements.h"
#include "emulation/sm100/tensor_core/groups.h"

namespace mxcheck::emulation::on_sm90 {

using sm100::detail::ElementFacts;
using sm100::detail::facts;

inline constexpr int kZeroExponent = -4096;  // of a zero, an infinity, a NaN: no product's
inline constexpr int kWindowFloor = -133;
inline constexpr int kFractionBits = 25;
inline constexpr int kScaleBias = 127;
inline constexpr std::uint32_t kNanScale = 0xFF;

struct Decoded {
  float significand;  // with its sign
  int exponent;
  bool special;
};

__device__ __forceinline__ Decoded decode_element(const ElementFacts& f, std::uint32_t code, bool negate) {
  const std::uint32_t magnitude = code & ((1u << (f.bits - 1)) - 1);
  if (magnitude == 0) return {0, kZeroExponent, false};
  if (magnitude > f.max_code) return {0, kZeroExponent, true};
  const int field = static_cast<int>(magnitude >> f.mantissa_bits);
  const std::uint32_t hidden = 1u << f.mantissa_bits;
  const std::uint32_t m = (magnitude & (hidden - 1)) + (field == 0 ? 0 : hidden);
  const bool negative = (code >> (f.bits - 1) != 0) != negate;
  const float value = static_cast<float>(m);
  return {negative ? -value : value, (field == 0 ? 1 : field) - f.bias, false};
}

__device__ __forceinline__ std::uint32_t two(int low, int high) {
  return (static_cast<std::uint32_t>(low) & 0xFFFFu) | static_cast<std::uint32_t>(high) << 16;
}
__device__ __forceinline__ std::uint32_t both(int x) { return two(x, x); }
__device__ __forceinline__ int low_of(std::uint32_t x) { return static_cast<std::int16_t>(x & 0xFFFFu); }
__device__ __forceinline__ int high_of(std::uint32_t x) { return static_cast<std::int32_t>(x) >> 16; }

// A row of A, or a column of B, of the FP4 kinds: control.h.
struct Fp4Row {
  std::uint32_t twice[16];
  std::uint32_t some[2];
  std::uint32_t scales;
};

// Twice the values of 16 bits, four codes; `some` has a bit for each that is not zero.
__device__ __forceinline__ std::uint32_t four_of(std::uint32_t codes, bool negate, std::uint32_t& some) {
  std::uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int twice = sm100::detail::twice_of(codes >> (4 * i));
    word |= (static_cast<std::uint32_t>(negate ? -twice : twice) & 0xFFu) << (8 * i);
    if (twice != 0) some |= 1u << i;
  }
  return word;
}

__device__ __forceinline__ std::uint32_t sum_of_groups(sm100::MmaKind kind, const Fp4Row& a, const std::uint32_t* twice,
                                                       const std::uint32_t* some, std::uint32_t scales,
                                                       std::uint32_t addend) {
  using sm100::detail::group_scale;
  const bool ue4m3 = kind == sm100::MmaKind::mxf4nvf4_block16;
  const int shift = sm100::scales_of_row(kind) == 4 ? 8 : 4;  // two groups share a byte of blocks of 32
  sm100::detail::GroupTerm terms[sm100::detail::kGroups];
#pragma unroll
  for (int g = 0; g < sm100::detail::kGroups; ++g) {
    int dot = 0;
#pragma unroll
    for (int w = 4 * g; w < 4 * g + 4; ++w) {
      dot = __dp4a(static_cast<int>(a.twice[w]), static_cast<int>(twice[w]), dot);
    }
    const bool any = ((a.some[g / 2] & some[g / 2]) >> (16 * (g % 2)) & 0xFFFFu) != 0;
    const int byte = shift * g / 8 * 8;
    terms[g] = sm100::detail::group_term(dot, any, group_scale(ue4m3, a.scales >> byte & 0xFFu),
                                         group_scale(ue4m3, scales >> byte & 0xFFu));
  }
  return sm100::detail::word_of_groups(terms, ue4m3, addend);
}

struct Row {
  float significands[kMaxK];
  std::uint32_t exponents[kMaxK / 2];
};

// The sum of the first 2 * kWords products and `addend`, a word of D.
template <int kWords>
__device__ __forceinline__ std::uint32_t sum_of(const Row& a, const float* significands, const std::uint32_t* exponents,
                                                std::uint32_t addend, const sm100::detail::Output& out,
                                                int fraction_bits) {
  const sm100::detail::Addend c = sm100::detail::addend_of(out, addend);
  std::uint32_t window2 = both(kWindowFloor);
#pragma unroll
  for (int i = 0; i < kWords; ++i) window2 = __viaddmax_s16x2(a.exponents[i], exponents[i], window2);
  int window = max(low_of(window2), high_of(window2));
  window = max(window, static_cast<int>(c.exponent));
  const std::uint32_t shift = both(kFractionBits - fraction_bits + 127 - window);
  std::int64_t sum = sm100::detail::units_of(out, c, window);
  const std::uint32_t none = both(-32768);
#pragma unroll
  for (int first = 0; first < kWords; first += 8) {
    int part = 0;
#pragma unroll
    for (int i = first; i < first + 8; ++i) {
      const std::uint32_t e = __viaddmax_s16x2(a.exponents[i], exponents[i], none);
      const std::uint32_t fields = __viaddmax_s16x2(e, shift, both(1));
      const float low = __uint_as_float(fields << 23);
      const float high = __uint_as_float((fields & 0xFFFF0000u) << 7);
      part += __float2int_rz(__fmul_rn(__fmul_rn(a.significands[2 * i], significands[2 * i]), low));
      part += __float2int_rz(__fmul_rn(__fmul_rn(a.significands[2 * i + 1], significands[2 * i + 1]), high));
    }
    sum += part;
  }
  return sm100::detail::word_of(out, sum, window - kFractionBits);
}

// --- infinities and NaNs
// --------------------------------------------------------------------------------------------------------------

struct Specials {
  bool nan = false;
  bool positive = false;
  bool negative = false;

  __device__ __forceinline__ void product(const ElementFacts& fa, std::uint32_t a, bool negate_a,
                                          const ElementFacts& fb, std::uint32_t b, bool negate_b) {
    const std::uint32_t ma = a & ((1u << (fa.bits - 1)) - 1);
    const std::uint32_t mb = b & ((1u << (fb.bits - 1)) - 1);
    if (ma <= fa.max_code && mb <= fb.max_code) return;
    const bool nan_a = ma > fa.max_code + (fa.infinities ? 1 : 0);
    const bool nan_b = mb > fb.max_code + (fb.infinities ? 1 : 0);
    if (nan_a || nan_b || ma == 0 || mb == 0) {
      nan = true;
      return;
    }
    const bool minus = ((a >> (fa.bits - 1) != 0) != negate_a) != ((b >> (fb.bits - 1) != 0) != negate_b);
    (minus ? negative : positive) = true;
  }
  __device__ __forceinline__ void addend(const sm100::detail::Output& out, std::uint32_t c) {
    const std::uint32_t magnitude = c & (out.sign() - 1);
    if (magnitude > out.infinity()) nan = true;
    if (magnitude == out.infinity()) ((c & out.sign()) != 0 ? negative : positive) = true;
  }
  __device__ __forceinline__ bool any() const { return nan || positive || negative; }
  __device__ __forceinline__ std::uint32_t word(const sm100::detail::Output& out) const {
    if (nan || (positive && negative)) return out.nan;
    return (negative ? out.sign() : 0) | out.infinity();
  }
};

// --- the engine's threads

inline constexpr std::uint32_t kEngineBarrier = 15;  // named; a kernel has 1 to 14 for itself

__device__ __forceinline__ void sync_engine() {
  asm volatile("barrier.cta.sync %0, %1;" ::"n"(kEngineBarrier), "n"(kEngineThreads) : "memory");
}

// A descriptor holds 18 bits of an address. What a CTA's addresses have above them is its own: in a cluster each CTA's
// shared memory has another place in the window (its rank, in bits that the PTX ISA does not name).
inline constexpr std::uint32_t kDescriptorMask = 0x3FFFF;
__device__ __forceinline__ std::uint32_t own_window(const Control& c) { return shared_address(&c) & ~kDescriptorMask; }
// Where the kernel's shared memory ends, as a descriptor would say it.
__device__ __forceinline__ std::uint32_t shared_end(const Control& c) { return shared_address(&c) & kDescriptorMask; }

__device__ __forceinline__ bool allocated(const Control& c, std::uint32_t column, std::uint32_t columns) {
  for (const Allocation& a : c.allocations) {
    if (column >= a.column && column + columns <= a.column + a.columns) return true;
  }
  return false;
}
__device__ __forceinline__ void own_columns(const Control& c, std::uint32_t column, std::uint32_t columns) {
  if (allocated(c, column, columns)) return;
  for (std::uint32_t i = column; i < column + columns; ++i) {  // of two allocations side by side, or of none
    if (!allocated(c, i, 1)) stop(Code::column, i);
  }
}

__device__ __forceinline__ std::uint32_t load_code(std::uint32_t address, int bytes) {
  std::uint16_t code;
  if (bytes == 2) {
    asm volatile("ld.shared::cluster.u16 %0, [%1];" : "=h"(code) : "r"(address) : "memory");
  } else {
    std::uint32_t wide;
    asm volatile("ld.shared::cluster.u8 %0, [%1];" : "=r"(wide) : "r"(address) : "memory");
    return wide;
  }
  return code;
}

// --- mma
// --------------------------------------------------------------------------------------------------------------

// An operand as its CTAs hold it.
struct Operand {
  sm100::ReadMatrix matrix;
  sm100::OperandLayout layout;
  ElementFacts element;
  bool negate;
};

// The code at a row and k of an operand in the own CTA.
__device__ __forceinline__ std::uint32_t code_at(const Operand& o, std::uint32_t window, int row, int k) {
  return load_code(window + sm100::element_address(o.matrix, o.layout, row, k), o.layout.element_bytes);
}

// It is not inline, because it is rare and its registers are none of the sums'. It takes values, so that nothing has an
// address.
__device__ __noinline__ inline Specials specials_of(Operand a, std::uint32_t window, int row, Operand b,
                                                    const std::uint16_t* codes_b, bool nan_scale,
                                                    sm100::detail::Output out, std::uint32_t addend) {
  Specials s;
  s.addend(out, addend);
  s.nan = s.nan || nan_scale;
  for (int k = 0; k < a.layout.k; ++k) {
    s.product(a.element, code_at(a, window, row, k), a.negate, b.element, codes_b[k], b.negate);
  }
  return s;
}

// A row's scales from that of the id on.
__device__ __forceinline__ std::uint32_t scales_at(const Control& c, std::uint32_t address, int row, int id) {
  return c.tmem[(address + static_cast<unsigned>(row / 32)) * kTmemLanes + row % 32] >> (8 * id);
}
__device__ __forceinline__ std::uint32_t scale_at(const Control& c, std::uint32_t address, int row, int id) {
  return scales_at(c, address, row, id) & 0xFFu;
}

// A thread's part in one mma: a row of D, and every second half of a chunk's columns.
class Multiplication {
 public:
  __device__ __forceinline__ Multiplication(Control& c, const Command& command)
      : c_(c),
        command_(command),
        i_(sm100::read_instruction(command.kind, static_cast<int>(command.cta_group), command.instruction)),
        group_(static_cast<int>(command.cta_group)),
        a_{sm100::read_matrix(command.a), sm100::operand_layout(i_.kind, i_.a_mn_major, i_.m / group_), facts(i_.a),
           i_.negate_a},
        b_{sm100::read_matrix(command.b), sm100::operand_layout(i_.kind, i_.b_mn_major, i_.n / group_), facts(i_.b),
           i_.negate_b},
        t_(static_cast<int>(threadIdx.x - c.kernel_threads)),
        window_(own_window(c)) {}

  __device__ __forceinline__ void run() {
    check();
    sync_engine();  // nothing is read that is not right
    if (sm100::is_scaled(i_.kind)) {
      check_scales(command_.scales_a, a_.layout.rows);
      check_scales(command_.scales_b, i_.n);
    }
    if (sm100::is_fp4(i_.kind)) return run_fp4();
    const int row = t_ % static_cast<int>(kTmemLanes);
    const bool has_row = row < a_.layout.rows;
    if (has_row) load_row(row);
    const sm100::detail::Output out = i_.d_fp16 ? sm100::detail::kFp16 : sm100::detail::kFp32;
    const int part = t_ / static_cast<int>(kTmemLanes) * kPart;
    for (int first = 0; first < i_.n; first += static_cast<int>(kChunk)) {
      std::uint32_t words[kPart];
#pragma unroll
      for (int j = 0; j < kPart; ++j) {
        const int n = first + part + j;
        words[j] = 0;
        if (has_row && n < i_.n && command_.accumulate != 0) words[j] = word_of_d(row, n) & ((out.sign() << 1) - 1);
      }
      sync_engine();  // the columns before have been read
      load_columns(first);
      sync_engine();
#pragma unroll 1
      for (int j = 0; j < kPart; ++j) {
        const int n = first + part + j;
        if (has_row && n < i_.n) word_of_d(row, n) = result(row, part + j, out, words[0]);
#pragma unroll
        for (int i = 0; i + 1 < kPart; ++i) words[i] = words[i + 1];  // so that no index is a variable
      }
    }
  }

  // The same of the FP4 kinds: M is 128 of each CTA, so that every thread has a row.
  __device__ __forceinline__ void run_fp4() {
    const int row = t_ % static_cast<int>(kTmemLanes);
    Fp4Row a;
    load_fp4(
        a.twice, a.some, [&](int k) { return code_at(a_, window_, row, k); }, i_.negate_a);
    a.scales = scales_at(c_, command_.scales_a, row, i_.scale_a_id);
    const int part = t_ / static_cast<int>(kTmemLanes) * kPart;
    for (int first = 0; first < i_.n; first += static_cast<int>(kChunk)) {
      sync_engine();  // the columns before have been read
      load_fp4_columns(first);
      sync_engine();
#pragma unroll 1
      for (int j = part; j < part + kPart && first + j < i_.n; ++j) {
        std::uint32_t& word = word_of_d(row, first + j);
        word = sum_of_groups(i_.kind, a, c_.fp4.twice[j], c_.fp4.some[j], c_.fp4.scales[j],
                             command_.accumulate != 0 ? word : 0);
      }
    }
  }

 private:
  static constexpr int kPart = static_cast<int>(kChunk * kTmemLanes / kEngineThreads);

  // True if the operand's layout is one that can be read, and this thread's line of it lies in shared memory.
  __device__ __forceinline__ bool operand_fits(const Operand& o, std::uint32_t end) const {
    if (!o.matrix.broken.none() || !sm100::broken_rules(o.matrix, o.layout).none()) return false;
    const int units = sm100::units_of(o.layout);
    return t_ >= sm100::lines_of(o.layout) ||
           sm100::first_outside(o.matrix, o.layout.mn_major, t_, units, end) == units;
  }

  // The first thread says what is wrong with the command, each what is with its line; the launch is over then.
  __device__ __forceinline__ void check() const {
    const std::uint32_t end = shared_end(c_);
    const bool a_fits = operand_fits(a_, end);
    const bool b_fits = operand_fits(b_, end);
    if (t_ == 0 && !i_.broken.none()) stop(Code::instruction_descriptor, command_.instruction);
    if (i_.broken.none() && !a_fits) stop(Code::matrix_descriptor, command_.a);
    if (i_.broken.none() && !b_fits) stop(Code::matrix_descriptor, command_.b);
    if (t_ != 0) return;
    const bool split = group_ == 2 && i_.m == 128;  // D's columns between two halves of the lanes
    if (split && sm100::is_scaled(i_.kind)) stop(Code::form, 0);
    if (command_.to >> 16 != 0) stop(Code::d_address, command_.to);
    own_columns(c_, command_.to, static_cast<std::uint32_t>(split ? i_.n / 2 : i_.n));
    if (!sm100::is_scaled(i_.kind)) return;
    if (command_.scales_a >> 16 != 0) stop(Code::scale_address, command_.scales_a);
    if (command_.scales_b >> 16 != 0) stop(Code::scale_address, command_.scales_b);
    own_columns(c_, command_.scales_a, static_cast<std::uint32_t>(a_.layout.rows + 31) / 32);
    own_columns(c_, command_.scales_b, static_cast<std::uint32_t>(i_.n + 31) / 32);
  }

  // A row's scale lies in all four partitions, and each part of the tensor core reads its own.
  __device__ __forceinline__ void check_scales(std::uint32_t address, int rows) const {
    if (t_ >= rows) return;
    const std::uint32_t* cells = c_.tmem + (address + static_cast<unsigned>(t_ / 32)) * kTmemLanes + t_ % 32;
    if (cells[0] != cells[32] || cells[0] != cells[64] || cells[0] != cells[96]) {
      report(Code::scale_copies, address, static_cast<std::uint64_t>(t_));
    }
  }

  __device__ __forceinline__ std::uint32_t& word_of_d(int row, int n) const {
    const sm100::TmemPlace place = sm100::d_place(i_, row, n);
    return c_.tmem[(command_.to + place.column) * kTmemLanes + place.lane];
  }

  // The code at row n and k of B. Each CTA of a pair holds half of B's rows.
  __device__ __forceinline__ std::uint32_t code_b(int n, int k) const {
    const std::uint32_t address = window_ + sm100::element_address(b_.matrix, b_.layout, n % b_.layout.rows, k);
    if (group_ == 1) return load_code(address, sm100::element_bytes(i_.kind));
    return load_code(mapped(address, (rank() & ~1u) + (n >= b_.layout.rows ? 1 : 0)), sm100::element_bytes(i_.kind));
  }

  __device__ __forceinline__ void load_row(int row) {
    int scale_exponent = 0;
    special_ = false;
    nan_scale_ = false;
    if (sm100::is_scaled(i_.kind)) {
      const std::uint32_t s = scale_at(c_, command_.scales_a, row, i_.scale_a_id);
      scale_exponent = static_cast<int>(s) - kScaleBias;
      nan_scale_ = s == kNanScale;
      special_ = nan_scale_;
    }
#pragma unroll
    for (int w = 0; w < static_cast<int>(kMaxK / 2); ++w) {
      Decoded e[2] = {{0, kZeroExponent, false}, {0, kZeroExponent, false}};
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (2 * w + h < i_.k) e[h] = decode_element(a_.element, code_at(a_, window_, row, 2 * w + h), a_.negate);
        special_ = special_ || e[h].special;
        row_.significands[2 * w + h] = e[h].significand;
      }
      row_.exponents[w] = two(e[0].exponent + scale_exponent, e[1].exponent + scale_exponent);
    }
  }

  // A row's 32 bytes two by two, each two codes.
  template <class Byte>
  __device__ __forceinline__ static void load_fp4(std::uint32_t* twice, std::uint32_t* some, const Byte& byte,
                                                  bool negate) {
#pragma unroll
    for (int w = 0; w < 16; ++w) {
      std::uint32_t here = 0;
      twice[w] = four_of(byte(2 * w) | byte(2 * w + 1) << 8, negate, here);
      if (w % 8 == 0) some[w / 8] = 0;
      some[w / 8] |= here << (w % 8 * 4);
    }
  }

  // A thread a column: the first warp.
  __device__ __forceinline__ void load_fp4_columns(int first) const {
    const int n = first + t_;
    if (t_ >= static_cast<int>(kChunk) || n >= i_.n) return;
    load_fp4(
        c_.fp4.twice[t_], c_.fp4.some[t_], [&](int k) { return code_b(n, k); }, i_.negate_b);
    c_.fp4.scales[t_] = scales_at(c_, command_.scales_b, n, i_.scale_b_id);
  }

  // Eight threads a column, four elements each.
  __device__ __forceinline__ void load_columns(int first) const {
    Columns& columns = c_.columns;
    constexpr int kThreadsPerColumn = static_cast<int>(kEngineThreads / kChunk);
    constexpr int kEach = static_cast<int>(kMaxK) / kThreadsPerColumn;
    static_assert(kEach % 2 == 0 && 32 % kThreadsPerColumn == 0);
    const int j = t_ / kThreadsPerColumn;
    const int n = first + j;
    std::uint32_t s = kScaleBias;
    if (sm100::is_scaled(i_.kind) && n < i_.n) s = scale_at(c_, command_.scales_b, n, i_.scale_b_id);
    bool special = s == kNanScale;
    const int scale_exponent = static_cast<int>(s) - kScaleBias;
    const int k0 = t_ % kThreadsPerColumn * kEach;
#pragma unroll
    for (int w = 0; w < kEach / 2; ++w) {
      Decoded e[2] = {{0, kZeroExponent, false}, {0, kZeroExponent, false}};
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int k = k0 + 2 * w + h;
        if (n < i_.n && k < i_.k) {
          const std::uint32_t code = code_b(n, k);
          e[h] = decode_element(b_.element, code, b_.negate);
          columns.codes[j][k] = static_cast<std::uint16_t>(code);
        }
        special = special || e[h].special;
        columns.significands[j][k] = e[h].significand;
      }
      columns.exponents[j][k0 / 2 + w] = two(e[0].exponent + scale_exponent, e[1].exponent + scale_exponent);
    }
    const std::uint32_t lanes = __ballot_sync(0xFFFFFFFFu, special);
    if (t_ % kThreadsPerColumn == 0) {
      columns.special[j] = lanes >> (t_ % 32) & ((1u << kThreadsPerColumn) - 1);
      columns.nan_scale[j] = s == kNanScale ? 1 : 0;
    }
  }

  __device__ __forceinline__ std::uint32_t result(int row, int j, const sm100::detail::Output& out,
                                                  std::uint32_t addend) const {
    const Columns& columns = c_.columns;
    if (special_ || columns.special[j] != 0 || (addend & (out.sign() - 1)) >= out.infinity()) {
      const Specials s =
          specials_of(a_, window_, row, b_, columns.codes[j], nan_scale_ || columns.nan_scale[j] != 0, out, addend);
      if (s.any()) return s.word(out);
    }
    const int fraction_bits = a_.element.mantissa_bits + b_.element.mantissa_bits;
    return i_.k == 32 ? sum_of<16>(row_, columns.significands[j], columns.exponents[j], addend, out, fraction_bits)
                      : sum_of<8>(row_, columns.significands[j], columns.exponents[j], addend, out, fraction_bits);
  }

  Control& c_;
  const Command command_;
  const sm100::ReadInstruction i_;
  const int group_;
  const Operand a_;
  const Operand b_;
  const int t_;
  const std::uint32_t window_;
  Row row_;
  bool special_ = false;
  bool nan_scale_ = false;
};

}  // namespace mxcheck::emulation::on_sm90
