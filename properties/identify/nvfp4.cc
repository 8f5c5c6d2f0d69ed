
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/scale/recipe.h"
#include "numerics/scale/recipe_words.h"
#include "properties/identify/blocks.h"
#include "reference/common/checked_size.h"
#include "reference/quantize/quantize.h"
#include "reference/quantize/word_order.h"

namespace mxcheck {
namespace {

// The dump's matrix as bytes, which rows of the table quantize.
struct DumpProblem {
  Nvfp4Dump dump;
  std::vector<std::byte> x;

  [[nodiscard]] MatrixView view() const { return {dump.dtype, x.data(), dump.rows, dump.cols, dump.cols}; }
};

using WordsOf = std::function<std::vector<std::uint32_t>()>;

// The ways to round the dump's codes stochastically under its seed.
std::vector<std::pair<std::string, WordsOf>> words_of(const Nvfp4Dump& dump) {
  std::vector<std::pair<std::string, WordsOf>> all;
  const auto by_number = [&](const char* name, const auto& word) {
    all.emplace_back(name, [word, seed = *dump.seed, count = dump.codes.size()] {
      std::vector<std::uint32_t> words(count);
      for (std::size_t i = 0; i < count; ++i) words[i] = word(seed.key, i + seed.first, {0, 0});
      return words;
    });
  };
  by_number("stochastic", &element_word);
  by_number("stochastic_bytes", &element_byte_word);
  for (const WordOrder& order : word_orders()) {
    for (const auto& output : kWordOutputs) {
      const WordMatrix x = word_matrix(output.value, dump.rows, dump.cols);
      if (!has_words(order, x)) continue;
      for (const auto& bytes : kWordBytes) {
        WordSeed seed = *dump.seed;
        seed.bytes = bytes.value;
        all.emplace_back(to_text(NamedWords{&order, output.value}) + ", bytes " + std::string(bytes.name),
                         [&order, x, seed] { return ordered_words(order, x, seed); });
      }
    }
  }
  return all;
}

// Both outputs, scales first, in blocks of this shape; of 16 x 16 repeated for each row where the dump has them so.
std::vector<Bytes> answer_of(const DumpProblem& p, const Recipe& recipe, BlockShape block, std::vector<float> outer,
                             const WordsOf& words_of_codes = {}) {
  const std::vector<std::uint32_t> words = words_of_codes ? words_of_codes() : std::vector<std::uint32_t>();
  const QuantizedTensor q = quantize(p.view(), Format::e2m1, block, recipe, {.outer = outer, .words = words});
  Bytes scales = q.scales().data;
  if (block != p.dump.block) {
    const auto width = static_cast<std::size_t>(q.scale_cols());
    Bytes repeated;
    for (std::int64_t row = 0; row < p.dump.rows; ++row) {
      const auto from =
          scales.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row / block.rows) * width);
      repeated.insert(repeated.end(), from, from + static_cast<std::ptrdiff_t>(width));
    }
    scales = std::move(repeated);
  }
  return {std::move(scales), q.codes.data};
}

void add_rows(Table& table, const std::shared_ptr<const DumpProblem>& p, const std::shared_ptr<AnswerMemo>& memo,
              BlockShape block, const std::string& end) {
  const auto add = [&](const std::string& name, const Recipe& recipe, const std::vector<float>& outer,
                       bool may_have_words) {
    table.push_back(definition_of_all(
        name + end, [p, recipe, block, outer] { return answer_of(*p, recipe, block, outer); }, memo,
        recipe.checked_against));
    if (!may_have_words || !p->dump.seed || answer_of(*p, recipe, block, outer)[0] != to_bytes(p->dump.scales)) return;
    Recipe stochastic = recipe;
    stochastic.rounding = Rounding::stochastic;
    for (const auto& [words, of] : words_of(p->dump)) {
      table.push_back(definition_of_all(
          name + end + ", words " + words,
          [p, stochastic, block, outer, of = of] { return answer_of(*p, stochastic, block, outer, of); }, memo,
          recipe.checked_against));
    }
  };
  const std::optional<float> given = p->dump.tensor_scale;
  if (given) {  // as the recipe stores it, before the other two numbers that it may be
    for (const Recipe& recipe : two_level_recipes()) add(recipe.name, recipe, {*given}, true);
    for (const Recipe& recipe : two_level_recipes()) {
      for (const auto& [kind, stored] : kStoredScales) {
        if (stored == recipe.two_level.stored) continue;
        Recipe as = recipe;
        as.two_level.stored = stored;
        add(recipe.name + ", tensor_scale as " + std::string(kind), as, {*given}, false);
      }
    }
  }
  for (const Recipe& recipe : two_level_recipes()) {
    add(recipe.name + (given ? ", under the scale of its own amax" : ""), recipe, {}, !given);
  }
}

void check_sizes(const Nvfp4Dump& dump) {
  const auto refuse = [](const std::string& what, std::size_t is, std::int64_t must) {
    if (std::cmp_equal(is, must)) return;
    throw Error(ErrorKind::usage,
                std::to_string(is) + " " + what + ", where the shape asks for " + std::to_string(must));
  };
  const std::int64_t elements = checked_product(dump.rows, dump.cols, "elements");
  refuse("values of x", dump.x.size(), elements);
  refuse("codes", dump.codes.size(), elements);
  refuse("scales", dump.scales.size(),
         ceil_div(dump.rows, dump.block.height(dump.rows)) * ceil_div(dump.cols, dump.block.width(dump.cols)));
}

}  // namespace

Match match_nvfp4(const std::string& name, const Nvfp4Dump& dump) {
  check_sizes(dump);
  const auto p = std::make_shared<DumpProblem>(DumpProblem{dump, value_bytes(dump.dtype, dump.x)});
  const auto memo = std::make_shared<AnswerMemo>();
  Probe probe;
  probe.name = name;
  const std::int64_t scale_cols = ceil_div(dump.cols, dump.block.width(dump.cols));
  probe.outputs = {
      {"scales", Format::e4m3, std::ssize(dump.scales) / std::max<std::int64_t>(1, scale_cols), scale_cols},
      {"codes", Format::e2m1, dump.rows, dump.cols}};
  probe.observed = {to_bytes(dump.scales), to_bytes(dump.codes)};
  add_rows(probe.table, p, memo, dump.block, "");
  const bool repeats = dump.block == BlockShape{1, 16} && dump.rows > 1;
  if (repeats) add_rows(probe.table, p, memo, {16, 16}, ", blocks 16x16 with a scale for each row");
  return match_answers({&probe, 1});
}

}  // namespace mxcheck
