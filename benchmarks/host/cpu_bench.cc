#include <benchmark/benchmark.h>

#include <cstring>
#include <thread>
#include <vector>

#include "benchmarks/host/benchmarks.h"
#include "benchmarks/host/bound_call.h"
#include "reference/quantize/quantize.h"
#include "reference/router/router.h"
#include "reference/router/token_rounding.h"

namespace mxcheck::bench {
namespace {

void copy(char* to, const char* from, std::size_t bytes, std::size_t threads) {
  const auto begin_of = [&](std::size_t part) { return bytes / threads * part / 64 * 64; };
  std::vector<std::thread> others;
  for (std::size_t t = 1; t < threads; ++t) {
    const std::size_t begin = begin_of(t);
    const std::size_t end = t + 1 == threads ? bytes : begin_of(t + 1);
    others.emplace_back([=] { std::memcpy(to + begin, from + begin, end - begin); });
  }
  std::memcpy(to, from, threads == 1 ? bytes : begin_of(1));
  for (std::thread& t : others) t.join();
}

void register_memcpy(const char* name, std::size_t bytes, std::size_t threads) {
  benchmark::RegisterBenchmark(name,
                               [=](benchmark::State& state) {
                                 const Buffer from(bytes);
                                 const Buffer to(bytes);
                                 for (auto _ : state) {
                                   copy(static_cast<char*>(to.data()), static_cast<const char*>(from.data()), bytes,
                                        threads);
                                   benchmark::ClobberMemory();
                                 }
                                 state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(2 * bytes));
                               })
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

void register_call(const std::string& library, const Request& request) {
  benchmark::RegisterBenchmark(request.text().c_str(),
                               [=](benchmark::State& state) {
                                 BoundCall call(library, request);
                                 call.run();
                                 for (auto _ : state) call.run();
                                 state.SetBytesProcessed(state.iterations() * call.bytes());
                               })
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

// Each on one thread and on all cores.
void register_calls(const std::string& library, const std::vector<Request>& requests) {
  for (Request request : requests) {
    for (const std::int32_t threads : {1, 0}) {
      request.threads = threads;
      register_call(library, request);
    }
  }
}

}  // namespace

void register_cpu_benchmarks(const std::string& library) {
  const std::size_t bytes = std::size_t{8192} * 7168 * 97 / 64;  // half of 2 + 1 + 1/32 bytes an element
  register_memcpy("memcpy/1_thread", bytes, 1);
  register_memcpy("memcpy/all_cores", bytes, std::max(1U, std::thread::hardware_concurrency()));
  const std::vector<Request> requests{
      {"quantize", false, 1, 32, MXCHECK_TCGEN05},      {"quantize", false, 1, 32, MXCHECK_COMPACT},
      {"quantize", false, 32, 1, MXCHECK_TCGEN05},      {"quantize", false, 32, 32, MXCHECK_COMPACT},
      {"quantize", false, 1, 128, MXCHECK_COMPACT},     {"quantize", false, 128, 1, MXCHECK_COMPACT},
      {"quantize", false, 128, 128, MXCHECK_COMPACT},   {"quantize", false, 1, 0, MXCHECK_COMPACT},
      {"quantize", true, 1, 32, MXCHECK_TCGEN05},       {"quantize", true, 32, 1, MXCHECK_TCGEN05},
      {"quantize_dual", false, 1, 32, MXCHECK_TCGEN05}, {"quantize_dual", false, 1, 128, MXCHECK_COMPACT},
      {"dequantize", false, 1, 32, MXCHECK_TCGEN05},    {"dequantize", true, 1, 32, MXCHECK_TCGEN05},
      {"dequantize", true, 32, 1, MXCHECK_COMPACT},     {"scale_layout", false, 1, 32, MXCHECK_TCGEN05},
      {"scale_layout", false, 32, 1, MXCHECK_TCGEN05},
  };
  register_calls(library, requests);
}

void register_nvfp4_benchmarks(const std::string& library) {
  register_calls(library, {{"quantize_nvfp4", false, 1, 16, MXCHECK_COMPACT},
                           {"quantize_nvfp4", false, 1, 16, MXCHECK_TCGEN05},
                           {"quantize_nvfp4", false, 16, 16, MXCHECK_COMPACT},
                           {"quantize_nvfp4", true, 1, 16, MXCHECK_COMPACT},
                           {"dequantize_nvfp4", false, 1, 16, MXCHECK_COMPACT},
                           {"dequantize_nvfp4", false, 1, 16, MXCHECK_TCGEN05},
                           {"dequantize_nvfp4", false, 16, 16, MXCHECK_COMPACT},
                           {"dequantize_nvfp4", true, 1, 16, MXCHECK_COMPACT}});
}

// --- the reference

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
