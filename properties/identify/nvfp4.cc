
#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/scale/recipe.h"
#include "numerics/scale/recipe_words.h"
#include "properties/identify/blocks.h"
#include "reference/common/checked_size.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

// The dump's matrix as bytes, which rows of the table quantize.
struct DumpProblem {
  Nvfp4Dump dump;
  std::vector<std::byte> x;

  [[nodiscard]] MatrixView view() const { return {dump.dtype, x.data(), dump.rows, dump.cols, dump.cols}; }
};

// Both outputs, scales first, in blocks of this shape; of 16 x 16 repeated for each row where the dump has them so.
std::vector<Bytes> answer_of(const DumpProblem& p, const Recipe& recipe, BlockShape block, std::vector<float> outer) {
  const QuantizedTensor q = quantize(p.view(), Format::e2m1, block, recipe, {.outer = outer});
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
  const auto add = [&](const std::string& name, const Recipe& recipe, std::vector<float> outer) {
    table.push_back(definition_of_all(
        name + end, [p, recipe, block, outer = std::move(outer)] { return answer_of(*p, recipe, block, outer); }, memo,
        recipe.checked_against));
  };
  const std::optional<float> given = p->dump.tensor_scale;
  if (given) {  // as the recipe stores it, before the other two numbers that it may be
    for (const Recipe& recipe : two_level_recipes()) add(recipe.name, recipe, {*given});
    for (const Recipe& recipe : two_level_recipes()) {
      for (const auto& [kind, stored] : kStoredScales) {
        if (stored == recipe.two_level.stored) continue;
        Recipe as = recipe;
        as.two_level.stored = stored;
        add(recipe.name + ", tensor_scale as " + std::string(kind), as, {*given});
      }
    }
  }
  for (const Recipe& recipe : two_level_recipes()) {
    add(recipe.name + (given ? ", under the scale of its own amax" : ""), recipe, {});
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
