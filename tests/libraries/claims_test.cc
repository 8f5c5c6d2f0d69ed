// The catalogue's faults of GEMMs, and which claims and which of the field's tolerances find each: the table of
// docs/contracts.md, row by row. Run by itself it prints the table:
//
//   build/release/bin/claims_test | grep '^|'
//
// Tolerances see products as the field's tests pose them: operands of N(0, 1) in E4M3, with FP32 scales of 1 x 128 and
// 128 x 128 or none, D in BF16 and FP32, dense and grouped, m and n of 128, k to 4096. They compare with the exact
// product of the same codes, which is more than most tests have.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "numerics/format/codec.h"
#include "numerics/text.h"
#include "properties/core/check.h"
#include "properties/gate/gate.h"
#include "properties/operations/matmul/fields.h"
#include "properties/operations/matmul/operation.h"
#include "properties/operations/matmul/problem.h"
#include "reference/common/checked_size.h"
#include "reference/matmul/operand.h"
#include "tests/libraries/catalogue.h"

namespace mxcheck {
namespace {

// Sums over a product's outputs: x exact, y the candidate's.
struct Products {
  double xx = 0, yy = 0, xy = 0, errors = 0;
  bool all_close = true;

  void add(double x, double y, Format format) {
    // The defaults of torch.testing.assert_close for the type: the field's tolerances are what is tested here.
    const double rtol = format == Format::bf16 ? 1.6e-2 : 1.3e-6;
    xx += x * x, yy += y * y, xy += x * y, errors += (y - x) * (y - x);
    if (!(std::fabs(y - x) <= 1e-5 + rtol * std::fabs(x))) all_close = false;
  }
};

// A tolerance finds a fault where one product does not pass: NaN passes none.
struct Tolerance {
  const char* name;
  bool (*passes)(const Products& p, Format format);
};
constexpr Tolerance kTolerances[] = {
    {"cosine >= 0.99", [](const Products& p, Format) { return p.xy / std::sqrt(p.xx * p.yy) >= 0.99; }},
    {"calc_diff < 0.001", [](const Products& p, Format) { return 1 - 2 * p.xy / (p.xx + p.yy) < 0.001; }},
    {"SQNR >= 28 dB", [](const Products& p, Format) { return 10 * std::log10(p.xx / p.errors) >= 28; }},
    {"allclose, BF16", [](const Products& p, Format f) { return f != Format::bf16 || p.all_close; }},
    {"allclose, FP32", [](const Products& p, Format f) { return f != Format::fp32 || p.all_close; }},
};

// Values of N(0, 1) as codes with the scales of their blocks, amax / 448, or as codes alone.
void draw_operand(std::mt19937_64& random, std::int64_t rows, std::int64_t depth, BlockShape block, Bytes& codes,
                  Bytes& scales) {
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<std::size_t>(rows * depth));
  for (double& v : values) v = normal(random);
  const std::int64_t across = block.cols == 0 ? 0 : ceil_div(depth, block.cols);
  std::vector<float> amax(scales.size() / sizeof(float));
  const auto place = [&](std::int64_t r, std::int64_t k) {
    return static_cast<std::size_t>(r / block.rows * across + k / block.cols);
  };
  for (std::int64_t r = 0; r < rows && !amax.empty(); ++r) {
    for (std::int64_t k = 0; k < depth; ++k) {
      float& most = amax[place(r, k)];
      most = std::max(most, static_cast<float>(std::fabs(values[static_cast<std::size_t>(r * depth + k)])) / 448);
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t k = 0; k < depth; ++k) {
      const auto at = static_cast<std::size_t>(r * depth + k);
      const double scale = amax.empty() ? 1 : double{amax[place(r, k)]};
      codes[at] =
          static_cast<std::byte>(encode(Format::e4m3, values[at] / scale, Rounding::nearest_even, Overflow::saturate));
    }
  }
  if (!amax.empty()) std::memcpy(scales.data(), amax.data(), scales.size());
}

MatmulProblem field_problem(const Case& c) {
  MatmulProblem p(c);
  std::mt19937_64 random(c.seed);
  const MatmulVariant& v = matmul_of(c.variant);
  const std::int64_t depth = matmul_case(c).depth;
  draw_operand(random, static_cast<std::int64_t>(p.a.size()) / depth, depth, v.block, p.a, p.scales_a);
  draw_operand(random, static_cast<std::int64_t>(p.b.size()) / depth, depth, v.block_b, p.b, p.scales_b);
  return p;
}

bool is_of_the_field(const Variant& v, std::span<const Variant>) {
  if (!v.operation.starts_with("matmul:sm90_fp8")) return false;
  const MatmulVariant& m = matmul_of(v);
  const bool blocks = m.block == BlockShape{1, 128} && m.block_b == BlockShape{128, 128} && m.scales == MXCHECK_FP32;
  return m.format == Format::e4m3 && m.format_b == Format::e4m3 && m.groups != MXCHECK_DEPTH &&
         (blocks || m.scales == MXCHECK_NO_SCALES);
}

std::vector<Case> field_cases(const Variant& v, Suite) {
  std::vector<Case> cases{matmul_corner(v, 128, 128, 512, Data::normal, 1),
                          matmul_corner(v, 128, 128, 1024, Data::normal, 2),
                          matmul_corner(v, 128, 128, 4096, Data::normal, 3)};
  matmul_case(cases[0]).adds = true;
  return cases;
}

// For each tolerance whether it finds the library wrong.
std::vector<bool> found_by_tolerances(const GateOptions& options) {
  std::vector<bool> found(std::size(kTolerances));
  Statement field;
  field.name = "field", field.applies = is_of_the_field, field.corners = field_cases;
  field.check = [&](CheckContext& context, const Case& c) -> std::optional<Finding> {
    const MatmulProblem p = field_problem(c);
    const CallOutputs got = run_problem(context, p);
    if (!got.usable()) return propagate(context, got);
    const Format format = c.variant.dtype;
    const Bytes exact = p.answer(parse_matmul_contract("exact")).bytes;
    Products products;
    const std::size_t width = format == Format::bf16 ? 2 : 4;
    for (std::size_t i = 0; i < exact.size(); i += width) {
      std::uint32_t x = 0, y = 0;
      std::memcpy(&x, &exact[i], width), std::memcpy(&y, &got.outputs[0][i], width);
      products.add(decode(format, x), decode(format, y), format);
    }
    for (std::size_t i = 0; i < found.size(); ++i)
      if (!kTolerances[i].passes(products, format)) found[i] = true;
    return std::nullopt;
  };
  const StatementResult r = run_statement(field, options);
  EXPECT_EQ(r.verdict, Verdict::held) << r.reason;
  EXPECT_EQ(r.cases, 3 * r.variants);
  return found;
}

bool finds(GateOptions options, const std::string& claim, const char* statement) {
  if (!claim.empty()) options.claims = {"sm90_fp8+promote128=" + claim};
  const Statement* const s = find_statement(statement);
  if (s == nullptr) throw std::runtime_error(std::string("no statement ") + statement);
  return run_statement(*s, options).verdict == Verdict::failed;
}

std::string row_of(const std::string& name, const std::string& what) {
  setenv("MATMUL_FAULT", name.c_str(), 1), setenv("MATMUL_FORMAT", "e4m3", 1);
  GateOptions options;
  options.tool = MXCHECK_TOOL, options.library = MXCHECK_HOST_MATMUL;
  options.seed = 1, options.cases = 60;
  std::vector<bool> found{finds(options, "", "matmul_equals_its_contract"),
                          finds(options, "any_order+f13", "matmul_is_a_sum_of_its_products")};
  // The intervals under this claim are those: accumulators of 13 bits.
  found.push_back(found[1] ||
                  finds(options, "as_accurate_as:sm90_fp8+promote128", "matmul_is_as_accurate_as_its_contract"));
  for (const bool one : found_by_tolerances(options)) found.push_back(one);
  unsetenv("MATMUL_FAULT"), unsetenv("MATMUL_FORMAT");
  const std::string word = name.empty() ? "blamed" : "found";
  return fmt::format("| {} | {} |", what, join(found, " | ", [&](bool one) { return one ? word : "-"; }));
}

std::string contracts_page() {
  std::ifstream file(MXCHECK_CONTRACTS_PAGE);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void expect_on_page(const std::string& row) {
  std::printf("%s\n", row.c_str()), std::fflush(stdout);
  EXPECT_NE(contracts_page().find("\n" + row + "\n"), std::string::npos) << "docs/contracts.md lacks: " << row;
}

TEST(MatmulClaimsOfNone, a_right_library_is_blamed_by_none_but_the_fields) {
  std::string heads, line = "|---|---|---|---|";
  for (const Tolerance& t : kTolerances) heads += std::string(" ") + t.name + " |", line += "---|";
  expect_on_page("| fault | equality | `any_order` | `as_accurate_as` |" + heads);
  expect_on_page(line);
  expect_on_page(row_of("", "none: the library is right"));
}

class MatmulClaims : public testing::TestWithParam<test::WrongLibrary> {};

TEST_P(MatmulClaims, find_of_the_faults_what_the_table_says) {
  expect_on_page(row_of(GetParam().name, GetParam().what));
}

INSTANTIATE_TEST_SUITE_P(All, MatmulClaims, testing::ValuesIn(test::tabled_libraries("matmul")),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mxcheck
