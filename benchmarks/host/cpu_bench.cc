#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/host/benchmarks.h"
#include "kernels/candidate.h"
#include "kernels/candidate_nvfp4.h"
#include "numerics/error.h"
#include "reference/quantize/quantize.h"
#include "reference/router/router.h"
#include "reference/router/token_rounding.h"
#include "tests/kernels/loaded_library.h"

namespace mxcheck::bench {

// One operation of a kernel library, loaded with dlopen, on memory of its own, ready to run again and again.

// Anonymous memory aligned as tensors are; pages are touched, so that no run pays for them.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes);
  [[nodiscard]] void* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> data_;
  std::size_t bytes_;
};

struct Request {
  std::string operation;
  bool fp32 = false;
  std::int64_t block_rows = 1;
  std::int64_t block_cols = 32;
  mxcheck_layout layout = MXCHECK_COMPACT;
  std::int32_t threads = 1;
  std::int64_t rows = 8192;
  std::int64_t cols = 7168;
  mxcheck_rounding rounding = MXCHECK_NEAREST;  // of quantize_nvfp4

  [[nodiscard]] std::string text() const;
};

// The operation on random values, E4M3, rule rceil; of those of NVFP4, E2M1, recipe nvfp4_te. Throws Error{environment}
// if the library cannot be loaded or has no such operation.
class BoundCall {
 public:
  BoundCall(const std::string& library, const Request& request);
  BoundCall(const BoundCall&) = delete;
  BoundCall& operator=(const BoundCall&) = delete;
  void run();  // throws Error{internal} with the library's message unless it succeeds
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }  // read plus written

 private:
  void add(bool input, DLDataType type, std::int64_t rows, std::int64_t cols);
  void add_amax();
  void add_scales(bool input, std::int64_t block_rows, std::int64_t block_cols, bool tiled);

  const mxcheck_operation& operation_;
  Request request_;
  mxcheck_nvfp4_policy options_{};
  mxcheck_policy& policy_ = options_.base;
  std::vector<std::unique_ptr<Buffer>> memory_;
  std::vector<std::unique_ptr<std::int64_t[]>> shapes_;
  std::vector<DLTensor> inputs_;
  std::vector<DLTensor> outputs_;
  std::int64_t bytes_ = 0;
};
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

// Milliseconds by the clock, or of one thread's processor time, which other work on the machine takes less from.
void measured(benchmark::internal::Benchmark* benchmark, std::size_t threads) {
  benchmark->Unit(benchmark::kMillisecond);
  if (threads != 1) benchmark->UseRealTime();
}

void register_memcpy(const char* name, std::size_t bytes, std::size_t threads) {
  measured(benchmark::RegisterBenchmark(
               name,
               [=](benchmark::State& state) {
                 const Buffer from(bytes);
                 const Buffer to(bytes);
                 for (auto _ : state) {
                   copy(static_cast<char*>(to.data()), static_cast<const char*>(from.data()), bytes, threads);
                   benchmark::ClobberMemory();
                 }
                 state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(2 * bytes));
               }),
           threads);
}

void register_call(const std::string& library, const Request& request) {
  measured(benchmark::RegisterBenchmark(request.text().c_str(),
                                        [=](benchmark::State& state) {
                                          BoundCall call(library, request);
                                          call.run();
                                          for (auto _ : state) call.run();
                                          state.SetBytesProcessed(state.iterations() * call.bytes());
                                        }),
           static_cast<std::size_t>(request.threads));
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
  const std::size_t scales = std::size_t{8192} * 7168 / 32;  // which caches hold: they are copied faster
  register_memcpy("memcpy_scales/1_thread", scales, 1);
  register_memcpy("memcpy_scales/all_cores", scales, std::max(1U, std::thread::hardware_concurrency()));
  const std::vector<Request> requests{
      {"quantize", false, 1, 32, MXCHECK_TCGEN05},      {"quantize", false, 1, 32, MXCHECK_COMPACT},
      {"quantize", false, 32, 1, MXCHECK_TCGEN05},      {"quantize", false, 32, 32, MXCHECK_COMPACT},
      {"quantize", false, 1, 128, MXCHECK_COMPACT},     {"quantize", false, 128, 1, MXCHECK_COMPACT},
      {"quantize", false, 128, 128, MXCHECK_COMPACT},   {"quantize", false, 1, 0, MXCHECK_COMPACT},
      {"quantize", true, 1, 32, MXCHECK_TCGEN05},       {"quantize", true, 32, 1, MXCHECK_TCGEN05},
      {"quantize_dual", false, 1, 32, MXCHECK_TCGEN05}, {"quantize_dual", false, 1, 128, MXCHECK_COMPACT},
      {"dequantize", false, 1, 32, MXCHECK_TCGEN05},    {"dequantize", true, 1, 32, MXCHECK_TCGEN05},
      {"dequantize", true, 32, 1, MXCHECK_COMPACT},     {"scale_layout", false, 1, 32, MXCHECK_TCGEN05},
      {"scale_layout", false, 1, 32, MXCHECK_COMPACT},  {"scale_layout", false, 32, 1, MXCHECK_TCGEN05},
      {"scale_layout", false, 32, 1, MXCHECK_COMPACT},
  };
  register_calls(library, requests);
}

void register_nvfp4_benchmarks(const std::string& library) {
  Request words{"quantize_nvfp4", false, 1, 16, MXCHECK_COMPACT};
  words.rounding = MXCHECK_STOCHASTIC;
  Request bytes = words;
  bytes.rounding = MXCHECK_STOCHASTIC_BYTES;
  register_calls(library, {words, bytes});
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

namespace {

constexpr DLDataType kBytes{kDLUInt, 8, 1};

std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

// BF16 or FP32 values of random sign and fraction with exponents within 2^-8 .. 2^0: all codes, no special path.
template <class T>
void fill_values(void* data, std::size_t bytes) {
  constexpr int kFraction = 8 * static_cast<int>(sizeof(T)) - 9;
  T* const values = static_cast<T*>(data);
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < bytes / sizeof(T); ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const std::uint64_t field = 127 - (state >> 61);
    const std::uint64_t fraction = state >> 20 & ((std::uint64_t{1} << kFraction) - 1);
    values[i] = static_cast<T>((state >> 60 & 1) << (kFraction + 8) | field << kFraction | fraction);
  }
}

}  // namespace

Buffer::Buffer(std::size_t bytes) : data_(std::aligned_alloc(256, (bytes + 255) / 256 * 256)), bytes_(bytes) {
  if (data_ == nullptr) throw std::bad_alloc();
  std::memset(data_.get(), 1, bytes);
}

std::string Request::text() const {
  const std::string cols = block_cols == 0 ? "row" : std::to_string(block_rows) + "x" + std::to_string(block_cols);
  return operation + "/" +
         (operation == "scale_layout" ? ""
          : fp32                      ? "fp32/"
                                      : "bf16/") +
         cols + "/" + (layout == MXCHECK_TCGEN05 ? "tcgen05" : "compact") + "/" +
         (rounding == MXCHECK_NEAREST      ? ""
          : rounding == MXCHECK_STOCHASTIC ? "stochastic/"
                                           : "stochastic_bytes/") +
         (threads == 1 ? "1_thread" : "all_cores");
}

BoundCall::BoundCall(const std::string& library, const Request& request)
    : operation_(mxcheck::operation(load_candidate(library), request.operation)), request_(request) {
  const Request& r = request_;
  policy_.size = sizeof policy_;
  if (r.rounding != MXCHECK_NEAREST) policy_.size = sizeof options_, options_.rounding = r.rounding, options_.seed = 5;
  policy_.layout = r.layout;
  const bool is_nvfp4 = r.operation.ends_with("quantize_nvfp4");
  policy_.format = is_nvfp4 ? "e2m1" : "e4m3";
  policy_.recipe = is_nvfp4 ? "nvfp4_te" : "rceil";
  policy_.block_rows = r.block_rows;
  policy_.block_cols = r.block_cols;
  policy_.rows = r.rows;
  policy_.cols = r.cols;
  policy_.threads = r.threads;
  const DLDataType wide = r.fp32 ? DLDataType{kDLFloat, 32, 1} : DLDataType{kDLBfloat, 16, 1};
  const bool tiled = r.layout == MXCHECK_TCGEN05;
  if (r.operation == "scale_layout") {
    add_scales(true, r.block_rows, r.block_cols, !tiled);
    add_scales(false, r.block_rows, r.block_cols, tiled);
  } else if (r.operation.starts_with("dequantize")) {
    add(true, kBytes, r.rows, is_nvfp4 ? divide_up(r.cols, 2) : r.cols);
    add_scales(true, r.block_rows, r.block_cols, tiled);
    std::memset(memory_.back()->data(), 120, memory_.back()->size());
    if (is_nvfp4) add_amax();
    add(false, wide, r.rows, r.cols);
  } else {
    add(true, wide, r.rows, r.cols);
    const Buffer& x = *memory_.back();
    r.fp32 ? fill_values<std::uint32_t>(x.data(), x.size()) : fill_values<std::uint16_t>(x.data(), x.size());
    if (is_nvfp4) add_amax();
    add(false, kBytes, r.rows, is_nvfp4 ? divide_up(r.cols, 2) : r.cols);
    add_scales(false, r.block_rows, r.block_cols, tiled);
    if (r.operation == "quantize_dual") {
      add(false, kBytes, r.rows, r.cols);
      add_scales(false, r.block_cols, r.block_rows, tiled);
    }
  }
}

// The scale of the tensor, as nvfp4_te stores it.
void BoundCall::add_amax() {
  add(true, {kDLFloat, 32, 1}, 0, 1);
  const float amax = 2;
  std::memcpy(memory_.back()->data(), &amax, sizeof amax);
}

void BoundCall::add(bool input, DLDataType type, std::int64_t rows, std::int64_t cols) {
  const bool flat = rows == 0;  // one dimension
  const std::int64_t bytes = (flat ? 1 : rows) * cols * type.bits / 8;
  memory_.push_back(std::make_unique<Buffer>(static_cast<std::size_t>(bytes)));
  shapes_.push_back(std::make_unique<std::int64_t[]>(2));
  shapes_.back()[0] = flat ? cols : rows;
  shapes_.back()[1] = cols;
  (input ? inputs_ : outputs_)
      .push_back({memory_.back()->data(), {kDLCPU, 0}, flat ? 1 : 2, type, shapes_.back().get(), nullptr, 0});
  bytes_ += bytes;
}

void BoundCall::add_scales(bool input, std::int64_t block_rows, std::int64_t block_cols, bool tiled) {
  const std::int64_t rows = divide_up(request_.rows, block_rows);
  const std::int64_t cols = divide_up(request_.cols, block_cols == 0 ? request_.cols : block_cols);
  if (!tiled) return add(input, kBytes, rows, cols);
  const std::int64_t r = block_rows == 1 ? rows : cols;
  const std::int64_t c = block_rows == 1 ? cols : rows;
  add(input, kBytes, 0, divide_up(r, 128) * divide_up(c, 4) * 512);
}

void BoundCall::run() {
  std::array<char, 512> message{};
  mxcheck_call call{};
  call.size = sizeof call;
  call.num_inputs = static_cast<std::int32_t>(inputs_.size());
  call.num_outputs = static_cast<std::int32_t>(outputs_.size());
  call.policy = &policy_;
  call.inputs = inputs_.data();
  call.outputs = outputs_.data();
  call.message = message.data();
  call.message_bytes = message.size();
  if (operation_.run(&call) != MXCHECK_OK) {
    throw Error(ErrorKind::internal, request_.text() + ": " + message.data());
  }
}

}  // namespace mxcheck::bench
