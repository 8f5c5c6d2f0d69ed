// Tiles against numerics' accumulate(), output by output and bit for bit: all contracts, all mixes of formats, and data
// made for what the engine decides itself and for what it must not.

#include "reference/accumulate/accumulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "tests/kernels/cpu/simd_targets.h"

#if defined(__SSE2__)
  #include <xmmintrin.h>
#endif

namespace mxcheck {
namespace {

enum class Data { normal, bits, wide, cancelling, subnormal, sparse, largest, specials, small, spread };

constexpr Data kAllData[] = {Data::normal, Data::bits,    Data::wide,     Data::cancelling, Data::subnormal,
                             Data::sparse, Data::largest, Data::specials, Data::small,      Data::spread};

std::string name_of(Data data) {
  constexpr std::string_view kNames[] = {"normal", "bits",    "wide",     "cancelling", "subnormal",
                                         "sparse", "largest", "specials", "small",      "spread"};
  return std::string(kNames[static_cast<std::size_t>(data)]);
}

using Random = std::mt19937;

std::uint32_t any_code(Format format, Random& random) {
  return static_cast<std::uint32_t>(random() & ((std::uint64_t{1} << spec(format).bits) - 1));
}

std::uint32_t encoded(Format format, double value) {
  return encode(format, value, Rounding::nearest_even, Overflow::saturate);
}

std::uint32_t finite_code(Format format, Random& random) {
  for (;;) {
    const std::uint32_t code = any_code(format, random);
    if (factor(format, code).kind == Factor::Kind::finite) return code;
  }
}

std::uint32_t random_sign(Format format, Random& random) {
  return static_cast<std::uint32_t>(random() & 1) << (spec(format).bits - 1);
}

std::uint32_t draw(Format format, Data data, Random& random) {
  const FormatSpec& f = spec(format);
  const std::uint32_t sign = random_sign(format, random);
  const double normal = std::normal_distribution<double>()(random);
  switch (data) {
    case Data::bits: return any_code(format, random);
    case Data::wide: return finite_code(format, random);
    case Data::subnormal:
      return random() % 4 != 0 ? sign | (any_code(format, random) & ((1U << f.mantissa_bits) - 1))
                               : encoded(format, normal);
    case Data::sparse: return random() % 4 != 0 ? sign : encoded(format, normal);
    case Data::largest: return random() % 64 != 0 ? f.max_code : sign | f.max_code;
    case Data::specials:
      if (random() % 256 != 0) return encoded(format, normal);
      return sign | (f.encoding == Encoding::ieee && random() % 2 == 0 ? f.max_code + 1 : f.nan_code);
    case Data::small: return encoded(format, std::ldexp(normal, f.exponent_bits == 8 ? -62 : -4));
    // Around the 50 and the 23 bits that decide who computes, for formats that reach so far.
    case Data::spread: return encoded(format, std::ldexp(normal, -static_cast<int>(random() % 64)));
    default: return encoded(format, normal);
  }
}

// An operand as tests make it: codes of rows x k, row-major or with k outermost, and scales.
struct Operand {
  Format format;
  std::int64_t rows;
  std::int64_t k;
  bool k_major;
  std::vector<std::uint32_t> codes;  // row-major
  std::vector<std::uint8_t> narrow;  // as the source holds them
  std::vector<std::uint16_t> half;
  std::vector<std::uint32_t> wide;
  std::vector<std::uint8_t> scales;
  Format scale_format = Format::e8m0;
  std::int64_t scales_a_row = 0;

  void lay_out() {
    for (std::int64_t i = 0; i < rows * k; ++i) {
      const std::int64_t at = k_major ? i % rows * k + i / rows : i;
      const std::uint32_t code = codes[static_cast<std::size_t>(at)];
      narrow.push_back(static_cast<std::uint8_t>(code));
      half.push_back(static_cast<std::uint16_t>(code));
      wide.push_back(code);
    }
  }

  [[nodiscard]] PackedOperand packed(const Contract& contract, int threads = 1) const {
    const int bits = spec(format).bits;
    const void* at = wide.data();
    if (bits <= 16) at = half.data();
    if (bits <= 8) at = narrow.data();
    OperandSource source{at, rows, k, k_major ? 1 : k, k_major ? rows : 1};
    if (!scales.empty()) source.scales = scales.data(), source.scale_row_stride = scales_a_row;
    source.scale_format = scale_format;
    return {contract, format, source, threads};
  }

  [[nodiscard]] std::vector<Factor> row(const Contract& contract, std::int64_t i) const {
    std::vector<Factor> out;
    for (std::int64_t j = 0; j < k; ++j) {
      out.push_back(operand(contract, format, codes[static_cast<std::size_t>(i * k + j)]));
    }
    return out;
  }
};

Operand random_operand(const Contract& contract, Format format, Data data, std::int64_t rows, std::int64_t k,
                       Random& random) {
  Operand o{format, rows, k, (random() & 1) != 0, {}, {}, {}, {}, {}};
  for (std::int64_t i = 0; i < rows * k; ++i) o.codes.push_back(draw(format, data, random));
  for (std::int64_t i = 0; data == Data::sparse && i < rows; i += 3) {
    std::fill_n(o.codes.begin() + i * k, k, 0U);
  }
  o.lay_out();
  if (contract.scale_terms == 0) return o;
  o.scale_format = contract.scales.front();
  o.scales_a_row = (k + contract.scale_terms - 1) / contract.scale_terms;
  for (std::int64_t i = 0; i < rows * o.scales_a_row; ++i) {
    const bool near = data != Data::bits && data != Data::wide;
    o.scales.push_back(static_cast<std::uint8_t>(!near                            ? random()
                                                 : o.scale_format == Format::e8m0 ? 120 + random() % 16
                                                                                  : 0x28 + random() % 32));
  }
  return o;
}

// b's products with a cancel in pairs.
void cancel(Operand& a, Operand& b) {
  for (Operand* o : {&a, &b}) {
    const std::uint32_t sign = 1U << (spec(o->format).bits - 1);
    for (std::int64_t i = 0; i < o->rows; ++i) {
      for (std::int64_t k = 1; k < o->k; k += 2) {
        auto* code = o->codes.data() + i * o->k + k;
        *code = o == &b ? code[-1] ^ sign : code[-1];
      }
    }
    o->narrow.clear(), o->half.clear(), o->wide.clear();
    o->lay_out();
  }
}

std::uint32_t draw_c(const Contract& contract, Random& random) {
  const Format format = contract.arithmetic == Arithmetic::fused ? contract.step.output.c : Format::fp32;
  const std::uint32_t sign = random_sign(format, random);
  const double normal = std::normal_distribution<double>()(random);
  switch (random() % 8) {
    case 0: return sign;
    case 1: return any_code(format, random);
    case 2: return encoded(format, std::ldexp(normal, 24));
    case 3: return encoded(format, std::ldexp(normal, -24));
    case 4: return sign | (any_code(format, random) & ((1U << spec(format).mantissa_bits) - 1));
    case 5: return encoded(format, std::ldexp(normal, static_cast<int>(random() % 250) - 125));
    default: return encoded(format, normal);
  }
}

struct Problem {
  const Contract& contract;
  Operand a;
  Operand b;
  std::vector<std::uint32_t> c;  // a.rows x b.rows
  std::string what;

  [[nodiscard]] std::int64_t n() const { return b.rows; }

  [[nodiscard]] std::vector<std::uint32_t> expected() const {
    std::vector<std::vector<Factor>> rows;
    for (std::int64_t j = 0; j < b.rows; ++j) rows.push_back(b.row(contract, j));
    std::vector<std::uint32_t> out = c;
    for (std::int64_t i = 0; i < a.rows; ++i) {
      const std::vector<Factor> row = a.row(contract, i);
      for (std::int64_t j = 0; j < n(); ++j) {
        const auto span = [](const Operand& o, std::int64_t r) {
          return std::span(o.scales).subspan(static_cast<std::size_t>(r * o.scales_a_row),
                                             static_cast<std::size_t>(o.scales_a_row));
        };
        std::uint32_t& word = out[static_cast<std::size_t>(i * n() + j)];
        const ContractScales scales{a.scale_format, span(a, i), span(b, j)};
        word = accumulate(contract, row, rows[static_cast<std::size_t>(j)], word,
                          contract.scale_terms == 0 ? nullptr : &scales);
      }
    }
    return out;
  }

  void expect_equal(const std::vector<std::uint32_t>& got, const std::vector<std::uint32_t>& want) const {
    int shown = 0;
    for (std::size_t at = 0; at < want.size() && shown < 3; ++at) {
      if (got[at] == want[at]) continue;
      ++shown;
      ADD_FAILURE() << what << " k " << a.k << " row " << at / static_cast<std::size_t>(n()) << " column "
                    << at % static_cast<std::size_t>(n()) << " c " << std::hex << c[at] << ": " << got[at]
                    << " instead of " << want[at];
    }
  }

  // As one tile.
  [[nodiscard]] std::vector<std::uint32_t> whole() const {
    std::vector<std::uint32_t> acc = c;
    accumulate_tile(a.packed(contract), {0, a.rows}, b.packed(contract), {0, n()}, {0, a.k}, acc.data(), n());
    return acc;
  }
};

Problem random_problem(const Contract& contract, Format fa, Format fb, Data data, std::int64_t m, std::int64_t n,
                       std::int64_t k, unsigned seed) {
  Random random(seed);
  Problem p{contract,
            random_operand(contract, fa, data, m, k, random),
            random_operand(contract, fb, data, n, k, random),
            {},
            {}};
  if (data == Data::cancelling) cancel(p.a, p.b);
  for (std::int64_t i = 0; i < m * n; ++i) p.c.push_back(draw_c(contract, random));
  p.what = std::string(contract.name) + " " + std::string(spec(fa).name) + " by " + std::string(spec(fb).name) + " " +
           name_of(data);
  return p;
}

// All mixes of formats that a contract takes; of those without a step, which the plain model computes, one format by
// all.
template <class Body>
void for_each_mix(const Contract& contract, Body body) {
  for (Format fa : contract.operands) {
    if (contract.arithmetic != Arithmetic::fused && fa != Format::e5m2) continue;
    for (Format fb : contract.operands) {
      if (fa == fb || contract.mixes) body(fa, fb);
    }
  }
}

TEST(Accumulate, hopper_takes_the_engine_and_so_do_steps_like_it) {
  std::string names;
  for (const Contract& contract : all_contracts()) {
    if (runs_on_engine(contract)) names += std::string(contract.name) + " ";
  }
  EXPECT_EQ(names, "sm90_fp8 sm90_bf16 sm90_fp16 sm90_tf32 sm100_f8f6f4 sm100_f16 sm100_tf32 sm100_mxf8f6f4 ");
}

TEST(Accumulate, equals_the_plain_model_for_all_contracts_formats_and_data) {
  unsigned seed = 0;
  for (const Contract& contract : all_contracts()) {
    for_each_mix(contract, [&](Format fa, Format fb) {
      for (Data data : kAllData) {
        ++seed;
        const std::int64_t k = seed % 3 == 0 ? 100 : 65;
        const Problem p = random_problem(contract, fa, fb, data, 3, seed % 2 == 0 ? 65 : 37, k, seed);
        p.expect_equal(p.whole(), p.expected());
      }
    });
  }
}

TEST(Accumulate, equals_the_plain_model_for_all_k) {
  unsigned seed = 1000;
  for (const Contract& contract : all_contracts()) {
    const Format format = contract.operands.front();
    for (std::int64_t k : {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 100, 512, 1030}) {
      for (Data data : {Data::normal, Data::cancelling}) {
        const Problem p = random_problem(contract, format, format, data, 2, 19, k, ++seed);
        p.expect_equal(p.whole(), p.expected());
      }
    }
  }
}

TEST(Accumulate, equals_the_plain_model_for_more_data_on_hopper) {
  unsigned seed = 2000;
  for (const std::string_view name : {"sm90_fp8", "sm90_bf16", "sm90_fp16", "sm90_tf32"}) {
    const Contract& contract = contract_named(name);
    for_each_mix(contract, [&](Format fa, Format fb) {
      for (Data data : kAllData) {
        const Problem p = random_problem(contract, fa, fb, data, 9, 130, 160, ++seed);
        p.expect_equal(p.whole(), p.expected());
      }
    });
  }
}

Problem chosen_problem(const Contract& contract, Format format, const std::vector<std::vector<double>>& a,
                       const std::vector<std::vector<double>>& b, const std::vector<std::uint32_t>& c) {
  const auto operand_of = [&](const std::vector<std::vector<double>>& rows) {
    Operand o{format,
              static_cast<std::int64_t>(rows.size()),
              static_cast<std::int64_t>(rows[0].size()),
              false,
              {},
              {},
              {},
              {},
              {}};
    for (const auto& row : rows) {
      for (double x : row) o.codes.push_back(encoded(format, x));
    }
    o.lay_out();
    return o;
  };
  return {contract, operand_of(a), operand_of(b), c, std::string(contract.name) + " chosen"};
}

// A product of a code that is far below its row's largest, next to a window that comes down to it.
TEST(Accumulate, codes_far_below_their_row_count_where_the_window_is_low) {
  for (const std::string_view name : {"sm90_bf16", "sm90_tf32", "sm100_f16"}) {
    const Contract& contract = contract_named(name);
    for (int i = 0; i < 60; ++i) {
      const double x = std::ldexp(1.5, -20 - i);
      const double window = std::ldexp(1, -i);
      const std::uint32_t c = encoded(Format::fp32, window);
      // The last: the only product that is not zero has both its codes far down.
      for (const Problem& p : {chosen_problem(contract, contract.operands.front(), {{1, x}}, {{window, 1}}, {0}),
                               chosen_problem(contract, contract.operands.front(), {{1, x}}, {{0, 1}}, {c}),
                               chosen_problem(contract, contract.operands.front(), {{1, x, 0}}, {{0, x, 1}}, {0})}) {
        p.expect_equal(p.whole(), p.expected());
      }
    }
  }
}

// Products of 2^-130 whose sum is a normal number: what is kept of them tells the floor from one of -120.
TEST(Accumulate, the_floor_of_the_window_is_the_contracts) {
  const Contract& contract = contract_named("sm90_tf32");
  Random random(5);
  std::vector<std::vector<double>> rows(16);
  for (auto& row : rows) {
    for (int k = 0; k < 8; ++k) row.push_back(std::ldexp(1024 + static_cast<double>(random() % 1024), -75));
  }
  const Problem p = chosen_problem(contract, Format::fp32, rows, rows, std::vector<std::uint32_t>(256));
  p.expect_equal(p.whole(), p.expected());
}

// What is finite beside an infinity or a NaN may cancel: the step is the special's all the same. Found by the gate on
// an H200, whose tensor cores were right.
TEST(Accumulate, specials_beside_a_sum_of_nothing) {
  const Contract& contract = contract_named("sm90_fp8");
  constexpr std::uint8_t kOne = 0x3C;  // of E5M2
  constexpr std::uint8_t kMinusOne = 0xBC;
  for (const std::uint8_t special : std::initializer_list<std::uint8_t>{0x7C, 0xFC, 0x7F}) {
    for (const std::uint8_t beside : {std::uint8_t{0x00}, kOne, kMinusOne}) {
      std::vector<std::uint8_t> x(32, 0);
      std::vector<std::uint8_t> y(32, kOne);
      x[0] = kOne, x[1] = kMinusOne, x[2] = special;
      y[2] = beside;
      const PackedOperand px(contract, Format::e5m2, {x.data(), 1, 32, 32});
      const PackedOperand py(contract, Format::e5m2, {y.data(), 1, 32, 32});
      std::vector<Factor> fx;
      std::vector<Factor> fy;
      for (std::size_t k = 0; k < 32; ++k)
        fx.push_back(factor(Format::e5m2, x[k])), fy.push_back(factor(Format::e5m2, y[k]));
      std::uint32_t xy = 0;
      std::uint32_t yx = 0;
      accumulate_tile(px, {0, 1}, py, {0, 1}, {0, 32}, &xy, 1);
      accumulate_tile(py, {0, 1}, px, {0, 1}, {0, 32}, &yx, 1);
      EXPECT_EQ(xy, accumulate(contract, fx, fy, 0)) << int{special} << " " << int{beside};
      EXPECT_EQ(yx, accumulate(contract, fy, fx, 0)) << int{special} << " " << int{beside};
    }
  }
}

// Sums on either side of 2^31 units: 16 * 1.75 + 16 * 2.25 = 64, and c.
TEST(Accumulate, sums_of_31_bits_are_right) {
  const Contract& contract = contract_named("sm100_f8f6f4");
  std::vector<std::vector<double>> a(1, std::vector<double>(32, 1.5));
  std::vector<std::vector<double>> b(8, std::vector<double>(32, 1.5));
  for (std::size_t k = 0; k < 32; k += 2) {
    a[0][k] = 1.75;
    for (auto& row : b) row[k] = 1;
  }
  std::vector<std::uint32_t> c;
  for (double units : {-1.0, -64.0, -65.0, -255.0, -256.0, -257.0, 0.0, 1.0}) {
    c.push_back(encoded(Format::fp32, std::ldexp(units, -25)));
  }
  const Problem p = chosen_problem(contract, Format::e4m3, a, b, c);
  p.expect_equal(p.whole(), p.expected());
  EXPECT_EQ(p.whole()[0], 0x427FFFFFU);
}

TEST(Accumulate, no_k_leaves_c) {
  const Contract& contract = contract_named("sm90_fp8");
  const Problem p = random_problem(contract, Format::e4m3, Format::e4m3, Data::normal, 3, 5, 0, 1);
  EXPECT_EQ(p.whole(), p.c);
}

// Tiles at any place, with any width, in pieces of k: the same words, and nothing written beside them.
TEST(Accumulate, tiles_and_pieces_of_k_give_the_same_words) {
  for (const std::string_view name : {"sm90_fp8", "sm90_bf16", "sm100_mxf8f6f4", "sm90_fp8_fp16", "sm100_nvf4"}) {
    const Contract& contract = contract_named(name);
    const Format format = contract.operands.front();
    const Problem p = random_problem(contract, format, format, Data::normal, 71, 140, 136, 3);
    const PackedOperand a = p.a.packed(contract, 2);
    const PackedOperand b = p.b.packed(contract, 2);
    const std::vector<std::uint32_t> whole = p.whole();
    for (const Extent rows : {Extent{0, 1}, Extent{62, 67}, Extent{70, 71}, Extent{3, 3}}) {
      for (const Extent cols : {Extent{0, 140}, Extent{17, 18}, Extent{60, 70}, Extent{65, 139}, Extent{128, 140}}) {
        std::vector<std::uint32_t> acc = p.c;
        std::vector<std::uint32_t> want = p.c;
        std::uint32_t* at = acc.data() + rows.begin * p.n() + cols.begin;
        for (const Extent k : {Extent{0, 64}, Extent{64, 128}, Extent{128, 136}}) {
          accumulate_tile(a, rows, b, cols, k, at, p.n());
        }
        for (std::int64_t i = rows.begin; i < rows.end; ++i) {
          std::copy(whole.begin() + i * p.n() + cols.begin, whole.begin() + i * p.n() + cols.end,
                    want.begin() + i * p.n() + cols.begin);
        }
        p.expect_equal(acc, want);
      }
    }
  }
}

TEST(Accumulate, threads_share_operands) {
  const Contract& contract = contract_named("sm90_bf16");
  const Problem p = random_problem(contract, Format::bf16, Format::bf16, Data::specials, 40, 100, 128, 4);
  const PackedOperand a = p.a.packed(contract);
  const PackedOperand b = p.b.packed(contract);
  std::vector<std::uint32_t> acc = p.c;
  {
    std::vector<std::jthread> threads;
    for (std::int64_t i = 0; i < 40; i += 10) {
      threads.emplace_back([&, i] {
        accumulate_tile(a, {i, i + 10}, b, {0, 100}, {0, 128}, acc.data() + i * 100, 100);
      });
    }
  }
  p.expect_equal(acc, p.whole());
}

TEST(Accumulate, every_simd_target_gives_the_same_words) {
  for (const std::int64_t target : simd_targets()) {
    const UseSimdTarget use(target);
    unsigned seed = 3000;
    for (const std::string_view name : {"sm90_fp8", "sm90_bf16", "sm100_f8f6f4", "sm90_tf32", "sm100_mxf8f6f4"}) {
      const Contract& contract = contract_named(name);
      const Format format = contract.operands.front();
      for (Data data : kAllData) {
        Problem p = random_problem(contract, format, format, data, 5, 70, 64, ++seed);
        p.what.append(" ").append(simd_target_name(target));
        p.expect_equal(p.whole(), p.expected());
      }
    }
  }
}

TEST(Accumulate, does_not_depend_on_the_rounding_mode_nor_on_flushed_subnormals) {
  unsigned seed = 4000;
  for (const std::string_view name : {"sm90_fp8", "sm90_bf16", "sm100_f8f6f4", "sm90_tf32"}) {
    const Contract& contract = contract_named(name);
    const Format format = contract.operands.front();
    for (Data data : {Data::normal, Data::largest, Data::small, Data::spread, Data::subnormal}) {
      const Problem p = random_problem(contract, format, format, data, 4, 64, 96, ++seed);
      const std::vector<std::uint32_t> want = p.expected();
      for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
        std::fesetround(mode);
        const std::vector<std::uint32_t> got = p.whole();
        std::fesetround(FE_TONEAREST);
        p.expect_equal(got, want);
      }
#if defined(__SSE2__)
      const unsigned control = _mm_getcsr();
      _mm_setcsr(control | 0x8040);  // flush to zero, denormals are zeros
      const std::vector<std::uint32_t> got = p.whole();
      _mm_setcsr(control);
      p.expect_equal(got, want);
#endif
    }
  }
}

TEST(Accumulate, wrong_requests_are_refused) {
  const Contract& fp8 = contract_named("sm90_fp8");
  const std::vector<std::uint8_t> codes(4 * 64);
  const PackedOperand a(fp8, Format::e4m3, {codes.data(), 4, 64, 64});
  const PackedOperand shorter(fp8, Format::e4m3, {codes.data(), 4, 32, 32});
  const PackedOperand other(contract_named("sm100_f8f6f4"), Format::e4m3, {codes.data(), 4, 64, 64});
  std::vector<std::uint32_t> acc(16);
  const auto tile = [&](const PackedOperand& b, Extent rows, Extent cols, Extent k) {
    accumulate_tile(a, rows, b, cols, k, acc.data(), 4);
  };
  EXPECT_NO_THROW(tile(a, {0, 4}, {0, 4}, {0, 64}));
  EXPECT_THROW(tile(shorter, {0, 4}, {0, 4}, {0, 32}), Error);
  EXPECT_THROW(tile(other, {0, 4}, {0, 4}, {0, 64}), Error);
  EXPECT_THROW(tile(a, {0, 5}, {0, 4}, {0, 64}), Error);
  EXPECT_THROW(tile(a, {0, 4}, {2, 1}, {0, 64}), Error);
  EXPECT_THROW(tile(a, {0, 4}, {-1, 4}, {0, 64}), Error);
  EXPECT_THROW(tile(a, {0, 4}, {0, 4}, {16, 64}), Error);
  EXPECT_THROW(tile(a, {0, 4}, {0, 4}, {0, 33}), Error);
  EXPECT_THROW(PackedOperand(fp8, Format::bf16, {codes.data(), 1, 64, 64}), Error);
  EXPECT_THROW(PackedOperand(contract_named("sm100_mxf8f6f4"), Format::e4m3, {codes.data(), 4, 64, 64}), Error);
  OperandSource scaled{codes.data(), 4, 64, 64};
  scaled.scales = codes.data();
  EXPECT_THROW(PackedOperand(fp8, Format::e4m3, scaled), Error);
  scaled.scale_format = Format::e4m3;
  EXPECT_THROW(PackedOperand(contract_named("sm100_mxf8f6f4"), Format::e4m3, scaled), Error);
}

}  // namespace
}  // namespace mxcheck
