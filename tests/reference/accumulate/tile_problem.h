#pragma once
// Operands and sums for tests of accumulate_tile(): drawn of each kind of data or chosen, and what numerics'
// accumulate() makes of them.
//
//   const TileProblem p = random_problem(contract, Format::e4m3, Format::e5m2, Data::normal, 3, 37, 65, seed);
//   p.expect_equal(p.whole(), p.expected());

#include "numerics/accumulate/contract.h"
#include "numerics/format/format.h"
#include "reference/accumulate/accumulate.h"
#include "tests/testing.h"

namespace mxcheck {

// Made for what the engine decides itself and for what it must not.
enum class Data { normal, bits, wide, cancelling, subnormal, sparse, largest, specials, small, spread };

inline constexpr Data kAllData[] = {Data::normal, Data::bits,    Data::wide,     Data::cancelling, Data::subnormal,
                                    Data::sparse, Data::largest, Data::specials, Data::small,      Data::spread};

// RNE.
std::uint32_t saturated(Format format, double value);

// Codes of rows x k, row-major or with k outermost, and scales.
struct TileOperand {
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

  void lay_out();
  [[nodiscard]] PackedOperand packed(const Contract& contract, int threads = 1) const;
  [[nodiscard]] std::vector<Factor> row(const Contract& contract, std::int64_t i) const;
};

struct TileProblem {
  const Contract& contract;
  TileOperand a;
  TileOperand b;
  std::vector<std::uint32_t> c;  // a.rows x b.rows
  std::string what;

  [[nodiscard]] std::int64_t n() const { return b.rows; }
  [[nodiscard]] std::vector<std::uint32_t> expected() const;
  void expect_equal(const std::vector<std::uint32_t>& got, const std::vector<std::uint32_t>& want) const;
  // The problem as one tile.
  [[nodiscard]] std::vector<std::uint32_t> whole() const;
};

TileProblem random_problem(const Contract& contract, Format fa, Format fb, Data data, std::int64_t m, std::int64_t n,
                           std::int64_t k, unsigned seed);

// A problem whose A and B are given as rows of values.
TileProblem chosen_problem(const Contract& contract, Format format, const std::vector<std::vector<double>>& a,
                           const std::vector<std::vector<double>>& b, const std::vector<std::uint32_t>& c);

}  // namespace mxcheck
