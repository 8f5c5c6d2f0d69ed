#include <benchmark/benchmark.h>

#include <vector>

#include "benchmarks/benchmarks.h"
#include "reference/quantize.h"

namespace mxcheck::bench {

void register_reference_benchmarks() {
  for (const BlockShape block : {BlockShape{1, 32}, BlockShape{32, 1}}) {
    const std::string name = "reference_quantize/bf16/" + block_shape_name(block);
    benchmark::RegisterBenchmark(
        name.c_str(),
        [=](benchmark::State& state) {
          constexpr std::int64_t kRows = 1024;
          constexpr std::int64_t kCols = 4096;
          std::vector<std::uint16_t> bits(kRows * kCols);
          for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(0x3800 + i * 40503 % 1024);
          const MatrixView x{Format::bf16, reinterpret_cast<const std::byte*>(bits.data()), kRows, kCols, kCols};
          const Recipe recipe = recipe_by_name("rceil");
          for (auto _ : state) benchmark::DoNotOptimize(quantize(x, Format::e4m3, block, recipe).codes.data());
          state.SetItemsProcessed(state.iterations() * kRows * kCols);
        })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace mxcheck::bench
