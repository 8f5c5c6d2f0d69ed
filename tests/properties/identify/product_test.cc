#include "properties/identify/product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "numerics/accumulate/contract.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"

namespace mxcheck {
namespace {

ProductBox following(const std::string& contract) {
  return [contract](const ProductCall& call) { return answer_of_contract(contract, call); };
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

struct Planted {
  ProductSpace space;
  std::vector<std::string> same;  // the box follows the first; no probe tells the others from it
};

void expect_identified(const Planted& p) {
  const ProductReport r = identify_product(p.space, following(p.same.front()));
  EXPECT_EQ(r.match.explaining, p.same) << to_text(r);
  EXPECT_EQ(r.match.compared, 5 * 256 + 8 + 64);
}

constexpr Format kE4 = Format::e4m3;
constexpr Format k32 = Format::fp32;

TEST(Product, every_contract_is_identified_by_its_answers_alone) {
  for (const Contract& c : all_contracts()) {
    const Format f = c.operands.front();
    ProductSpace space{f, f, c.arithmetic == Arithmetic::fused ? c.step.output.c : k32, 256};
    if (c.scale_terms != 0) space.scale_k = c.scale_terms, space.scale_format = c.scales.front();
    const ProductReport r = identify_product(space, following(std::string(c.name)));
    EXPECT_TRUE(contains(r.match.explaining, std::string(c.name))) << c.name << "\n" << to_text(r);
    // Others are the same only where their constants are: contracts of two generations, one of which is a note.
    for (const std::string& other : r.match.explaining) {
      const std::string sum = other.substr(0, other.find('+'));
      const Contract& o = contract_named(sum);
      EXPECT_TRUE(o.name == c.name || (o.step.terms == c.step.terms && o.step.fraction_bits == c.step.fraction_bits &&
                                       o.arithmetic == c.arithmetic))
          << c.name << " and " << other;
    }
  }
}

TEST(Product, promotion_intervals_are_told_apart) {
  expect_identified({{kE4, kE4, k32, 256}, {"sm90_fp8+promote64"}});
  // Two intervals: x + y and y + x are one sum.
  expect_identified({{kE4, kE4, k32, 256}, {"sm90_fp8+promote128", "sm90_fp8+promote128+descending"}});
  expect_identified({{kE4, kE4, k32, 384}, {"sm90_fp8+promote128"}});
  expect_identified({{kE4, kE4, k32, 256}, {"sm90_fp8+promote96"}});
  expect_identified({{kE4, kE4, Format::bf16, 512}, {"sm90_fp8+promote128"}});
}

TEST(Product, orders_of_scales_and_steps_are_told_apart) {
  const ProductSpace scaled{kE4, kE4, k32, 384, 128, k32};
  for (const char* contract : {"sm90_fp8+promote128", "sm90_fp8+promote128+a_first", "sm90_fp8+promote128+b_first",
                               "sm90_fp8+promote128+descending"}) {
    expect_identified({scaled, {contract}});
  }
  expect_identified({{kE4, kE4, k32, 256}, {"sm90_fp8+descending"}});
}

TEST(Product, decode_and_a_start_from_c_are_told_apart) {
  const ProductReport decoded = identify_product({kE4, kE4, k32, 128, 32}, following("sm90_bf16+decode"));
  EXPECT_TRUE(contains(decoded.match.explaining, "sm90_bf16+decode"));
  EXPECT_FALSE(contains(decoded.match.explaining, "sm100_mxf8f6f4"));
  expect_identified({{kE4, kE4, k32, 128, 0, Format::e8m0, true}, {"sm90_fp8+from_c"}});
}

// The accumulator of FP8 in a copy that keeps one bit less.
TEST(Product, a_contract_with_one_fraction_bit_less_is_named_by_its_bits) {
  Contract less = contract_named("sm90_fp8");
  less.step.fraction_bits = 12;
  const ProductBox box = [&](const ProductCall& call) {
    std::vector<std::uint32_t> d;
    for (std::int64_t i = 0; i < call.m * call.n; ++i) {
      std::vector<Factor> a, b;
      for (std::int64_t k = 0; k < call.k; ++k) {
        a.push_back(factor(kE4, call.a[static_cast<std::size_t>(i / call.n * call.k + k)]));
        b.push_back(factor(kE4, call.b[static_cast<std::size_t>(i % call.n * call.k + k)]));
      }
      d.push_back(accumulate(less, a, b, 0));
    }
    return d;
  };
  const ProductReport r = identify_product({kE4, kE4, k32, 96}, box);
  EXPECT_TRUE(r.match.explaining.empty());
  ASSERT_EQ(r.match.closest.size(), 3);
  const ProbeDifference& first = r.match.closest.front().first;
  EXPECT_NE(first.expected, first.observed);
  ASSERT_TRUE(r.order && r.order->tree) << to_text(r);
  EXPECT_EQ(r.order->shape, "fused steps of 32, ascending");
  EXPECT_EQ(r.order->arithmetic, std::vector<std::string>{"fused, terms cut at 12 fraction bits, cut to E8M13"})
      << to_text(r);
}

TEST(Product, a_box_that_answers_another_size_is_refused) {
  const ProductBox box = [](const ProductCall&) { return std::vector<std::uint32_t>(3); };
  EXPECT_THROW(identify_product({kE4, kE4, k32, 32}, box), Error);
  EXPECT_THROW(identify_product({kE4, kE4, k32, 0}, box), Error);
  EXPECT_THROW(identify_product({Format::mxint8, kE4, k32, 32}, box), Error);
}

}  // namespace
}  // namespace mxcheck
