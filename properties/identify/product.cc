#include "properties/identify/product.h"

#include <algorithm>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "properties/identify/product_definitions.h"
#include "properties/identify/reveal.h"

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
  Match match = match_answers(names, parts, definitions_of(texts, calls), declared);
  if (match.explained()) {
    const std::string words = other_words(match.explaining.front(), space);
    if (!words.empty()) match.notes.push_back(words);
    return match;
  }
  const std::vector<std::string> split = split_products(space);
  Match in_parts = match_answers(names, parts, definitions_of(split, calls), declared);
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
