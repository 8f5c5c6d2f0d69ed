#include "properties/identify/product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
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

struct PlantedProduct {
  ProductSpace space;
  std::vector<std::string> same;  // the box follows the first; no probe tells the others from it
};

void expect_identified(const PlantedProduct& p) {
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

// Scales as libraries have them: 1 x 128 of A, 128 x 128 of B, FP32; 1 x 32 of both, E8M0.
TEST(Product, orders_of_scales_are_told_apart_for_blocks_of_both_operands) {
  ProductSpace fp32{kE4, kE4, k32, 384, 128, k32};
  fp32.b_scale_rows = 128;
  for (const char* contract : {"sm90_fp8+promote128", "sm90_fp8+promote128+a_first", "sm90_fp8+promote128+b_first",
                               "sm90_fp8+promote64", "sm90_fp8+promote128+descending"}) {
    const ProductReport r = identify_product(fp32, following(contract));
    EXPECT_EQ(r.match.explaining, std::vector<std::string>{contract}) << to_text(r);
    EXPECT_EQ(r.match.compared, 5 * 256 + 8 + 64 + 4 * 136);
  }
  const ProductSpace e8m0{kE4, kE4, k32, 384, 32, Format::e8m0};
  for (const char* contract : {"sm90_fp8+promote32", "sm100_mxf8f6f4", "sm90_bf16+decode", "exact"}) {
    const ProductReport r = identify_product(e8m0, following(contract));
    EXPECT_TRUE(contains(r.match.explaining, contract)) << to_text(r);
    EXPECT_LE(r.match.explaining.size(), 3) << to_text(r);  // E8M0 scales move exponents alone: their order is lost
  }
}

// A box that takes the scales of B's rows for those of their block is told by the probe of two blocks.
TEST(Product, scales_of_the_first_block_of_rows_for_all_are_seen) {
  ProductSpace space{kE4, kE4, k32, 256, 128, k32};
  space.b_scale_rows = 128;
  const ProductReport r = identify_product(space, [](const ProductCall& call) {
    ProductCall wrong = call;
    const std::size_t blocks = 2;
    for (std::size_t i = blocks; i < wrong.b_scales.size(); ++i) wrong.b_scales[i] = wrong.b_scales[i % blocks];
    return answer_of_contract("sm90_fp8+promote128", wrong);
  });
  EXPECT_TRUE(r.match.explaining.empty()) << to_text(r);
  EXPECT_EQ(r.match.closest.front().first.probe, "blocks of rows") << to_text(r);
  EXPECT_EQ(r.match.closest.front().probes.size(), 7) << to_text(r);  // all others
}

// Columns [first, end) of every row, and their scales of blocks of 128.
ProductCall slice(const ProductCall& call, std::int64_t first, std::int64_t end) {
  ProductCall part = call;
  const auto cut = [](const std::vector<std::uint32_t>& from, std::int64_t width, std::int64_t x, std::int64_t y) {
    std::vector<std::uint32_t> to;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const auto col = static_cast<std::int64_t>(i) % width;
      if (col >= x && col < y) to.push_back(from[i]);
    }
    return to;
  };
  part.a = cut(call.a, call.k, first, end), part.b = cut(call.b, call.k, first, end);
  part.k = end - first, part.output = k32;
  if (call.scale_k == 0) return part;
  part.a_scales = cut(call.a_scales, call.k / 128, first / 128, end / 128);
  part.b_scales = cut(call.b_scales, call.k / 128, first / 128, end / 128);
  return part;
}

ProductBox in_parts(const std::string& contract, const std::vector<std::pair<std::int64_t, std::int64_t>>& parts) {
  return [=](const ProductCall& call) {
    std::vector<std::uint32_t> d;
    for (const auto& [first, end] : parts) {
      const std::vector<std::uint32_t> part = answer_of_contract(contract, slice(call, first, end));
      for (std::size_t i = 0; i < part.size(); ++i) {
        if (d.size() < part.size())
          d.push_back(part[i]);
        else
          d[i] = std::bit_cast<std::uint32_t>(std::bit_cast<float>(d[i]) + std::bit_cast<float>(part[i]));
      }
    }
    for (std::uint32_t& word : d) {
      word = encode(call.output, std::bit_cast<float>(word), Rounding::nearest_even, Overflow::non_saturate);
    }
    return d;
  };
}

TEST(Product, split_k_of_two_three_and_four_is_named_with_its_contract) {
  const ProductSpace plain{kE4, kE4, k32, 512};
  const ProductSpace bf16{Format::bf16, Format::bf16, Format::bf16, 384};
  const ProductSpace scaled{kE4, kE4, k32, 512, 128, k32};
  const auto expect = [](const ProductSpace& space, const ProductBox& box, const std::vector<std::string>& names) {
    const ProductReport r = identify_product(space, box);
    EXPECT_EQ(r.match.explaining, names) << to_text(r);
    return r;
  };
  expect(plain, in_parts("sm90_fp8+promote64", {{0, 192}, {192, 384}, {384, 512}}),
         {"sm90_fp8+promote64, split-k of 3 in parts of 192"});
  expect(plain, in_parts("sm90_fp8+promote64", {{384, 512}, {256, 384}, {128, 256}, {0, 128}}),
         {"sm90_fp8+promote64, split-k of 4 in parts of 128, added descending"});
  expect(scaled, in_parts("sm90_fp8+promote128+a_first", {{0, 256}, {256, 512}}),
         {"sm90_fp8+promote128+a_first, split-k of 2 in parts of 256"});
  expect(bf16, in_parts("ieee_fp32", {{0, 128}, {128, 256}, {256, 384}}), {"ieee_fp32, split-k of 3 in parts of 128"});
  // Without promotion within the parts it is promotion at their length.
  const ProductReport two = expect(plain, in_parts("sm90_fp8", {{0, 256}, {256, 512}}),
                                   {"sm90_fp8+promote256", "sm90_fp8+promote256+descending"});
  EXPECT_EQ(two.match.notes, std::vector<std::string>{"split-k of 2 in parts of 256, no promotion within them"});
}

TEST(Product, four_parts_added_pairwise_are_named) {
  const ProductSpace plain{kE4, kE4, k32, 512};
  const ProductReport r = identify_product(plain, [](const ProductCall& call) {
    const ProductBox low = in_parts("sm90_fp8+promote32", {{0, 128}, {128, 256}});
    const ProductBox high = in_parts("sm90_fp8+promote32", {{256, 384}, {384, 512}});
    std::vector<std::uint32_t> d = low(call);
    const std::vector<std::uint32_t> other = high(call);
    for (std::size_t i = 0; i < d.size(); ++i) {
      d[i] = std::bit_cast<std::uint32_t>(std::bit_cast<float>(d[i]) + std::bit_cast<float>(other[i]));
    }
    return d;
  });
  EXPECT_EQ(r.match.explaining,
            std::vector<std::string>{"sm90_fp8+promote32, split-k of 4 in parts of 128, added pairwise"})
      << to_text(r);
}

TEST(Product, slips_are_named_where_nothing_else_explains_the_box) {
  const ProductBox unscaled = [](const ProductCall& call) {
    ProductCall wrong = call;
    for (std::uint32_t& scale : wrong.b_scales) scale = 0x3F800000;
    return answer_of_contract("sm90_fp8+promote128", wrong);
  };
  const ProductSpace scaled{kE4, kE4, k32, 384, 128, k32};
  const ProductReport r = identify_product(scaled, unscaled);
  const std::string b_first = "sm90_fp8+promote128+b_first, B's scales taken as 1";  // which is the same
  EXPECT_EQ(r.match.slips, (std::vector<std::string>{"sm90_fp8+promote128, B's scales taken as 1", b_first}))
      << to_text(r);
  const ProductReport declared = identify_product(scaled, unscaled, {"sm90_fp8+promote128"});
  EXPECT_FALSE(r.match.explained());
  EXPECT_EQ(declared.match.slips, (std::vector<std::string>{"B's scales taken as 1", b_first})) << to_text(declared);
  EXPECT_FALSE(declared.match.holds());
  const ProductReport shorter =
      identify_product({Format::bf16, Format::bf16, k32, 320}, in_parts("ieee_fp32", {{0, 256}}));
  EXPECT_EQ(shorter.match.slips, std::vector<std::string>{"ieee_fp32, the last block of 128 of k left out"})
      << to_text(shorter);
}

// With scales promotion at the length of the parts rounds once where parts round twice.
TEST(Product, split_k_of_scaled_intervals_is_told_from_promotion) {
  const ProductSpace scaled{kE4, kE4, k32, 512, 128, k32};
  const std::string parts = "sm90_fp8+promote128, split-k of 4 in parts of 128";
  const ProductReport r =
      identify_product(scaled, in_parts("sm90_fp8+promote128", {{0, 128}, {128, 256}, {256, 384}, {384, 512}}));
  EXPECT_EQ(r.match.explaining, std::vector<std::string>{parts}) << to_text(r);
  const ProductReport pairs = identify_product(scaled, following(parts + ", added pairwise"));
  EXPECT_EQ(pairs.match.explaining, std::vector<std::string>{parts + ", added pairwise"}) << to_text(pairs);
}

// Most definitions of a large D are computed for a corner alone; what differs beyond it is seen all the same.
TEST(Product, a_large_dump_is_compared_to_its_last_word) {
  ProductSpace space{kE4, kE4, k32, 512, 128, k32};
  space.b_scale_rows = 128, space.m = 384, space.n = 384;
  const ProductCall call = product_probes(space).front().second;
  ASSERT_GT(call.m * call.n * call.k, 1 << 26);
  const std::string name = "d";
  std::vector<std::uint32_t> d = answer_of_contract("sm90_fp8+promote128+b_first", call);
  const Match right = match_products({&name, 1}, {&call, 1}, {&d, 1});
  EXPECT_EQ(right.explaining, std::vector<std::string>{"sm90_fp8+promote128+b_first"});
  EXPECT_EQ(right.compared, 384 * 384);
  d.back() ^= 1;
  const Match wrong = match_products({&name, 1}, {&call, 1}, {&d, 1});
  EXPECT_TRUE(wrong.explaining.empty());
  ASSERT_EQ(wrong.closest.size(), 3);
  EXPECT_EQ(wrong.closest.front().name, "sm90_fp8+promote128+b_first");
  EXPECT_EQ(wrong.closest.front().equal, 384 * 384 - 1);
  EXPECT_EQ(wrong.closest.front().first.row, 383);
}

TEST(Product, what_a_box_declares_wrongly_is_said) {
  const ProductSpace space{kE4, kE4, k32, 384};
  const ProductReport wrong = identify_product(space, following("sm90_fp8+promote64"), {"sm90_fp8+promote128"});
  EXPECT_FALSE(wrong.match.holds());
  EXPECT_EQ(wrong.match.explaining, std::vector<std::string>{"sm90_fp8+promote64"});
  ASSERT_TRUE(wrong.match.not_declared);
  EXPECT_NE(to_text(wrong).find("declared      sm90_fp8+promote128, which is WRONG: "), std::string::npos);
  EXPECT_TRUE(identify_product(space, following("sm90_fp8+promote128"), {"sm90_fp8+promote128"}).match.holds());
  const ProductReport foreign = identify_product(space, following("sm90_fp8"), {"sm90_bf16"});  // takes no E4M3
  EXPECT_FALSE(foreign.match.holds());
  EXPECT_NE(to_text(foreign).find("not defined for these operands"), std::string::npos) << to_text(foreign);
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
