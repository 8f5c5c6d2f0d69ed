#include "properties/identify/product.h"

#include <algorithm>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "properties/identify/product_definitions.h"
#include "properties/identify/reveal.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

AnswerPart part_of(const ProductCall& call, std::vector<std::uint32_t> words) {
  if (static_cast<std::int64_t>(words.size()) != call.m * call.n) {
    throw Error(ErrorKind::usage, "the box answered " + std::to_string(words.size()) + " words; D is " +
                                      std::to_string(call.m) + " x " + std::to_string(call.n));
  }
  return {"D", call.output, std::move(words), call.n, true};
}

std::vector<Definition> definitions_of(const std::vector<std::string>& texts, std::span<const ProductCall> calls) {
  std::vector<Definition> definitions;
  for (const std::string& text : texts) {
    definitions.push_back({text, [calls, text](std::size_t p) -> BoxAnswer {
                             return {part_of(calls[p], answer_of_contract(text, calls[p]))};
                           }});
  }
  return definitions;
}

constexpr std::int64_t kLarge = std::int64_t{1} << 26;  // multiplications
constexpr std::int64_t kCorner = 16;                    // rows and columns of D

std::vector<std::uint32_t> first_rows(const std::vector<std::uint32_t>& words, std::int64_t rows, std::int64_t cols) {
  return {words.begin(), words.begin() + rows * cols};
}

// The upper left of a D, as a call of its own.
ProductCall corner(const ProductCall& call) {
  ProductCall part = call;
  part.m = std::min(kCorner, call.m), part.n = std::min(kCorner, call.n);
  part.a = first_rows(call.a, part.m, call.k), part.b = first_rows(call.b, part.n, call.k);
  if (call.scale_k == 0) return part;
  const std::int64_t blocks = ceil_div(call.k, call.scale_k);
  part.a_scales = first_rows(call.a_scales, ceil_div(part.m, call.a_scale_rows), blocks);
  part.b_scales = first_rows(call.b_scales, ceil_div(part.n, call.b_scale_rows), blocks);
  return part;
}

// Of definitions of a large D those that explain a corner of it, and the closest there: the others are not computed.
std::vector<std::string> worth_computing(const std::vector<std::string>& texts, const ProductCall& call,
                                         const std::vector<std::uint32_t>& answer) {
  const ProductCall part = corner(call);
  std::vector<std::uint32_t> d;
  for (std::int64_t i = 0; i < part.m * part.n; ++i) {
    d.push_back(answer[static_cast<std::size_t>(i / part.n * call.n + i % part.n)]);
  }
  const std::string name = "corner";
  const BoxAnswer observed{part_of(part, std::move(d))};
  const Match match = match_answers({&name, 1}, {&observed, 1}, definitions_of(texts, {&part, 1}));
  std::vector<std::string> worth = match.explaining;
  for (const Explained& e : match.closest) worth.push_back(e.name);
  return worth;
}

// The number of definitions is that of all, computed in full or not.
Match match_of(const std::vector<std::string>& texts, std::span<const std::string> names,
               std::span<const ProductCall> calls, std::span<const BoxAnswer> parts, const std::string& declared) {
  const ProductCall& one = calls.front();
  const bool large =
      calls.size() == 1 && one.c.empty() && one.m * one.n > kCorner * kCorner && one.m * one.n * one.k > kLarge;
  if (!large) return match_answers(names, parts, definitions_of(texts, calls), declared);
  const std::vector<std::string> worth = worth_computing(texts, one, parts.front().front().words);
  Match match = match_answers(names, parts, definitions_of(worth, calls), declared);
  match.tried = texts.size();
  return match;
}

}  // namespace

// Split-k is looked at only where no contract explains everything: it is most of the work.
Match match_products(std::span<const std::string> names, std::span<const ProductCall> calls,
                     std::span<const std::vector<std::uint32_t>> answers, const std::string& declared) {
  std::vector<BoxAnswer> parts;
  for (std::size_t p = 0; p < calls.size(); ++p) parts.push_back({part_of(calls[p], answers[p])});
  if (calls.empty()) return {};
  const ProductSpace space = space_of(calls.front());
  std::vector<std::string> texts = product_contracts(space);
  if (!declared.empty() && std::ranges::find(texts, declared) == texts.end()) texts.push_back(declared);
  Match match = match_of(texts, names, calls, parts, declared);
  if (match.explained()) {
    const std::string words = other_words(match.explaining.front(), space);
    if (!words.empty()) match.notes.push_back(words);
    return match;
  }
  const std::vector<std::string> split = split_products(space);
  Match in_parts = match_of(split, names, calls, parts, declared);
  match.explaining = in_parts.explaining;
  match.tried += in_parts.tried;
  match.closest.insert(match.closest.end(), in_parts.closest.begin(), in_parts.closest.end());
  keep_closest(match);
  return match;
}

ProductReport identify_product(const ProductSpace& space, const ProductBox& box, const ProductQuestion& question) {
  if (space.k < 1) throw Error(ErrorKind::usage, "K is " + std::to_string(space.k) + "; it must be at least 1");
  if (product_contracts(space).empty()) {
    throw Error(ErrorKind::usage, "no contract multiplies " + std::string(spec(space.a).name) + " and " +
                                      std::string(spec(space.b).name) + " to " + std::string(spec(space.output).name) +
                                      " with these scales; mxcheck mma --list has them");
  }
  std::vector<std::string> names;
  std::vector<ProductCall> calls;
  std::vector<std::vector<std::uint32_t>> answers;
  for (auto& [name, call] : product_probes(space)) {
    answers.push_back(box(call));
    names.push_back(name);
    calls.push_back(std::move(call));
  }
  ProductReport report{match_products(names, calls, answers, question.declared), std::nullopt};
  const bool wanted = question.tree == TreeWanted::always ||
                      (question.tree == TreeWanted::where_unexplained && !report.match.explained());
  if (wanted) report.order = reveal_order(space, box);
  return report;
}

std::string to_text(const ProductReport& report) {
  return to_text(report.match) + (report.order ? to_text(*report.order) : "");
}

namespace {

// A chain of hundreds of terms is as many parentheses; JSON has all of them.
std::string shortened(const std::string& text) {
  return text.size() <= 240 ? text : text.substr(0, 120) + " ... " + text.substr(text.size() - 80);
}

}  // namespace

std::string to_text(const TreeReport& o) {
  if (!o.tree) return "order         no tree: " + o.why_not + "\n";
  std::string text =
      "order         " + o.shape.value_or("of no name") + ", from " + std::to_string(o.masks) + " masks\n";
  text += "  tree        " + shortened(o.tree->text()) + "\n";
  for (const std::string& a : o.arithmetic) {
    text += "  additions   " + a + ": all of " + std::to_string(o.compared) + " random sums equal\n";
  }
  if (o.arithmetic.empty()) {
    text += "  additions   none that were tried; closest " + o.closest + ", " + std::to_string(o.closest_equal) +
            " of " + std::to_string(o.compared) + " random sums equal\n";
  }
  if (o.keeps_more) {
    text += "  compensated it keeps small terms that additions in this tree lose: compensated (Kahan), or wider\n";
  }
  return text;
}

}  // namespace mxcheck
