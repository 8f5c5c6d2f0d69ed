#include "tests/reference/accumulate/tile_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include "numerics/format/codec.h"

namespace mxcheck {
namespace {

std::string name_of(Data data) {
  constexpr std::string_view kNames[] = {"normal", "bits",    "wide",     "cancelling", "subnormal",
                                         "sparse", "largest", "specials", "small",      "spread"};
  return std::string(kNames[static_cast<std::size_t>(data)]);
}

using Random = std::mt19937;

std::uint32_t any_code(Format format, Random& random) {
  return static_cast<std::uint32_t>(random() & ((std::uint64_t{1} << spec(format).bits) - 1));
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
                               : saturated(format, normal);
    case Data::sparse: return random() % 4 != 0 ? sign : saturated(format, normal);
    case Data::largest: return random() % 64 != 0 ? f.max_code : sign | f.max_code;
    case Data::specials:
      if (random() % 256 != 0) return saturated(format, normal);
      return sign | (f.encoding == Encoding::ieee && random() % 2 == 0 ? f.max_code + 1 : f.nan_code);
    case Data::small: return saturated(format, std::ldexp(normal, f.exponent_bits == 8 ? -62 : -4));
    // Around the 50 and the 23 bits that decide who computes, for formats that reach so far.
    case Data::spread: return saturated(format, std::ldexp(normal, -static_cast<int>(random() % 64)));
    default: return saturated(format, normal);
  }
}

TileOperand random_operand(const Contract& contract, Format format, Data data, std::int64_t rows, std::int64_t k,
                           Random& random) {
  TileOperand o{format, rows, k, (random() & 1) != 0, {}, {}, {}, {}, {}};
  for (std::int64_t i = 0; i < rows * k; ++i) o.codes.push_back(draw(format, data, random));
  for (std::int64_t i = 0; data == Data::sparse && i < rows; i += 3) std::fill_n(o.codes.begin() + i * k, k, 0U);
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
void cancel(TileOperand& a, TileOperand& b) {
  for (TileOperand* o : {&a, &b}) {
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
    case 2: return saturated(format, std::ldexp(normal, 24));
    case 3: return saturated(format, std::ldexp(normal, -24));
    case 4: return sign | (any_code(format, random) & ((1U << spec(format).mantissa_bits) - 1));
    case 5: return saturated(format, std::ldexp(normal, static_cast<int>(random() % 250) - 125));
    default: return saturated(format, normal);
  }
}

}  // namespace

std::uint32_t saturated(Format format, double value) {
  return encode(format, value, Rounding::nearest_even, Overflow::saturate);
}

void TileOperand::lay_out() {
  for (std::int64_t i = 0; i < rows * k; ++i) {
    const std::int64_t at = k_major ? i % rows * k + i / rows : i;
    const std::uint32_t code = codes[static_cast<std::size_t>(at)];
    narrow.push_back(static_cast<std::uint8_t>(code));
    half.push_back(static_cast<std::uint16_t>(code));
    wide.push_back(code);
  }
}

PackedOperand TileOperand::packed(const Contract& contract, int threads) const {
  const int bits = spec(format).bits;
  const void* at = wide.data();
  if (bits <= 16) at = half.data();
  if (bits <= 8) at = narrow.data();
  OperandSource source{at, rows, k, k_major ? 1 : k, k_major ? rows : 1};
  if (!scales.empty()) source.scales = scales.data(), source.scale_row_stride = scales_a_row;
  source.scale_format = scale_format;
  return {contract, format, source, threads};
}

std::vector<Factor> TileOperand::row(const Contract& contract, std::int64_t i) const {
  std::vector<Factor> out;
  for (std::int64_t j = 0; j < k; ++j)
    out.push_back(operand(contract, format, codes[static_cast<std::size_t>(i * k + j)]));
  return out;
}

std::vector<std::uint32_t> TileProblem::expected() const {
  std::vector<std::vector<Factor>> rows;
  for (std::int64_t j = 0; j < b.rows; ++j) rows.push_back(b.row(contract, j));
  std::vector<std::uint32_t> out = c;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    const std::vector<Factor> row = a.row(contract, i);
    for (std::int64_t j = 0; j < n(); ++j) {
      const auto span = [](const TileOperand& o, std::int64_t r) {
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

void TileProblem::expect_equal(const std::vector<std::uint32_t>& got, const std::vector<std::uint32_t>& want) const {
  int shown = 0;
  for (std::size_t at = 0; at < want.size() && shown < 3; ++at) {
    if (got[at] == want[at]) continue;
    ++shown;
    ADD_FAILURE() << what << " k " << a.k << " row " << at / static_cast<std::size_t>(n()) << " column "
                  << at % static_cast<std::size_t>(n()) << " c " << std::hex << c[at] << ": " << got[at]
                  << " instead of " << want[at];
  }
}

std::vector<std::uint32_t> TileProblem::whole() const {
  std::vector<std::uint32_t> acc = c;
  accumulate_tile(a.packed(contract), {0, a.rows}, b.packed(contract), {0, n()}, {0, a.k}, acc.data(), n());
  return acc;
}

TileProblem random_problem(const Contract& contract, Format fa, Format fb, Data data, std::int64_t m, std::int64_t n,
                           std::int64_t k, unsigned seed) {
  Random random(seed);
  TileProblem p{contract,
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

TileProblem chosen_problem(const Contract& contract, Format format, const std::vector<std::vector<double>>& a,
                           const std::vector<std::vector<double>>& b, const std::vector<std::uint32_t>& c) {
  const auto operand_of = [&](const std::vector<std::vector<double>>& rows) {
    TileOperand o{format,
                  static_cast<std::int64_t>(rows.size()),
                  static_cast<std::int64_t>(rows[0].size()),
                  false,
                  {},
                  {},
                  {},
                  {},
                  {}};
    for (const auto& row : rows) {
      for (double x : row) o.codes.push_back(saturated(format, x));
    }
    o.lay_out();
    return o;
  };
  return {contract, operand_of(a), operand_of(b), c, std::string(contract.name) + " chosen"};
}

}  // namespace mxcheck
