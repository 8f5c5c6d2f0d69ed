#include "properties/gate/variants.h"

#include <algorithm>
#include <utility>

#include "numerics/scale/recipe.h"
#include "properties/operations/matmul/problem.h"
#include "properties/operations/operations.h"
#include "properties/operations/router/problem.h"

namespace mxcheck {
namespace {

constexpr BlockShape kBlocks[] = {{1, 32}, {32, 1}, {32, 32}, {1, 128}, {128, 1}, {128, 128}, {1, 0}};
constexpr Format kElements[] = {Format::e4m3, Format::e5m2, Format::e2m1, Format::e2m3, Format::e3m2, Format::mxint8};
constexpr Format kWide[] = {Format::bf16, Format::fp32, Format::fp16};

bool has_tiles(BlockShape block) { return block.rows == 1 || block.cols == 1; }

// Everything that could be asked of an operation.
std::vector<Variant> askable(const std::string& operation) {
  std::vector<Variant> all;
  const bool quantizing = operation == "quantize" || operation == "quantize_dual";
  for (const Recipe& recipe : all_recipes()) {
    if (recipe.rule == ScaleRule::fp32 || (!quantizing && recipe.name != "rceil")) continue;
    for (Format format : kElements) {
      for (BlockShape block : kBlocks) {
        for (int layout : {0, 1}) {
          for (Format wide : kWide) {
            if (layout == 1 && !has_tiles(block)) continue;
            if (operation == "quantize_dual" && !(block.rows == 1 && block.cols > 1)) continue;
            if (operation == "dequantize" && wide == Format::fp16) continue;
            if (operation == "cast" && (layout != 0 || !(block == BlockShape{1, 32}))) continue;
            if (operation == "scale_layout" && (format != Format::e4m3 || wide != Format::bf16 || !has_tiles(block)))
              continue;
            all.push_back({operation, format, recipe.name, block, layout, wide});
          }
        }
      }
    }
  }
  return all;
}

// Whether shapes within the candidate's limits can cut a block of the variant.
bool can_be_cut(const Variant& v, const OperationInfo& limits) {
  if (is_matmul(v.operation) || is_route(v.operation)) return false;
  const auto cuts = [](std::int64_t block, std::int64_t multiple) { return block > 1 && multiple % block != 0; };
  return cuts(v.block.rows, limits.rows_multiple) || cuts(v.block.cols, limits.cols_multiple);
}

}  // namespace

std::vector<Variant> offered_variants(CandidateProcess& process) {
  std::vector<Variant> offered;
  for (const OperationInfo& operation : process.info().operations) {
    if (!is_matmul(operation.name)) continue;
    for (Variant& v : askable_products(operation.name)) {
      Case c;
      c.variant = v;
      if (process.supports(v.operation, to_policy(c), v.wide)) offered.push_back(std::move(v));
    }
  }
  for (const char* operation : {"quantize", "quantize_dual", "dequantize", "scale_layout", "cast"}) {
    if (process.operation(operation) == nullptr) continue;
    for (const Variant& v : askable(operation)) {
      Case c;
      c.variant = v;
      if (process.supports(operation, to_policy(c), v.wide)) offered.push_back(v);
    }
  }
  for (const char* operation : {"route", "route_round", "route_metadata", "route_backward"}) {
    if (process.operation(operation) == nullptr) continue;
    for (Variant& v : askable_routes(operation)) {
      if (process.supports(operation, route_question(v), v.wide)) offered.push_back(std::move(v));
    }
  }
  return offered;
}

std::set<std::string> required_classes(const Statement& s, const std::vector<Variant>& variants,
                                       const CandidateRunner& process, const std::set<std::string>& refused) {
  std::set<std::string> required;
  if (s.data.empty()) return required;
  std::set<std::string> routers;  // operations whose data classes are in: there are thousands of variants
  for (const Variant& v : variants) {
    const bool first = !is_route(v.operation) || routers.insert(v.operation).second;
    Case c;
    c.variant = v;
    for (Data data : first ? s.data : std::vector<Data>{s.data.front()}) {
      c.data = data;
      for (std::string& name : classes_of(c)) required.insert(std::move(name));
    }
  }
  // Rules of rounding are what one operation is about; where others are drawn too, not each need come up.
  const bool rounds_alone =
      std::all_of(variants.begin(), variants.end(), [](const Variant& v) { return v.operation == "route_round"; });
  std::erase_if(required, [&](const std::string& name) {
    return name.starts_with("shape ") || (name.starts_with("rule ") && !rounds_alone);
  });
  bool cut = false;
  bool has_x = false;
  bool has_blocks = false;  // which restart at experts
  for (const Variant& v : variants) {
    cut = cut || can_be_cut(v, *process.operation(v.operation));
    has_x = has_x || reads_x(v) || reads_logits(v);
    has_blocks = has_blocks || (v.operation != "cast" && !is_matmul(v.operation) && !is_route(v.operation));
  }
  if (cut) required.insert("shape with a cut block");
  if (s.strides && has_x) required.insert("row stride");
  if (s.experts > 0 && has_blocks) required.insert({"experts", "experts without rows"});
  for (const std::string& option : refused) {
    std::erase_if(required, [&](const std::string& name) { return name.starts_with(option); });
  }
  return required;
}

}  // namespace mxcheck
