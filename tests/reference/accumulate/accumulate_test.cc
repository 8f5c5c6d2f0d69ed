// Tiles against numerics' accumulate(), output by output and bit for bit: all contracts, all mixes of formats, and data
// made for what the engine decides itself and for what it must not.

#include <bit>
#include <cfenv>
#include <thread>

#include "reference/accumulate/accumulate.h"
#include "reference/accumulate/operand.h"
#include "tests/kernels/cpu/simd_targets.h"
#include "tests/reference/accumulate/tile_problem.h"
#include "tests/testing.h"

#if defined(__SSE2__)
  #include <xmmintrin.h>
#endif

namespace mxcheck {
namespace {

// All mixes of formats that a contract takes; of `ieee_fp32`, which the plain model computes, one format by all.
template <class Body>
void for_each_mix(const Contract& contract, Body body) {
  for (Format fa : contract.operands) {
    if (contract.arithmetic == Arithmetic::ieee_fp32 && fa != Format::e5m2) continue;
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
        const TileProblem p = random_problem(contract, fa, fb, data, 3, seed % 2 == 0 ? 65 : 37, k, seed);
        p.expect_equal(p.whole(), p.expected());
      }
    });
  }
}

// Where it were, the last bits of C would be cut.
TEST(Accumulate, a_group_under_a_scale_of_zero_is_not_in_the_window) {
  const Contract& contract = contract_named("sm100_nvf4");
  const std::vector<std::uint8_t> ones(16, 0x2);
  const std::uint8_t zero = 0, large = 0x7E;
  const auto packed = [&](const std::uint8_t* scale) {
    return PackedOperand(contract, Format::e2m1, {ones.data(), 1, 16, 16, 1, scale, 1, 1, Format::e4m3});
  };
  const std::uint32_t c = std::bit_cast<std::uint32_t>(0x1.fffffep-20F);
  std::uint32_t word = c;
  accumulate_tile(packed(&zero), {0, 1}, packed(&large), {0, 1}, {0, 16}, &word, 1);
  EXPECT_EQ(word, c);
}

TEST(Accumulate, equals_the_plain_model_for_all_k) {
  unsigned seed = 1000;
  for (const Contract& contract : all_contracts()) {
    const Format format = contract.operands.front();
    for (std::int64_t k : {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 100, 512, 1030}) {
      for (Data data : {Data::normal, Data::cancelling}) {
        const TileProblem p = random_problem(contract, format, format, data, 2, 19, k, ++seed);
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
        const TileProblem p = random_problem(contract, fa, fb, data, 9, 130, 160, ++seed);
        p.expect_equal(p.whole(), p.expected());
      }
    });
  }
}

// A product of a code that is far below its row's largest, next to a window that comes down to it.
TEST(Accumulate, codes_far_below_their_row_count_where_the_window_is_low) {
  for (const std::string_view name : {"sm90_bf16", "sm90_tf32", "sm100_f16"}) {
    const Contract& contract = contract_named(name);
    for (int i = 0; i < 60; ++i) {
      const double x = std::ldexp(1.5, -20 - i);
      const double window = std::ldexp(1, -i);
      const std::uint32_t c = saturated(Format::fp32, window);
      // The last: the only product that is not zero has both its codes far down.
      for (const TileProblem& p :
           {chosen_problem(contract, contract.operands.front(), {{1, x}}, {{window, 1}}, {0}),
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
  std::mt19937 random(5);
  std::vector<std::vector<double>> rows(16);
  for (auto& row : rows) {
    for (int k = 0; k < 8; ++k) row.push_back(std::ldexp(1024 + static_cast<double>(random() % 1024), -75));
  }
  const TileProblem p = chosen_problem(contract, Format::fp32, rows, rows, std::vector<std::uint32_t>(256));
  p.expect_equal(p.whole(), p.expected());
}

// Finite terms beside an infinity or a NaN may cancel: the step is the special's all the same. Found by the gate on
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
  for (double units : {-1.0, -64.0, -65.0, -255.0, -256.0, -257.0, 0.0, 1.0})
    c.push_back(saturated(Format::fp32, std::ldexp(units, -25)));
  const TileProblem p = chosen_problem(contract, Format::e4m3, a, b, c);
  p.expect_equal(p.whole(), p.expected());
  EXPECT_EQ(p.whole()[0], 0x427FFFFFU);
}

TEST(Accumulate, no_k_leaves_c) {
  const Contract& contract = contract_named("sm90_fp8");
  const TileProblem p = random_problem(contract, Format::e4m3, Format::e4m3, Data::normal, 3, 5, 0, 1);
  EXPECT_EQ(p.whole(), p.c);
}

// Tiles at any place, with any width, in pieces of k: the same words, and nothing written beside them.
TEST(Accumulate, tiles_and_pieces_of_k_give_the_same_words) {
  for (const std::string_view name : {"sm90_fp8", "sm90_bf16", "sm100_mxf8f6f4", "sm90_fp8_fp16", "sm100_nvf4"}) {
    const Contract& contract = contract_named(name);
    const Format format = contract.operands.front();
    const TileProblem p = random_problem(contract, format, format, Data::normal, 71, 140, 136, 3);
    const PackedOperand a = p.a.packed(contract, 2);
    const PackedOperand b = p.b.packed(contract, 2);
    const std::vector<std::uint32_t> whole = p.whole();
    for (const Extent rows : {Extent{0, 1}, Extent{62, 67}, Extent{70, 71}, Extent{3, 3}}) {
      for (const Extent cols : {Extent{0, 140}, Extent{17, 18}, Extent{60, 70}, Extent{65, 139}, Extent{128, 140}}) {
        std::vector<std::uint32_t> acc = p.c;
        std::vector<std::uint32_t> want = p.c;
        std::uint32_t* at = acc.data() + rows.begin * p.n() + cols.begin;
        for (const Extent k : {Extent{0, 64}, Extent{64, 128}, Extent{128, 136}})
          accumulate_tile(a, rows, b, cols, k, at, p.n());
        for (std::int64_t i = rows.begin; i < rows.end; ++i)
          std::copy(whole.begin() + i * p.n() + cols.begin, whole.begin() + i * p.n() + cols.end,
                    want.begin() + i * p.n() + cols.begin);
        p.expect_equal(acc, want);
      }
    }
  }
}

TEST(Accumulate, threads_share_operands) {
  const Contract& contract = contract_named("sm90_bf16");
  const TileProblem p = random_problem(contract, Format::bf16, Format::bf16, Data::specials, 40, 100, 128, 4);
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
    for (const std::string_view name :
         {"exact", "sm90_fp8", "sm90_bf16", "sm100_f8f6f4", "sm90_tf32", "sm100_mxf8f6f4"}) {
      const Contract& contract = contract_named(name);
      const Format format = contract.operands.front();
      for (Data data : kAllData) {
        TileProblem p = random_problem(contract, format, format, data, 5, 70, 64, ++seed);
        p.what.append(" ").append(simd_target_name(target));
        p.expect_equal(p.whole(), p.expected());
      }
    }
  }
}

TEST(Accumulate, does_not_depend_on_the_rounding_mode_nor_on_flushed_subnormals) {
  unsigned seed = 4000;
  for (const std::string_view name : {"exact", "sm90_fp8", "sm90_bf16", "sm100_f8f6f4", "sm90_tf32"}) {
    const Contract& contract = contract_named(name);
    for (Data data : {Data::normal, Data::largest, Data::small, Data::spread, Data::subnormal}) {
      const Format format = name == "exact" ? Format::fp32 : contract.operands.front();
      const TileProblem p = random_problem(contract, format, format, data, 4, 64, 96, ++seed);
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

// Packed operands: panels, references and marks, and where codes of any width and stride are found again.

TEST(PackedOperand, holds_codes_of_every_width_and_stride) {
  const Contract& exact = contract_named("exact");
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint16_t> halves;
  std::vector<std::uint32_t> words;
  for (std::uint32_t i = 0; i < 12; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(0x30 + i));
    halves.push_back(static_cast<std::uint16_t>(0x3F80 + i));
    words.push_back(0x3F800000 + i);
  }
  const auto check = [&](Format format, const void* codes, auto code_at) {
    const PackedOperand rows(exact, format, {codes, 3, 4, 4});
    const PackedOperand columns(exact, format, {codes, 4, 3, 1, 4});
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t k = 0; k < 4; ++k) {
        const Factor want = factor(format, code_at(static_cast<std::size_t>(i * 4 + k)));
        for (const Factor& got : {rows.factor(i, k), columns.factor(k, i)}) {
          EXPECT_EQ(got.significand, want.significand);
          EXPECT_EQ(got.exponent, want.exponent);
        }
      }
    }
  };
  check(Format::e4m3, bytes.data(), [&](std::size_t i) { return bytes[i]; });
  check(Format::bf16, halves.data(), [&](std::size_t i) { return halves[i]; });
  check(Format::fp32, words.data(), [&](std::size_t i) { return words[i]; });
}

// A value is lane * 2^reference, the exponent lane + reference: of every code, in whole and in partial steps and
// panels.
TEST(PackedOperand, values_and_exponents_are_relative_to_the_steps_reference) {
  const Contract& contract = contract_named("sm90_fp8");
  constexpr std::int64_t kRows = 70;
  constexpr std::int64_t kK = 40;
  std::vector<std::uint8_t> codes;
  for (std::int64_t i = 0; i < kRows * kK; ++i) codes.push_back(static_cast<std::uint8_t>(i * 37 % 127));
  const PackedOperand x(contract, Format::e4m3, {codes.data(), kRows, kK, kK});
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t k = 0; k < 64; ++k) {
      const std::int64_t panel = row / 64;
      const std::int64_t step = k / 32;
      const std::int64_t lane = row % 64;
      const float value = x.values(panel, step)[k % 32].lane[lane];
      const std::int8_t exponent = x.exponents(panel, step)[k % 32].lane[lane];
      const int reference = x.references(panel, step).lane[lane];
      const Factor f = k < kK ? x.factor(row, k) : Factor{};
      if (f.significand == 0) {
        EXPECT_EQ(value, 0);
        EXPECT_EQ(exponent, PackedOperand::kZeroExponent);
      } else {
        EXPECT_EQ(std::ldexp(value, reference),
                  std::ldexp(static_cast<float>(f.significand), f.exponent - f.fraction_bits));
        EXPECT_EQ(exponent + reference, f.exponent);
        EXPECT_LE(exponent, 0);
      }
    }
  }
}

TEST(PackedOperand, marks_what_the_engine_must_not_decide) {
  std::vector<std::uint16_t> codes(64, 0);
  codes[16] = 0x7F80;                  // row 1: Inf
  codes[32] = 0x3F80, codes[33] = 31;  // row 2: 1 beside a code far below it
  const PackedOperand x(contract_named("sm90_bf16"), Format::bf16, {codes.data(), 4, 16, 16});
  EXPECT_EQ(x.references(0, 0).lane[0], PackedOperand::kZeroReference);
  EXPECT_EQ(x.references(0, 0).lane[1], PackedOperand::kSpecialReference);
  EXPECT_EQ(x.references(0, 0).lane[2], 0);
  EXPECT_TRUE(x.references(0, 0).deep);
  codes[33] = 0;
  EXPECT_FALSE(
      PackedOperand(contract_named("sm90_bf16"), Format::bf16, {codes.data(), 4, 16, 16}).references(0, 0).deep);
}

TEST(PackedOperand, takes_a_scale_into_the_reference) {
  const std::vector<std::uint8_t> codes(64, 0x38);  // 1
  const std::vector<std::uint8_t> scales{130, 255};
  OperandSource source{codes.data(), 2, 32, 32};
  source.scales = scales.data(), source.scale_row_stride = 1;
  const PackedOperand x(contract_named("sm100_mxf8f6f4"), Format::e4m3, source);
  EXPECT_EQ(x.references(0, 0).lane[0], 3);
  EXPECT_EQ(x.references(0, 0).lane[1], PackedOperand::kSpecialReference);
  EXPECT_EQ(*x.scales(1), 255);
}

}  // namespace
}  // namespace mxcheck
