#include "cost/card.h"

#include <algorithm>

#include "numerics/names.h"

namespace mxcheck {
namespace {

// ---- sources ----

constexpr std::string_view kH100Sheet = "NVIDIA H100 Tensor Core GPU data sheet, SXM, dense";
constexpr std::string_view kH200Sheet = "NVIDIA H200 Tensor Core GPU data sheet, SXM, dense";
constexpr std::string_view kB200Sheet = "NVIDIA DGX B200 data sheet, an eighth of the system, dense";
constexpr std::string_view kBlackwellBrief = "NVIDIA Blackwell architecture technical brief, HGX B200 at 1000 W, dense";
constexpr std::string_view kDgx = "NVIDIA DGX data sheet: one 400 Gb/s adapter a GPU";
constexpr std::string_view kGemms = "docs/performance.md, Hopper GEMMs: groups of 4096 rows; weight gradients";
constexpr std::string_view kLinesGemms = "docs/performance.md, Hopper GEMMs: 32768x7168x2048; weight gradients";
constexpr std::string_view kValuesGemms =
    "docs/performance.md, BF16 GEMMs, and docs/performance_log.md: values that went through E4M3 are 6 to 9 % faster";
constexpr std::string_view kQuantizers = "docs/performance.md, Hopper quantization kernels";
constexpr std::string_view kSteps = "docs/performance.md, Steps of a layer";
constexpr std::string_view kNvfp4Layers = "docs/performance.md, Layers in NVFP4";
constexpr std::string_view kFitted = "fitted to a layer of docs/performance.md, Layers in NVFP4: that layer is no test";
constexpr std::string_view kGathers = "docs/performance_log.md, steps of whole layers: gather X";
constexpr std::string_view kEmptyKernel = "docs/performance.md: an empty kernel on the H200";
constexpr std::string_view kCursor = "Cursor, 1.5x faster MoE training with MXFP8 kernels built from scratch (2025)";
constexpr std::string_view kThunderKittens = "ThunderKittens 2.0's BF16 GEMM on a B200: 1540 TFLOPS";
constexpr std::string_view kTirx =
    "mlc-ai/tirx-kernels, baselines on a B200: DeepGEMM 2068 of 4500 along tokens, NVFP4 6092 of 9000";
constexpr std::string_view kDeepEp1 = "DeepEP docs/legacy.md: 153 GB/s on an H800, whose NVLink has 200";
constexpr std::string_view kDeepEp2 = "DeepEP README.md: 726 GB/s of 900 on SM100";
constexpr std::string_view kDeepEpNetwork = "DeepEP docs/legacy.md: 43 GB/s of 50 over two nodes";

constexpr Figure assumed(double value, std::string_view why) { return {value, why, true}; }

// ---- what Hopper's two cards share ----

constexpr std::string_view kAsBf16 = "no case; BF16 loses as much, 0.604 of 0.673";
constexpr Figure kAbsent{};
constexpr EngineRate kNoMx{Engine::mx, kAbsent, kAbsent, kAbsent};
constexpr EngineRate kNoNvfp4{Engine::nvfp4, kAbsent, kAbsent, kAbsent};

// The H200's rates, as shares of the peaks that both cards have: 666 and 597 of 989, 1208, 890 and 755 of 1979.
constexpr std::array<EngineRate, kEngineCount> hopper_engines(std::string_view sheet) {
  return {{{Engine::bf16, {989, sheet}, {0.673, kGemms}, {0.604, kGemms}},
           {Engine::values, {989, sheet}, {0.724, kValuesGemms}, {0.649, kValuesGemms}},
           {Engine::fp8, {1979, sheet}, {0.610, kGemms}, assumed(0.547, kAsBf16)},
           {Engine::fp8_lines, {1979, sheet}, {0.450, kLinesGemms}, {0.382, kLinesGemms}},
           {Engine::fp8_tensor, {1979, sheet}, {0.610, kGemms}, assumed(0.547, kAsBf16)},
           kNoMx,
           kNoNvfp4}};
}

constexpr std::array<MoverShare, kMoverCount> kHopperMovers{{{Mover::quantize, {1.03, kQuantizers}},
                                                             {Mover::quantize_tokens, {1.18, kSteps}},
                                                             {Mover::two_level, {0.85, kNvfp4Layers}},
                                                             {Mover::stochastic, {0.328, kNvfp4Layers}},
                                                             {Mover::four_over_six, {0.61, kFitted}},
                                                             {Mover::ms_eden, {0.362, kFitted}},
                                                             {Mover::gather, {0.875, kGathers}},
                                                             {Mover::swiglu, {0.961, kSteps}},
                                                             {Mover::swiglu_backward, {0.923, kSteps}},
                                                             {Mover::aggregate, {0.963, kSteps}}}};

// ---- Blackwell ----

constexpr std::array<EngineRate, kEngineCount> kB200Engines{
    {{Engine::bf16, {2250, kB200Sheet}, {0.684, kThunderKittens}, assumed(0.684, "as along rows")},
     {Engine::values, {2250, kB200Sheet}, assumed(0.684, "as BF16"), assumed(0.684, "as BF16")},
     {Engine::fp8, {4500, kB200Sheet}, {0.711, kCursor}, assumed(0.711, "as along rows")},
     {Engine::fp8_lines, {4500, kB200Sheet}, {0.711, kCursor}, assumed(0.711, "as along rows")},
     {Engine::fp8_tensor, {4500, kB200Sheet}, {0.711, kCursor}, assumed(0.711, "as along rows")},
     {Engine::mx, {4500, kB200Sheet}, {0.589, kCursor}, {0.46, kTirx}},
     {Engine::nvfp4, {9000, kB200Sheet}, {0.677, kTirx}, assumed(0.529, "MXFP8's ratio of 0.46 to 0.589")}}};

constexpr std::string_view kSixTwelve = "Cursor: 6212 GB/s of 6500";
constexpr std::string_view kConverts = "no published figure; the card converts to E2M1 in hardware, so as MXFP8";
constexpr std::string_view kLikeHopper = "no published figure; the H200's ratio to plain NVFP4";
constexpr std::string_view kAsHopper = "no published figure; the H200's share";

constexpr std::array<MoverShare, kMoverCount> kB200Movers{{{Mover::quantize, {0.956, kSixTwelve}},
                                                           {Mover::quantize_tokens, {0.956, kSixTwelve}},
                                                           {Mover::two_level, assumed(0.956, kConverts)},
                                                           {Mover::stochastic, assumed(0.956, kConverts)},
                                                           {Mover::four_over_six, assumed(0.686, kLikeHopper)},
                                                           {Mover::ms_eden, assumed(0.407, kLikeHopper)},
                                                           {Mover::gather, assumed(0.875, kAsHopper)},
                                                           {Mover::swiglu, assumed(0.961, kAsHopper)},
                                                           {Mover::swiglu_backward, assumed(0.923, kAsHopper)},
                                                           {Mover::aggregate, assumed(0.963, kAsHopper)}}};

constexpr std::array<Card, 3> kCards{{{"H100",
                                       Architecture::hopper,
                                       {80, kH100Sheet},
                                       {3350, kH100Sheet},
                                       {3022, "docs/performance.md, Routers: an H100's best copy"},
                                       {67, kH100Sheet},
                                       assumed(0.69, kEmptyKernel),
                                       {450, kH100Sheet},
                                       {0.765, kDeepEp1},
                                       {50, kDgx},
                                       {0.86, kDeepEpNetwork},
                                       hopper_engines(kH100Sheet),
                                       kHopperMovers},
                                      {"H200",
                                       Architecture::hopper,
                                       {141, kH200Sheet},
                                       {4800, kH200Sheet},
                                       {4170, kQuantizers},
                                       {67, kH200Sheet},
                                       {0.69, kEmptyKernel},
                                       {450, kH200Sheet},
                                       {0.765, kDeepEp1},
                                       {50, kDgx},
                                       {0.86, kDeepEpNetwork},
                                       hopper_engines(kH200Sheet),
                                       kHopperMovers},
                                      {"B200",
                                       Architecture::blackwell,
                                       {180, kB200Sheet},
                                       {8000, kB200Sheet},
                                       {6500, kCursor},
                                       {80, kBlackwellBrief},
                                       assumed(0.69, kEmptyKernel),
                                       {900, kB200Sheet},
                                       {0.807, kDeepEp2},
                                       {50, kDgx},
                                       {0.86, kDeepEpNetwork},
                                       kB200Engines,
                                       kB200Movers}}};

static_assert(
    [] {
      for (const Card& card : kCards) {
        for (std::size_t i = 0; i < kEngineCount; ++i) {
          if (static_cast<std::size_t>(card.engines[i].engine) != i) return false;
        }
        for (std::size_t i = 0; i < kMoverCount; ++i) {
          if (static_cast<std::size_t>(card.movers[i].mover) != i) return false;
        }
      }
      return true;
    }(),
    "the rows of a card are in the order of engines and movers");

constexpr std::array<Named<Engine>, kEngineCount> kEngineNames{{{"bf16", Engine::bf16},
                                                                {"bf16 of values", Engine::values},
                                                                {"fp8", Engine::fp8},
                                                                {"fp8 lines", Engine::fp8_lines},
                                                                {"fp8 tensor", Engine::fp8_tensor},
                                                                {"mx", Engine::mx},
                                                                {"nvfp4", Engine::nvfp4}}};

constexpr std::array<Named<Mover>, kMoverCount> kMoverNames{{{"quantize", Mover::quantize},
                                                             {"quantize along tokens", Mover::quantize_tokens},
                                                             {"two levels", Mover::two_level},
                                                             {"stochastic", Mover::stochastic},
                                                             {"four over six", Mover::four_over_six},
                                                             {"ms_eden", Mover::ms_eden},
                                                             {"gather", Mover::gather},
                                                             {"swiglu", Mover::swiglu},
                                                             {"swiglu_backward", Mover::swiglu_backward},
                                                             {"aggregate", Mover::aggregate}}};

}  // namespace

std::string_view name_of(Engine engine) { return name_in(kEngineNames, engine); }
std::string_view name_of(Mover mover) { return name_in(kMoverNames, mover); }

const EngineRate* Card::engine(Engine engine) const {
  const EngineRate& rate = engines[static_cast<std::size_t>(engine)];
  return rate.peak.value > 0 ? &rate : nullptr;
}

const Figure& Card::share_of(Mover mover) const { return movers[static_cast<std::size_t>(mover)].of_copy; }

std::span<const Card> all_cards() { return kCards; }

const Card& card_named(std::string_view name) { return entry_named(kCards, "card", name); }

std::vector<CardFigure> figures_of(const Card& card) {
  std::vector<CardFigure> all{{"", "memory", "GB", card.memory_gb},
                              {"", "bandwidth of memory", "GB/s", card.bandwidth},
                              {"", "copy, read plus written", "GB/s", card.copy},
                              {"", "CUDA cores in FP32", "TFLOPS", card.fp32},
                              {"", "empty kernel", "us", card.launch},
                              {"", "NVLink, one direction", "GB/s", card.nvlink},
                              {"", "share in an all-to-all", "of NVLink", card.nvlink_share},
                              {"", "network, one direction", "GB/s", card.network},
                              {"", "share in an all-to-all", "of network", card.network_share}};
  for (const EngineRate& rate : card.engines) {
    if (card.engine(rate.engine) == nullptr) continue;
    const std::string_view name = name_of(rate.engine);
    all.push_back({name, "peak", "TFLOPS", rate.peak});
    all.push_back({name, "along rows", "of peak", rate.rows});
    all.push_back({name, "along tokens", "of peak", rate.tokens});
  }
  for (const MoverShare& share : card.movers) all.push_back({name_of(share.mover), "rate", "of copy", share.of_copy});
  return all;
}

}  // namespace mxcheck
