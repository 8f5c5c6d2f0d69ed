#include "benchmarks/sm90/moe/measure.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/core/compare.h"

namespace mxcheck::bench {
namespace {

constexpr std::int64_t kTokens = 32;

std::vector<std::uint16_t> downloaded(const LayerMemory& memory, const char* name, std::int64_t count) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  check_cuda(cudaMemcpy(values.data(), memory.find(name), values.size() * 2, cudaMemcpyDeviceToHost), name);
  return values;
}

// The bytes of the expected rows of a tensor, from the device; neighbours in one copy.
std::vector<std::byte> fetched(const void* from, const ExpectedRows& e) {
  const std::size_t each = e.row_bytes();
  std::vector<std::byte> bytes(e.bytes.size());
  for (std::size_t begin = 0; begin < e.rows.size();) {
    std::size_t end = begin + 1;
    while (end < e.rows.size() && e.rows[end] == e.rows[end - 1] + 1) ++end;
    const auto* const at = static_cast<const std::byte*>(from) + static_cast<std::size_t>(e.rows[begin]) * each;
    check_cuda(cudaMemcpy(&bytes[begin * each], at, (end - begin) * each, cudaMemcpyDeviceToHost), e.tensor.c_str());
    begin = end;
  }
  return bytes;
}

struct Tally {
  std::map<std::string, std::uint64_t> compared;  // elements, by tensor
  std::vector<std::string> different;
};

std::uint64_t width_of(const MoeTensors& tensors, const std::string& name) {
  for (const auto* list : {&tensors.kept, &tensors.forward, &tensors.backward}) {
    const auto found = std::ranges::find(*list, name, &MoeTensor::name);
    if (found != list->end()) return found->type.bits / 8U;
  }
  throw Error(ErrorKind::internal, name + " is no output");
}

void compare_rows(const ExpectedRows& e, const void* observed, std::uint64_t width, Tally& tally) {
  const std::vector<std::byte> found = fetched(observed, e);
  const std::size_t elements = found.size() / width;
  tally.compared[e.tensor] += elements;
  const auto cols = static_cast<std::int64_t>(e.row_bytes() / width);
  const Format format = width == 1 ? Format::e4m3 : width == 2 ? Format::bf16 : Format::fp32;
  const auto d = compare({e.tensor, format, std::ssize(e.rows), cols}, e.bytes, found, 0);
  if (!d) return;
  tally.different.push_back(fmt::format("{}: {} of {} elements, first at row {}, column {}", e.tensor, d->count,
                                        elements, e.rows[static_cast<std::size_t>(d->first.row)], d->first.col));
}

}  // namespace

LayerCheck::LayerCheck(const MoeShape& shape, mxcheck_gate_up gate_up, const LayerRoutes& routes,
                       const LayerMemory& memory)
    : layer_{shape,
             gate_up == MXCHECK_HALVES ? GateUp::halves : GateUp::interleaved,
             routes,
             downloaded(memory, "x", shape.tokens * shape.width),
             downloaded(memory, "w1", shape.experts * shape.width * 2 * shape.inner),
             downloaded(memory, "w2", shape.experts * shape.inner * shape.width),
             downloaded(memory, "d_o", shape.tokens * shape.width)} {}

CheckResult LayerCheck::compare(RecipeOnDevice& recipe, std::int64_t experts) const {
  const MoeShape& shape = layer_.shape;
  const bool whole = experts >= shape.experts;
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(std::min(kTokens, shape.tokens)));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int64_t>(i) * (shape.tokens - 1) / std::max<std::int64_t>(std::ssize(tokens) - 1, 1);
  }
  std::vector<Sublayer> parts;
  if (whole) {
    parts.push_back(sublayer_of(layer_, Part::whole, {}));
  } else {
    for (const std::int64_t e : experts_to_check(layer_.routes, experts)) {
      parts.push_back(sublayer_of(layer_, Part::experts, {e}));
    }
    parts.push_back(sublayer_of(layer_, Part::tokens, tokens));
  }
  Tally tally;
  for (const Sublayer& part : parts) {
    for (const ExpectedRows& e : expected_rows(part, layer_.gate_up, recipe.recipe())) {
      const Direction direction = e.tensor[0] == 'd' ? Direction::backward : Direction::forward;
      compare_rows(e, recipe.pass(direction).data(e.tensor), width_of(recipe.tensors(), e.tensor), tally);
    }
  }
  if (tally.compared.empty()) return {true, "not checked: one scale of a whole tensor needs --check of all experts"};
  const auto counted = [](const auto& of) { return fmt::format("{} {}", of.first, of.second); };
  const std::string what =
      whole ? "the whole layer" : fmt::format("{} experts and {} tokens", parts.size() - 1, tokens.size());
  const std::string elements = join(tally.compared, ", ", counted);
  if (tally.different.empty()) return {true, fmt::format("equals the reference in {}: elements of {}", what, elements)};
  return {false, fmt::format("DIFFERS from the reference in {}: {}; compared: {}", what, join(tally.different, "; "),
                             elements)};
}

}  // namespace mxcheck::bench
