#include <benchmark/benchmark.h>

#include <vector>

#include "benchmarks/host/benchmarks.h"
#include "reference/quantize/quantize.h"
#include "reference/router/router.h"
#include "reference/router/token_rounding.h"

namespace mxcheck::bench {
namespace {

// Tokens a second: 16384 of BF16 logits around 0, all of them different enough.
void register_router(const char* variant, std::int64_t experts, TokenRoundingRule rule) {
  const std::string name = "reference_route/" + std::string(variant) + "/" + std::to_string(experts) + "_experts_8" +
                           (rule == TokenRoundingRule::none ? "" : "/nr-f_128");
  benchmark::RegisterBenchmark(
      name.c_str(),
      [=](benchmark::State& state) {
        constexpr std::int64_t kTokens = 16384;
        std::vector<std::uint16_t> bits(static_cast<std::size_t>(kTokens * experts));
        std::uint64_t word = 1;
        for (std::uint16_t& b : bits) {
          word = word * 6364136223846793005U + 1442695040888963407U;
          b = static_cast<std::uint16_t>((word >> 63 << 15) | (0x3E00 + (word >> 40 & 0x1FF)));
        }
        const MatrixView x{Format::bf16, reinterpret_cast<const std::byte*>(bits.data()), kTokens, experts, experts};
        Router router;
        router.variant = &router_variant_named(variant);
        router.top_k = 8;
        TokenRounding token_rounding;
        token_rounding.rule = rule;
        for (auto _ : state) {
          if (rule == TokenRoundingRule::none) {
            benchmark::DoNotOptimize(route(router, x).experts.data());
          } else {
            benchmark::DoNotOptimize(round_tokens(router, token_rounding, x).row_token.data());
          }
        }
        state.SetItemsProcessed(state.iterations() * kTokens);
      })
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace

void register_reference_benchmarks() {
  for (const BlockShape block : {BlockShape{1, 32}, BlockShape{32, 1}}) {
    const std::string name = "reference_quantize/bf16/" + to_text(block);
    benchmark::RegisterBenchmark(
        name.c_str(),
        [=](benchmark::State& state) {
          constexpr std::int64_t kRows = 1024;
          constexpr std::int64_t kCols = 4096;
          std::vector<std::uint16_t> bits(kRows * kCols);
          for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(0x3800 + i * 40503 % 1024);
          const MatrixView x{Format::bf16, reinterpret_cast<const std::byte*>(bits.data()), kRows, kCols, kCols};
          const Recipe recipe = recipe_named("rceil");
          for (auto _ : state) benchmark::DoNotOptimize(quantize(x, Format::e4m3, block, recipe).codes.data.data());
          state.SetItemsProcessed(state.iterations() * kRows * kCols);
        })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }
  register_router("topk-softmax", 128, TokenRoundingRule::none);
  register_router("softmax-topk-renorm", 128, TokenRoundingRule::none);
  register_router("topk-softmax", 256, TokenRoundingRule::nr_f);
}

}  // namespace mxcheck::bench
