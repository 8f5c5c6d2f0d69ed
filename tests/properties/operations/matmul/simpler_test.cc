// Random GEMMs, and simpler ones.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "properties/operations/matmul/operation.h"
#include "tests/properties/drawn.h"

namespace mxcheck {
namespace {

constexpr const char* kContracts[] = {"sm90_fp8+promote128", "sm90_bf16+from_c", "sm90_bf16+decode"};

// Stands for a library that offers three contracts, of any shape or of multiples within limits.
class Library final : public CandidateRunner {
 public:
  explicit Library(bool limited) {
    for (const char* contract : kContracts) {
      OperationInfo o{std::string("matmul:") + contract, contract};
      if (limited) o.max_rows = 200, o.max_cols = 96, o.rows_multiple = 8, o.cols_multiple = 32;
      info_.operations.push_back(o);
    }
  }
  [[nodiscard]] const CandidateInfo& info() const override { return info_; }
  Outcome run(const Call&) override { return {}; }
  void restart() override {}

 private:
  CandidateInfo info_;
};

Case random_case(std::uint64_t seed, const Library& library) {
  Statement s;
  s.data = {Data::codes, Data::normal, Data::boundaries, Data::slots, Data::specials, Data::bits, Data::zeros};
  Draw draw(seed);
  const std::vector<Variant> all = askable_matmuls(std::string("matmul:") + draw.pick(kContracts));
  return test::draw_case(s, all, library, draw);
}

TEST(SimplerMatmuls, cases_can_be_posed_and_are_small_enough) {
  const Library library(false);
  bool deep = false, empty = false, gathered = false, added = false, grouped = false;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Case c = random_case(seed, library);
    ASSERT_EQ(parse_case(to_text(c)), c) << to_text(c);
    const std::int64_t depth = matmul_case(c).depth;
    ASSERT_LE(c.elements() * depth, 1 << 21) << to_text(c);
    const bool from_c = c.variant.operation.ends_with("+from_c");
    ASSERT_TRUE(!from_c || matmul_case(c).alpha == 1) << to_text(c);
    deep = deep || depth >= 1024, empty = empty || c.elements() == 0, gathered = gathered || c.gather != 0;
    added = added || matmul_case(c).adds, grouped = grouped || c.experts.size() > 3;
  }
  EXPECT_TRUE(deep && empty && gathered && added && grouped);
}

TEST(SimplerMatmuls, multiples_and_limits_are_kept) {
  const Library library(true);
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Case c = random_case(seed, library);
    ASSERT_TRUE(c.rows % 8 == 0 && c.rows <= 200 && c.cols % 32 == 0 && c.cols <= 96) << to_text(c);
  }
}

TEST(SimplerMatmuls, simpler_cases_can_be_posed_and_are_never_the_same_nor_larger) {
  const Library library(false);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Case c = random_case(seed, library);
    for (const Case& n : simpler_matmuls(c, {})) {
      ASSERT_NE(n, c);
      ASSERT_NO_THROW(ASSERT_EQ(parse_case(to_text(n)), n)) << to_text(n);
      ASSERT_LE(n.elements(), c.elements()) << to_text(n);
      ASSERT_LE(matmul_case(n).depth, matmul_case(c).depth) << to_text(n);
    }
  }
}

TEST(SimplerMatmuls, shrinks_to_the_threshold_from_which_a_case_fails) {
  Case c = parse_case(
      "op=matmul:sm90_fp8+promote128 format=e4m3 format_b=e4m3 block=1x128 block_b=1x128 scales=fp32 groups=rows "
      "d=fp32 rows=300 cols=90 depth=1280 experts=0,3,3,200,300 gather=310 data=normal seed=9 adds=1 alpha=-1");
  const auto fails = [](const Case& n) { return n.rows >= 13 && n.cols >= 7 && matmul_case(n).depth >= 129; };
  for (bool moved = true; moved;) {
    moved = false;
    for (const Case& n : simpler_matmuls(c, {})) {
      if (!fails(n)) continue;
      c = n, moved = true;
      break;
    }
  }
  EXPECT_EQ(to_text(c),
            "op=matmul:sm90_fp8+promote128 format=e4m3 format_b=e4m3 block=1x128 block_b=1x128 scales=fp32 groups=rows "
            "d=fp32 rows=13 cols=7 depth=129 experts=0,13 data=zeros seed=1");
}

}  // namespace
}  // namespace mxcheck
