#include "cost/measured.h"

#include <array>
#include <cstddef>
#include <vector>

namespace mxcheck {
namespace {

constexpr std::array<LayerShape, 3> kShapes{
    {{24576, 1536, 256, 128, 8}, {32768, 4096, 1024, 128, 8}, {32768, 4096, 512, 256, 16}}};

// TFLOPS of 6 T K n d operations forward and 12 backward, by shape.
struct Rates {
  std::string_view recipe;
  std::array<double, 3> forward;
  std::array<double, 3> backward;
};
constexpr std::array<Rates, 9> kRates{{
    {"bf16", {392.2, 578.6, 517.8}, {409.9, 602.4, 552.6}},
    {"mxfp8", {333.0, 499.7, 446.1}, {309.0, 481.2, 420.3}},
    {"mxfp8_floor", {332.5, 494.1, 447.5}, {309.7, 487.3, 427.3}},
    {"mxfp8_e5m2_grad", {332.5, 494.9, 452.9}, {309.8, 495.8, 443.0}},
    {"dsv3", {454.7, 780.3, 683.5}, {397.4, 661.2, 587.8}},
    {"dsv3_pow2", {443.6, 767.0, 679.4}, {405.2, 661.2, 589.4}},
    {"dsv3_128x128_grad", {455.3, 779.4, 684.1}, {395.4, 650.3, 571.0}},
    {"fp8_tensor", {392.7, 708.7, 621.6}, {356.5, 609.5, 541.7}},
    {"broken", {332.9, 506.4, 450.6}, {309.8, 500.5, 449.1}},
}};

// us at the second shape.
struct Times {
  std::string_view recipe;
  double forward;
  double backward;
};
constexpr std::array<Times, 4> kTimes{
    {{"bf16", 11463, 21901}, {"nvfp4", 14878, 37330}, {"nvfp4_46", 16629, 37373}, {"quartet2", 16712, 52372}}};

std::vector<MeasuredLayer> make_measured_layers() {
  std::vector<MeasuredLayer> all;
  for (const Rates& row : kRates) {
    for (std::size_t i = 0; i < kShapes.size(); ++i) {
      const LayerShape& s = kShapes[i];
      const double products = product({s.tokens, s.top_k, s.d_expert, s.d_model});
      all.push_back({row.recipe, "H200", s, 6 * products / row.forward[i] / 1e6, 12 * products / row.backward[i] / 1e6,
                     "docs/performance_log.md, Every case of whole layers"});
    }
  }
  for (const Times& row : kTimes) {
    all.push_back({row.recipe, "H200", kShapes[1], row.forward, row.backward, "docs/performance.md, Layers in NVFP4"});
  }
  return all;
}

}  // namespace

std::span<const MeasuredLayer> measured_layers() {
  static const std::vector<MeasuredLayer> all = make_measured_layers();
  return all;
}

}  // namespace mxcheck
