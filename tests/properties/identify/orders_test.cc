// Boxes with orders of their own, of a table that the Python package's test reads too: both must find the same.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "numerics/format/codec.h"
#include "numerics/text.h"
#include "properties/identify/reveal.h"

namespace mxcheck {
namespace {

struct TableOrder {
  std::string name;
  std::string arithmetic;
  std::string shape;
  SumTree tree;
};

std::vector<TableOrder> table() {
  std::ifstream file(MXCHECK_ORDERS);
  std::vector<TableOrder> all;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    const auto fields = split(line, '\t');
    all.push_back(
        {std::string(fields.at(0)), std::string(fields.at(1)), std::string(fields.at(2)), parse_tree(fields.at(3))});
  }
  return all;
}

using Factors = std::vector<std::pair<float, float>>;

float sum_in(const SumTree& t, bool fused, const Factors& x) {
  const auto product = [&](const SumTree& leaf) { return x[static_cast<std::size_t>(leaf.term)]; };
  if (t.leaf()) return product(t).first * product(t).second;
  const SumTree& left = t.children[0];
  const SumTree& right = t.children[1];
  if (fused && right.leaf()) return std::fma(product(right).first, product(right).second, sum_in(left, fused, x));
  if (fused && left.leaf()) return std::fma(product(left).first, product(left).second, sum_in(right, fused, x));
  return sum_in(left, fused, x) + sum_in(right, fused, x);
}

float kahan(const Factors& x) {
  float sum = 0;
  float lost = 0;
  for (const auto& [a, b] : x) {
    const float product = a * b;
    const float y = product - lost;
    const float t = sum + y;
    lost = (t - sum) - y;
    sum = t;
  }
  return sum;
}

ProductBox box_of(const TableOrder& p) {
  return [&p](const ProductCall& call) {
    const auto value = [](Format f, std::uint32_t code) { return static_cast<float>(decode(f, code)); };
    std::vector<std::uint32_t> d;
    for (std::int64_t i = 0; i < call.m * call.n; ++i) {
      Factors x;
      for (std::int64_t k = 0; k < call.k; ++k) {
        x.emplace_back(value(call.a_format, call.a[static_cast<std::size_t>(i / call.n * call.k + k)]),
                       value(call.b_format, call.b[static_cast<std::size_t>(i % call.n * call.k + k)]));
      }
      const float sum = p.arithmetic == "compensated" ? kahan(x) : sum_in(p.tree, p.arithmetic == "fused", x);
      d.push_back(encode(call.output, sum, Rounding::nearest_even, Overflow::non_saturate));
    }
    return d;
  };
}

TEST(Orders, of_the_table_are_recovered_exactly) {
  const std::vector<TableOrder> all = table();
  ASSERT_GE(all.size(), 12U);
  for (const TableOrder& p : all) {
    for (Format format : {Format::fp32, Format::bf16}) {
      const TreeReport r = reveal_order({format, format, Format::fp32, 32}, box_of(p));
      ASSERT_TRUE(r.tree) << p.name << ": " << r.why_not;
      EXPECT_EQ(*r.tree, p.tree) << p.name << ": " << r.tree->text();
      const TreeReport few = reveal_order({format, format, Format::fp32, 32}, box_of(p), 20);
      EXPECT_EQ(few.tree, r.tree) << p.name << ": " << few.why_not;
      EXPECT_LE(few.masks, r.masks + 40) << p.name;
      EXPECT_EQ(r.shape.value_or("of no name"), p.shape) << p.name;
      EXPECT_EQ(r.keeps_more, p.arithmetic == "compensated") << p.name;
      if (format == Format::bf16) continue;  // products of BF16 are exact in FP32: fused or not is one sum
      const std::string expected = p.arithmetic == "rounded" ? "FP32, products rounded first"
                                   : p.arithmetic == "fused" ? "FP32 fused multiply-adds"
                                                             : "";
      EXPECT_EQ(join(r.arithmetic), expected) << p.name;
    }
  }
}

}  // namespace
}  // namespace mxcheck
