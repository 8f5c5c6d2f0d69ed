#include "benchmarks/sm90/moe/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace mxcheck::bench {

double peak_tflops_of(const LayerRecipe& recipe, std::string_view step) {
  for (std::size_t at = 0; at < step.size();) {
    const std::size_t end = std::min(step.find(' ', at), step.size());
    for (const LayerGemmSpec& gemm : kLayerGemms) {
      if (step.substr(at, end - at) != gemm.name) continue;
      return recipe.gemm(gemm.value).contract.starts_with("sm90_fp8") ? kPeakFp8 : kPeakBf16;
    }
    at = end + 1;
  }
  return kPeakBf16;
}

double PassResult::steps_us() const {
  double sum = 0;
  for (const StepTime& s : steps) sum += s.us;
  return sum;
}

double PassResult::share(StepKind kind) const {
  double sum = 0;
  for (const StepTime& s : steps) sum += s.kind == kind ? s.us : 0;
  const double all = steps_us();
  return all > 0 ? sum / all : 0;
}

const PassResult* ShapeResult::bf16(Direction direction) const {
  for (const RecipeResult& r : recipes) {
    if (r.recipe == "bf16") return &r.passes[static_cast<std::size_t>(direction)];
  }
  return nullptr;
}

double ShapeResult::with_router(const PassResult& pass) const {
  const bool counts = router && pass.direction == Direction::forward;
  return pass.call.median + (counts ? router->sum() : 0);
}

std::optional<double> ShapeResult::of_sonic_moe(const PassResult& pass) const {
  const SonicMoeRate* const rate = find_sonic_moe_rate(shape);
  if (rate == nullptr || card.find(kSonicMoeCard) == std::string::npos) return std::nullopt;
  const double theirs = pass.direction == Direction::forward ? rate->forward : rate->backward;
  return shape.tflops(pass.direction, with_router(pass)) / theirs;
}

std::optional<double> ShapeResult::of_bf16(const PassResult& pass) const {
  const PassResult* const other = bf16(pass.direction);
  if (other == nullptr) return std::nullopt;
  return other->call.median / pass.call.median;
}

// --- JSON

namespace {

Json json_of(const StepTime& s, double copy) {
  Json json{{"name", s.name}, {"kind", name_in(kStepKinds, s.kind)}, {"us", s.us}, {"bytes", s.bytes}};
  json["bytes_per_second"] = s.bytes_per_second();
  if (s.kind == StepKind::gemm) {
    json["products"] = s.products;
    json["tflops"] = s.tflops();
    json["peak_tflops"] = s.peak_tflops;
  }
  json["share_of_limit"] = s.share_of_limit(copy);
  return json;
}

Json json_of(const PassResult& p, const ShapeResult& r, double copy) {
  Json json{{"us", p.call.median}, {"us_least", p.call.least}, {"us_most", p.call.most}};
  json["tflops"] = r.shape.tflops(p.direction, p.call.median);
  json["us_with_router"] = r.with_router(p);
  if (const auto of = r.of_bf16(p)) json["of_bf16"] = *of;
  if (const auto of = r.of_sonic_moe(p)) json["of_sonic_moe"] = *of;
  json["steps_us"] = p.steps_us();
  Json shares = Json::object();
  for (const auto& kind : kStepKinds) shares[kind.name] = p.share(kind.value);
  json["shares"] = shares;
  json["tensor_bytes"] = p.tensor_bytes;
  json["workspace_bytes"] = p.workspace_bytes;
  json["peak_bytes"] = p.peak_bytes();
  Json steps = Json::array();
  for (const StepTime& s : p.steps) steps.push_back(json_of(s, copy));
  json["steps"] = steps;
  return json;
}

Json json_of(const ShapeResult& r, double copy) {
  const MoeShape& s = r.shape;
  Json json{{"tokens", s.tokens}, {"d", s.width},     {"n", s.inner},        {"experts", s.experts},
            {"top_k", s.top_k},   {"routes", r.load}, {"busiest", r.busiest}};
  if (r.router) json["router"] = Json{{"route_us", r.router->route}, {"metadata_us", r.router->metadata}};
  if (const SonicMoeRate* const rate = find_sonic_moe_rate(s); rate != nullptr) {
    json["sonic_moe_tflops"] = Json{{"forward", rate->forward}, {"backward", rate->backward}};
  }
  json["sonic_moe_kept_bytes"] = sonic_moe_kept_bytes(s);
  Json recipes = Json::array();
  for (const RecipeResult& recipe : r.recipes) {
    Json one{{"recipe", recipe.recipe}, {"kept_bytes", recipe.kept_bytes}};
    if (!recipe.check.empty()) one["check"] = Json{{"equal", recipe.equal}, {"text", recipe.check}};
    for (const PassResult& p : recipe.passes) one[to_text(p.direction)] = json_of(p, r, copy);
    recipes.push_back(one);
  }
  json["recipes"] = recipes;
  return json;
}

}  // namespace

Json json_of(const MoeResults& r) {
  Json json{{"card", json_of(r.card)}, {"library", r.library}, {"samples", r.samples}};
  json["copy_bytes_per_second"] = r.copy_bytes_per_second;
  Json shapes = Json::array();
  for (const ShapeResult& s : r.shapes) shapes.push_back(json_of(s, r.copy_bytes_per_second));
  json["shapes"] = shapes;
  return json;
}

// --- tables

namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

std::string cell(const std::optional<double>& value) { return value ? fmt::format("{:.3f}", *value) : "-"; }
double gib(std::uint64_t bytes) { return static_cast<double>(bytes) / kGib; }

std::string title(const ShapeResult& r) {
  return fmt::format("{}, {} routes (the busiest expert has {:.2f} of the mean)", r.shape.text(), r.load, r.busiest);
}

std::string router_text(const ShapeResult& r) {
  if (!r.router) return "router: not measured, in no figure below; SonicMoE's have theirs";
  return fmt::format(
      "router: {:.1f} us (token choice {:.1f}, rows by expert {:.1f}), in \"+ router\" and in the forward pass's \"of "
      "SonicMoE\"; not in it: the GEMM that makes the logits, and the router's backward pass",
      r.router->sum(), r.router->route, r.router->metadata);
}

}  // namespace

std::string head_text(const MoeResults& r) {
  std::string text = fmt::format("{}\nlibrary {}\n", to_text(r.card), r.library);
  text += fmt::format(
      "Passes: microseconds of one call from a graph, median of {}, all recipes in turn; TFLOPS are 6 R n d operations "
      "forward, 12 R n d backward. \"of SonicMoE\": of its rate in BF16 on an {}, by its own benchmark, router "
      "included{}.\n",
      r.samples, kSonicMoeCard,
      r.card.name.find(kSonicMoeCard) == std::string::npos ? "; not of a pass on another card, as here" : "");
  text += fmt::format(
      "Steps: one after another with an event between them. \"of limit\": a GEMM's rate over the dense peak of its "
      "tensor "
      "cores (BF16 {:.0f}, FP8 {:.0f} TFLOPS), other steps' over the best copy's, {:.0f} GB/s.\n",
      kPeakBf16, kPeakFp8, r.copy_bytes_per_second / 1e9);
  return text;
}

std::string passes_text(const ShapeResult& r) {
  std::string text = fmt::format("\n{}\n{}\n", title(r), router_text(r));
  text += fmt::format("{:<18} {:<9} {:>9} {:>19} {:>7} {:>8} {:>9} {:>12} {:>9}\n", "recipe", "pass", "us",
                      "least-most", "TFLOPS", "of bf16", "+ router", "of SonicMoE", "quantize");
  for (const RecipeResult& recipe : r.recipes) {
    for (const PassResult& p : recipe.passes) {
      text += fmt::format("{:<18} {:<9} {:>9.1f} {:>9.1f}-{:<9.1f} {:>7.1f} {:>8} {:>9.1f} {:>12} {:>8.1f}%\n",
                          recipe.recipe, to_text(p.direction), p.call.median, p.call.least, p.call.most,
                          r.shape.tflops(p.direction, p.call.median), cell(r.of_bf16(p)), r.with_router(p),
                          cell(r.of_sonic_moe(p)), 100 * p.share(StepKind::quantize));
    }
    if (!recipe.check.empty()) text += fmt::format("    {}\n", recipe.check);
  }
  return text;
}

std::string steps_text(const ShapeResult& r, double copy) {
  std::string text;
  for (const RecipeResult& recipe : r.recipes) {
    for (const PassResult& p : recipe.passes) {
      text += fmt::format("\n{} {}, {}\n", recipe.recipe, to_text(p.direction), r.shape.text());
      text += fmt::format("{:<34} {:<11} {:>9} {:>7} {:>8} {:>7} {:>7} {:>9}\n", "step", "kind", "us", "share", "GB",
                          "TB/s", "TFLOPS", "of limit");
      for (const StepTime& s : p.steps) {
        text += fmt::format("{:<34} {:<11} {:>9.1f} {:>6.1f}% {:>8.3f} {:>7.2f} {:>7} {:>9.3f}\n", s.name,
                            name_in(kStepKinds, s.kind), s.us, 100 * s.us / p.steps_us(),
                            static_cast<double>(s.bytes) / 1e9, s.bytes_per_second() / 1e12,
                            s.kind == StepKind::gemm ? fmt::format("{:.1f}", s.tflops()) : "-", s.share_of_limit(copy));
      }
      text += fmt::format("{:<34} {:<11} {:>9.1f}   the call: {:.1f}", "sum", "", p.steps_us(), p.call.median);
      for (const auto& kind : kStepKinds) text += fmt::format("   {} {:.1f}%", kind.name, 100 * p.share(kind.value));
      text += '\n';
    }
  }
  return text;
}

std::string memory_text(const ShapeResult& r) {
  const double theirs = gib(sonic_moe_kept_bytes(r.shape));
  std::string text = fmt::format(
      "\nMemory in GiB, {}. kept: X and H as the backward pass takes them; SonicMoE's formula, 2 T d + 4 T K n bytes, "
      "gives {:.3f}. peak: inputs, outputs and workspace of one call.\n",
      r.shape.text(), theirs);
  text += fmt::format("{:<18} {:>8} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "recipe", "kept",
                      "of SonicMoE", "fwd in+out", "fwd work", "fwd peak", "bwd in+out", "bwd work", "bwd peak");
  for (const RecipeResult& recipe : r.recipes) {
    const auto& [f, b] = recipe.passes;
    text += fmt::format("{:<18} {:>8.3f} {:>12.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f}\n",
                        recipe.recipe, gib(recipe.kept_bytes), gib(recipe.kept_bytes) / theirs, gib(f.tensor_bytes),
                        gib(f.workspace_bytes), gib(f.peak_bytes()), gib(b.tensor_bytes), gib(b.workspace_bytes),
                        gib(b.peak_bytes()));
  }
  return text;
}

// --- comparisons

namespace {

std::string difference(const ModelComparison& c) {
  const MxcheckGpuModelReport& r = c.report;
  const auto rows = static_cast<std::uint64_t>(c.m);
  const auto columns = static_cast<std::uint64_t>(c.n);
  const std::uint64_t row = r.first / columns;
  const std::string matrix = c.outputs == rows * columns ? "" : fmt::format("expert {} ", row / rows);
  return fmt::format("first at {}row {} column {}: expected {:08x}, observed {:08x}", matrix, row % rows,
                     r.first % columns, r.expected, r.observed);
}

}  // namespace

bool ModelComparison::equal() const {
  return report.compared == outputs && report.differing == 0 && report.bad_offsets == 0 && report.bad_rows == 0;
}

std::string comparison_head() {
  return fmt::format("{:<9} {:<10} {:>13} {:>13} {:>11} {:>9} {:>9}\n", "pass", "step", "outputs", "compared",
                     "differing", "seconds", "GMAC/s");
}

std::string comparison_line(const ModelComparison& c) {
  std::string line =
      fmt::format("{:<9} {:<10} {:>13} {:>13} {:>11} {:>9.4f} {:>9.1f}", to_text(c.direction), c.step, c.outputs,
                  c.report.compared, c.report.differing, c.seconds, static_cast<double>(c.products) / c.seconds / 1e9);
  if (c.report.bad_offsets != 0) line += "  BAD OFFSETS";
  if (c.report.bad_rows != 0) line += "  BAD ROWS";
  if (c.report.compared != c.outputs) line += "  NOT ALL COMPARED";
  if (c.report.differing != 0) line += "  DIFFERS, " + difference(c);
  return line + '\n';
}

}  // namespace mxcheck::bench
