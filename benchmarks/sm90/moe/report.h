#pragma once
// Results of the benchmark of whole layers: what was measured, and as tables, as JSON (everything that the tables have,
// in microseconds, bytes and TFLOPS), and as lines of comparisons with the GPU model.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/sm90/common/card.h"
#include "benchmarks/sm90/moe/shape.h"
#include "goldens/json/json.h"
#include "numerics/names.h"
#include "properties/gpu_model/gpu_model.h"
#include "reference/layer/layer_recipe.h"

namespace mxcheck::bench {

// --- results
//
// Measurements of whole layers, and what follows from them. No CUDA: tables, JSON and pictures are tested without a
// GPU.

// Dense, TFLOPS: NVIDIA's data sheet of the H200 (SXM).
inline constexpr double kPeakBf16 = 989;
inline constexpr double kPeakFp8 = 1979;
// The peak of the GEMM that a step's name has as a word ("up", "d_w1 of A' and dO"), under the recipe's contract for
// it; BF16's for a name without one.
double peak_tflops_of(const LayerRecipe& recipe, std::string_view step);

enum class StepKind : std::uint8_t { check, quantize, gemm, elementwise };
inline constexpr std::array<Named<StepKind>, 4> kStepKinds{{{"check", StepKind::check},
                                                            {"quantize", StepKind::quantize},
                                                            {"gemm", StepKind::gemm},
                                                            {"elementwise", StepKind::elementwise}}};

struct StepTime {
  std::string name;
  StepKind kind = StepKind::elementwise;
  double us = 0;
  std::uint64_t bytes = 0;     // each input read once, each output written once
  std::uint64_t products = 0;  // of a GEMM
  double peak_tflops = 0;      // of a GEMM: dense, of the type that its tensor cores multiply

  [[nodiscard]] double tflops() const { return 2 * static_cast<double>(products) / us / 1e6; }
  [[nodiscard]] double bytes_per_second() const { return static_cast<double>(bytes) / us * 1e6; }
  // The rate of a GEMM over its peak, that of any other step over a copy's.
  [[nodiscard]] double share_of_limit(double copy_bytes_per_second) const {
    return kind == StepKind::gemm ? tflops() / peak_tflops : bytes_per_second() / copy_bytes_per_second;
  }
};

struct CallTime {  // microseconds
  double median = 0;
  double least = 0;
  double most = 0;
};

// One pass of the layer.
struct PassResult {
  Direction direction = Direction::forward;
  CallTime call;                // one graph
  std::vector<StepTime> steps;  // one after another, with an event between them
  std::uint64_t tensor_bytes = 0;
  std::uint64_t workspace_bytes = 0;

  [[nodiscard]] std::uint64_t peak_bytes() const { return tensor_bytes + workspace_bytes; }
  [[nodiscard]] double steps_us() const;
  // The share of the steps' time that steps of this kind take.
  [[nodiscard]] double share(StepKind kind) const;
};

struct RecipeResult {
  std::string recipe;
  std::uint64_t kept_bytes = 0;
  std::array<PassResult, 2> passes;  // by Direction
  std::string check;                 // "" or what --check found, in words
  bool equal = true;                 // as far as it was checked
};

struct RouterTime {
  double route = 0;  // microseconds: token choice from logits, then the rows by expert
  double metadata = 0;
  [[nodiscard]] double sum() const { return route + metadata; }
};

struct ShapeResult {
  MoeShape shape;
  std::string load;
  double busiest = 0;  // rows of the expert that has most over the mean
  std::optional<RouterTime> router;
  std::vector<RecipeResult> recipes;
  std::string card;  // its name

  // The pass under bf16, which the others are compared with; null where it was not measured.
  [[nodiscard]] const PassResult* bf16(Direction direction) const;
  // With the router's time, of the forward pass, where that is known.
  [[nodiscard]] double with_router(const PassResult& pass) const;
  // Our rate over SonicMoE's, the router's time included where it is known; nothing where theirs was not
  // measured, or on another card than ours.
  [[nodiscard]] std::optional<double> of_sonic_moe(const PassResult& pass) const;
  [[nodiscard]] std::optional<double> of_bf16(const PassResult& pass) const;
};

struct MoeResults {
  Card card;
  std::string library;
  int samples = 0;
  double copy_bytes_per_second = 0;  // device to device, read and written
  std::vector<ShapeResult> shapes;
};

// Results as JSON: everything that the tables have, in microseconds, bytes and TFLOPS.

Json json_of(const MoeResults& results);

// --- tables

// The meaning of the columns, once before all tables.
std::string head_text(const MoeResults& results);

std::string passes_text(const ShapeResult& result);
std::string steps_text(const ShapeResult& result, double copy_bytes_per_second);
std::string memory_text(const ShapeResult& result);

// --- comparisons
//
// The result of comparing a GEMM's outputs with the GPU model, and its line in a table.

struct ModelComparison {
  Direction direction = Direction::forward;
  std::string step;
  std::int64_t m = 0;  // of each expert's matrix where groups lie along k
  std::int64_t n = 0;
  std::uint64_t outputs = 0;   // that the GEMM has
  std::uint64_t products = 0;  // that it sums
  MxcheckGpuModelReport report{};
  double seconds = 0;  // of the model

  // Every output was compared, and none differs.
  [[nodiscard]] bool equal() const;
};

std::string comparison_head();
std::string comparison_line(const ModelComparison& comparison);

// The steps of every pass as a picture, one bar a step where it begins and ends, all passes of a shape on one scale:
// forward on the left, backward on the right, a recipe a row. Nothing is loaded from elsewhere.
std::string time_line_svg(const MoeResults& results);

}  // namespace mxcheck::bench
