#pragma once
// A small matmul to test with: operands of random E4M3 codes and scales.

#include "numerics/format/codec.h"
#include "reference/matmul/matmul.h"
#include "tests/testing.h"

namespace mxcheck::test {

// A matmul with everything that it points to.
struct Owned {
  Matmul m;
  std::vector<std::uint8_t> a, b;
  std::vector<std::uint8_t> bytes_a, bytes_b;
  std::vector<float> floats_a, floats_b;
  std::vector<float> c;
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> counts;
  std::vector<std::int32_t> index;
};

struct Shape {
  std::int64_t m, n, k;
  std::int64_t matrices = 1;  // of b
};

// Random E4M3 codes and scales, dense, without C.
inline void fill(Owned& o, std::string_view contract, Shape s, BlockShape block_a, BlockShape block_b, Format scale,
                 unsigned seed) {
  std::mt19937 random(seed);
  const auto code = [&] {
    const double x = std::normal_distribution<double>()(random);
    return static_cast<std::uint8_t>(encode(Format::e4m3, x, Rounding::nearest_even, Overflow::saturate));
  };
  o.m.contract = parse_matmul_contract(contract);
  o.a.resize(static_cast<std::size_t>(s.m * s.k));
  o.b.resize(static_cast<std::size_t>(s.matrices * s.n * s.k));
  for (std::uint8_t& x : o.a) x = code();
  for (std::uint8_t& x : o.b) x = code();
  o.m.a.codes = o.a.data(), o.m.a.rows = s.m, o.m.a.depth = o.m.a.row_stride = s.k;
  o.m.b.codes = o.b.data(), o.m.b.rows = s.n, o.m.b.depth = o.m.b.row_stride = s.k;
  const auto scales = [&](MatmulOperand& x, BlockShape block, std::int64_t matrices, std::vector<std::uint8_t>& bytes,
                          std::vector<float>& floats) {
    if (block.rows == 0) return;
    x.block = block, x.scale_format = scale;
    const std::int64_t columns = (s.k + block.cols - 1) / block.cols + 3;  // room for groups that end inside a block
    const std::int64_t rows = matrices * ((x.rows + block.rows - 1) / block.rows);
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      bytes.push_back(static_cast<std::uint8_t>(120 + random() % 15));
      floats.push_back(std::ldexp(1 + static_cast<float>(random() % 1024) / 1024, static_cast<int>(random() % 10) - 5));
    }
    x.scales = scale == Format::fp32 ? static_cast<const void*>(floats.data()) : bytes.data();
    x.scale_row_stride = columns;
  };
  scales(o.m.a, block_a, 1, o.bytes_a, o.floats_a);
  scales(o.m.b, block_b, s.matrices, o.bytes_b, o.floats_b);
}

// D as floats.
inline std::vector<float> run(const Matmul& m) {
  const std::int64_t results = m.grouping == Grouping::depth ? m.experts() : 1;
  std::vector<float> d(static_cast<std::size_t>(results * m.m() * m.b.rows), -77);
  matmul(m, d.data());
  return d;
}

}  // namespace mxcheck::test
