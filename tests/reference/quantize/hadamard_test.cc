// The randomized Hadamard transform: against the matrix written out, against its inverse, and its three sums against
// one another where their bits must be equal and where they must not.

#include "reference/quantize/hadamard.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "reference/matmul/matmul.h"
#include "tests/reference/common/test_matrix.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

constexpr std::array<std::uint32_t, 4> kSigns{0x1F35C2A7, 0xFFFF0001, 0x80000000, 0x5555AAAA};

bool negated(const Hadamard& t, std::int64_t i) {
  return (t.signs[static_cast<std::size_t>(i / 32)] >> (i % 32) & 1) != 0;
}

// Sylvester's recursion H(2n) = [H H; H -H]: entry (i, j), by halving the matrix.
int entry(std::int64_t n, std::int64_t i, std::int64_t j) {
  if (n == 1) return 1;
  const std::int64_t half = n / 2;
  const int sign = i >= half && j >= half ? -1 : 1;
  return sign * entry(half, i % half, j % half);
}

// Integers from -1000 to 1000 in units of 2^-7: sums of 128 of them are exact in a double and in FP32.
std::vector<float> short_values(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(static_cast<int>(engine() % 2001) - 1000) / 128);
  return values;
}

std::vector<float> floats_of(const Tensor& t) {
  std::vector<float> values;
  for (std::size_t i = 0; i < t.size(); ++i) values.push_back(static_cast<float>(decode(t.format, t.code(i))));
  return values;
}

TEST(Hadamard, exact_sums_are_those_of_the_matrix_written_out) {
  for (const int n : kHadamardSizes) {
    const Hadamard t{n, kSigns, HadamardSum::exact, "", Format::fp32};
    const std::int64_t rows = 3;
    const std::int64_t cols = 2 * n;
    const std::vector<float> x = short_values(rows * cols, static_cast<std::uint64_t>(n));
    const std::vector<float> y = floats_of(hadamard(TestMatrix(Format::fp32, rows, cols, x, 3).view(), t, Along::rows));
    const double c = static_cast<float>(1 / std::sqrt(n));
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t col = 0; col < cols; ++col) {
        double sum = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          const double v = x[static_cast<std::size_t>(r * cols + col / n * n + i)];
          sum += (negated(t, i) ? -v : v) * entry(n, i, col % n);
        }
        ASSERT_EQ(y[static_cast<std::size_t>(r * cols + col)], static_cast<float>(sum * c))
            << n << " " << r << " " << col;
      }
    }
  }
}

TEST(Hadamard, columns_are_the_rows_of_the_transpose_and_threads_change_nothing) {
  const std::int64_t rows = 96;
  const std::int64_t cols = 32;
  const std::vector<float> x = random_values(rows * cols, 7);
  std::vector<float> xt(x.size());
  for (std::int64_t i = 0; i < rows * cols; ++i)
    xt[static_cast<std::size_t>(i % cols * rows + i / cols)] = x[static_cast<std::size_t>(i)];
  for (const auto& [name, sum] : kHadamardSums) {
    const Hadamard t{16, kSigns, sum, "sm90_bf16", Format::bf16};
    const Tensor down = hadamard(TestMatrix(Format::bf16, rows, cols, x, 1).view(), t, Along::columns, {}, 3);
    const Tensor along = hadamard(TestMatrix(Format::bf16, cols, rows, xt).view(), t, Along::rows, {}, 1);
    EXPECT_EQ(down.data, transposed(along).data) << name;
    const std::vector<std::int64_t> offsets{0, 16, 16, 96};
    EXPECT_EQ(down.data, hadamard(TestMatrix(Format::bf16, rows, cols, x).view(), t, Along::columns, offsets).data);
  }
}

// Twice, signs in front the first time and none the second, is the signs alone: H is symmetric and orthogonal.
TEST(Hadamard, the_transform_without_signs_is_its_inverse) {
  for (const int n : {16, 64}) {  // whose factor is a power of two
    for (const HadamardSum sum : {HadamardSum::exact, HadamardSum::butterfly}) {
      const Hadamard t{n, kSigns, sum, "", Format::fp32};
      const std::vector<float> x = short_values(4 * n, 5);
      const std::vector<float> y = floats_of(hadamard(fp32_matrix(2, 2 * n, x).view(), t, Along::rows));
      const std::vector<float> back =
          floats_of(hadamard(fp32_matrix(2, 2 * n, y).view(), {n, {}, sum, "", Format::fp32}, Along::rows));
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(back[i], negated(t, static_cast<std::int64_t>(i) % n) ? -x[i] : x[i]) << n << " " << i;
      }
    }
  }
}

// The matrix product that a GEMM kernel would run: B holds the matrix's columns.
TEST(Hadamard, the_sum_by_matrix_is_the_GEMM_under_the_contract) {
  for (const std::string contract : {"sm90_bf16", "sm100_f16", "exact", "ieee_fp32"}) {
    for (const int n : kHadamardSizes) {
      const std::int64_t rows = 9;
      const std::vector<float> x = random_values(rows * n, 11);
      const Hadamard t{n, kSigns, HadamardSum::matrix, contract, Format::fp32};
      const Tensor y = hadamard(TestMatrix(Format::bf16, rows, n, x).view(), t, Along::rows);
      const std::uint32_t c = encode(Format::bf16, 1 / std::sqrt(n), Rounding::nearest_even, Overflow::saturate);
      std::vector<std::uint16_t> a;
      std::vector<std::uint16_t> b;
      for (std::int64_t i = 0; i < rows * n; ++i) {
        const std::uint32_t code =
            encode(Format::bf16, x[static_cast<std::size_t>(i)], Rounding::nearest_even, Overflow::non_saturate);
        a.push_back(static_cast<std::uint16_t>(negated(t, i % n) ? code ^ 0x8000 : code));
      }
      for (std::int64_t i = 0; i < n * n; ++i)
        b.push_back(static_cast<std::uint16_t>(entry(n, i / n, i % n) < 0 ? c | 0x8000 : c));
      Matmul m;
      m.contract = parse_matmul_contract(contract);
      m.a = {Format::bf16, a.data(), rows, n, n};
      m.b = {Format::bf16, b.data(), n, n, n};
      std::vector<float> d(static_cast<std::size_t>(rows * n));
      matmul(m, d.data());
      EXPECT_EQ(y.data, to_bytes(std::span<const float>(d))) << contract << " " << n;
    }
  }
}

// Right to the last bit apart: values over many binades, on which each order of roundings has bits of its own.
TEST(Hadamard, the_three_sums_differ_and_only_in_the_last_bits) {
  const std::vector<float> x = random_values(64 * 128, 3);
  const TestMatrix m(Format::bf16, 64, 128, x);
  std::vector<Tensor> results;
  for (const auto& [name, sum] : kHadamardSums) {
    results.push_back(hadamard(m.view(), {32, kSigns, sum, "sm90_bf16", Format::fp32}, Along::rows));
  }
  EXPECT_NE(results[0].data, results[1].data);
  EXPECT_NE(results[0].data, results[2].data);
  EXPECT_NE(results[1].data, results[2].data);
}

TEST(Hadamard, NaN_and_infinity_spread_over_their_group_alone) {
  for (const auto& [name, sum] : kHadamardSums) {
    std::vector<float> x(64, 1);
    x[5] = kInf;
    x[40] = kNaN;
    const std::vector<float> y =
        floats_of(hadamard(fp32_matrix(1, 64, x).view(), {16, {}, sum, "sm90_bf16", Format::bf16}, Along::rows));
    for (std::int64_t j = 0; j < 64; ++j) {
      const float v = y[static_cast<std::size_t>(j)];
      const float of_ones = j % 16 == 0 ? 4 : 0;
      const float of_inf = entry(16, 5, j) > 0 ? kInf : -kInf;
      if (j / 16 == 2) {
        EXPECT_TRUE(std::isnan(v)) << name << " " << j;
      } else {
        EXPECT_EQ(v, j / 16 == 0 ? of_inf : of_ones) << name << " " << j;
      }
    }
  }
  const std::vector<float> both{kInf, -kInf, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  const std::vector<float> y = floats_of(hadamard(fp32_matrix(1, 16, both).view(), {}, Along::rows));
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], kInf);
}

TEST(Hadamard, refuses_what_has_no_groups) {
  const std::vector<float> x(96 * 24);
  const TestMatrix m(Format::fp32, 96, 24, x);
  const auto refusal = [&](const Hadamard& t, Along along, const std::vector<std::int64_t>& offsets = {}) {
    return text_thrown(ErrorKind::usage, [&] { hadamard(m.view(), t, along, offsets); });
  };
  expect_contains(refusal({}, Along::rows), "along rows of 24 elements: these must be a multiple of the size");
  expect_contains(refusal({64}, Along::columns), "the 96 rows must be a multiple");
  expect_contains(refusal({32}, Along::columns, {0, 40, 96}), "expert offset 40 must be a multiple");
  expect_contains(refusal({24}, Along::rows), "must be one of 16, 32, 64, 128");
  expect_contains(refusal({8, {}, HadamardSum::exact, "", Format::e4m3}, Along::columns), "must be one of");
  expect_contains(refusal({16, {}, HadamardSum::exact, "", Format::e4m3}, Along::columns),
                  "must be fp32, bf16 or fp16");
  expect_contains(refusal({16, {}, HadamardSum::matrix, "sm90_fp8"}, Along::columns), "takes no bf16");
  expect_contains(refusal({16, {}, HadamardSum::matrix, "sm90_bf17"}, Along::columns), "sm90_bf16");
}

}  // namespace
}  // namespace mxcheck
