#include "properties/identify/reveal.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "numerics/format/codec.h"

namespace mxcheck {
namespace {

using Terms = std::vector<ProductTerm>;

enum class Products { rounded, fused, fused_from_the_last };

struct Additions {
  Format format;  // fp32 stands for FP64 too where `doubles`
  Rounding rounding;
  Products products;
  bool doubles = false;
};

// a + b as if exact, then rounded. The error of a double's sum (Knuth's two-sum) keeps the truncation from seeing a
// value that rounding to 53 bits has carried over a boundary.
double node_sums_added(const Additions& f, double a, double b) {
  double s = a + b;
  if (f.doubles) return s;
  if (f.rounding == Rounding::toward_zero && std::isfinite(s)) {
    const double b_part = s - a;
    const double error = (a - (s - b_part)) + (b - b_part);
    if (error != 0 && std::signbit(error) != std::signbit(s)) s = std::nextafter(s, 0.0);
  }
  return decode(f.format, encode(f.format, s, f.rounding, Overflow::non_saturate));
}

double product(const Additions& f, const ProductTerm& t) { return node_sums_added(f, t.a_value * t.b_value, 0); }

double value_at(const Additions& f, const SumTree& t, const Terms& terms) {
  const auto term = [&](const SumTree& leaf) -> const ProductTerm& {
    return terms[static_cast<std::size_t>(leaf.term)];
  };
  if (t.leaf()) return product(f, term(t));
  const SumTree& left = t.children[0];
  const SumTree& right = t.children[1];
  const bool with_leaf = left.leaf() || right.leaf();
  if (f.products == Products::rounded || !with_leaf) {
    return node_sums_added(f, value_at(f, left, terms), value_at(f, right, terms));
  }
  const bool both = left.leaf() && right.leaf();
  const bool fuses_left = both ? f.products == Products::fused_from_the_last : left.leaf();
  const ProductTerm& fused = term(fuses_left ? left : right);
  const double other = value_at(f, fuses_left ? right : left, terms);
  if (f.doubles) return std::fma(fused.a_value, fused.b_value, other);
  if (f.format == Format::fp32) {
    return std::fma(static_cast<float>(fused.a_value), static_cast<float>(fused.b_value), static_cast<float>(other));
  }
  return node_sums_added(f, fused.a_value * fused.b_value, other);
}

bool binary(const SumTree& t) {
  return t.leaf() || (t.children.size() == 2 && std::ranges::all_of(t.children, binary));
}

// A fused sum has at most one child that is a sum itself: its accumulator.
bool fusable(const SumTree& t) {
  if (t.leaf()) return true;
  const auto sums = std::ranges::count_if(t.children, [](const SumTree& c) { return !c.leaf(); });
  return (sums <= 1 || t.children.size() == 2) && std::ranges::all_of(t.children, fusable);
}

std::uint32_t word_of_node(const FusedSum& step, const SumTree& t, const Terms& terms) {
  std::vector<Factor> a, b;
  std::vector<std::uint32_t> sums;
  const auto take = [&](const SumTree& leaf) {
    a.push_back(terms[static_cast<std::size_t>(leaf.term)].a);
    b.push_back(terms[static_cast<std::size_t>(leaf.term)].b);
  };
  if (t.leaf()) take(t);
  for (const SumTree& c : t.children) {
    if (c.leaf()) {
      take(c);
    } else {
      sums.push_back(word_of_node(step, c, terms));
    }
  }
  if (sums.size() == 2) {  // a promotion
    const double x = decode(step.output.c, sums[0]) + decode(step.output.c, sums[1]);
    return encode(step.output.c, x, Rounding::nearest_even, Overflow::non_saturate);
  }
  FusedSum one = step;
  one.terms = static_cast<int>(a.size());
  return fused_sum(one, a, b, sums.empty() ? 0 : sums[0]);
}

std::vector<NodeArithmetic> additions_in(const SumTree& tree) {
  const std::pair<const char*, Additions> all[] = {
      {"FP32, products rounded first", {Format::fp32, Rounding::nearest_even, Products::rounded}},
      {"FP32 fused multiply-adds", {Format::fp32, Rounding::nearest_even, Products::fused}},
      {"FP32 fused multiply-adds, the last of two products rounded first",
       {Format::fp32, Rounding::nearest_even, Products::fused_from_the_last}},
      {"FP32 toward zero", {Format::fp32, Rounding::toward_zero, Products::rounded}},
      {"FP16, products rounded first", {Format::fp16, Rounding::nearest_even, Products::rounded}},
      {"FP16 fused multiply-adds", {Format::fp16, Rounding::nearest_even, Products::fused}},
      {"BF16, products rounded first", {Format::bf16, Rounding::nearest_even, Products::rounded}},
      {"BF16 fused multiply-adds", {Format::bf16, Rounding::nearest_even, Products::fused}},
      {"FP64", {Format::fp32, Rounding::nearest_even, Products::rounded, true}},
  };
  std::vector<NodeArithmetic> found;
  for (const auto& [name, f] : all) {
    found.push_back({name, [&tree, f = f](const Terms& terms, Format output) {
                       return encode(output, value_at(f, tree, terms), Rounding::nearest_even, Overflow::non_saturate);
                     }});
  }
  return found;
}

std::vector<NodeArithmetic> fused_sums_in(const SumTree& tree) {
  SumOutput rounded = kFp32Output;
  rounded.rounds_to_even = true;
  const std::pair<const char*, SumOutput> outputs[] = {{"cut to FP32", kFp32Output},
                                                       {"rounded to FP32", rounded},
                                                       {"cut to E8M13", kE8m13Output},
                                                       {"rounded to FP16", kFp16Output}};
  const std::pair<const char*, Alignment> alignments[] = {{"cut", Alignment::toward_zero},
                                                          {"rounded down", Alignment::downward},
                                                          {"rounded to nearest", Alignment::nearest_even}};
  std::vector<NodeArithmetic> found;
  for (const auto& [output_name, output] : outputs) {
    for (const auto& [alignment_name, alignment] : alignments) {
      for (int bits = 7; bits <= 36; ++bits) {
        FusedSum step{0, bits, output, -133};
        step.alignment = alignment;
        found.push_back({"fused, terms " + std::string(alignment_name) + " at " + std::to_string(bits) +
                             " fraction bits, " + output_name,
                         [&tree, step](const Terms& terms, Format d) {
                           const double value = decode(step.output.c, word_of_node(step, tree, terms));
                           return encode(d, value, Rounding::nearest_even, Overflow::non_saturate);
                         }});
      }
    }
  }
  return found;
}

}  // namespace

std::vector<NodeArithmetic> node_arithmetics(const SumTree& tree) {
  if (binary(tree)) return additions_in(tree);
  if (fusable(tree)) return fused_sums_in(tree);
  return {};
}

}  // namespace mxcheck
