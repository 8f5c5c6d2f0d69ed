// mxcheck_sm90_layer_bench [--library PATH] [--only TEXT] [--samples N] [--check N] [--quick]: the
// elementwise steps of a layer. Each case at 1/N of its rows is compared with the gate's answer, every bit, then timed
// in full, beside a device-to-device copy of as many bytes in the same run.

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/sm90/common/command_line.h"
#include "benchmarks/sm90/common/device.h"
#include "benchmarks/sm90/common/fill.h"
#include "kernels/candidate_layer.h"
#include "numerics/error.h"
#include "tests/kernels/loaded_library.h"

namespace mxcheck::bench {

enum class Content : std::uint8_t { normal, given, output };

struct LayerTensor {
  DLDataType type{};
  std::vector<std::int64_t> shape;
  Content content = Content::output;
  std::vector<std::uint8_t> given;

  [[nodiscard]] std::uint64_t elements() const;
  [[nodiscard]] std::uint64_t bytes() const { return elements() * (type.bits / 8U); }
};

// An operation's name, what it is asked for, and its tensors.
struct LayerRequest {
  std::string operation;
  std::string text;
  mxcheck_swiglu_policy swiglu{};  // its first member is the policy of quantize_transposed
  mxcheck_aggregate_policy aggregate{};
  std::vector<LayerTensor> inputs;
  std::vector<LayerTensor> outputs;
  std::uint64_t traffic = 0;  // bytes that must be read and written

  [[nodiscard]] Policy policy() const {
    if (operation == "aggregate") return pack(aggregate);
    if (operation == "quantize_transposed") return pack(swiglu.policy);
    return pack(swiglu, {offsetof(mxcheck_swiglu_policy, format_h), offsetof(mxcheck_swiglu_policy, format_scaled)});
  }
};

// The calls that are measured; `shrink` divides the rows.
std::vector<LayerRequest> layer_requests(std::int64_t shrink);

class LayerCall {
 public:
  LayerCall(const mxcheck_operation& operation, const LayerRequest& request);
  void enqueue(cudaStream_t stream) { call_.enqueue(stream); }
  // Empty where every output is what the gate answers.
  std::string difference(cudaStream_t stream) { return call_.difference(stream); }

 private:
  std::deque<DeviceBuffer> inputs_;
  std::deque<DeviceBuffer> outputs_;
  DeviceOperation call_;
};

namespace {

template <class T>
LayerTensor given(DLDataType type, const std::vector<T>& values) {
  LayerTensor t{type, {static_cast<std::int64_t>(values.size())}, Content::given, {}};
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(values.data());
  t.given.assign(bytes, bytes + values.size() * sizeof(T));
  return t;
}

LayerTensor normal(DLDataType type, std::int64_t rows, std::int64_t cols) {
  return {type, {rows, cols}, Content::normal, {}};
}

std::uint64_t bytes_of(const std::vector<LayerTensor>& tensors) {
  std::uint64_t sum = 0;
  for (const LayerTensor& t : tensors) sum += t.bytes();
  return sum;
}

// A layer's sizes: rows, their inner width, experts.
struct Sizes {
  std::int64_t rows, n, experts;
};

// Multiples of 128, as token rounding leaves them, unequal.
std::vector<std::int64_t> offsets_of(std::int64_t rows, std::int64_t experts) {
  std::vector<std::int64_t> ends{0};
  const std::int64_t tiles = rows / 128;
  for (std::int64_t e = 1; e < experts; ++e) {
    const std::int64_t tile = tiles * e / experts + (e % 3 - 1) * (tiles / experts / 4);
    ends.push_back(128 * std::clamp(tile, ends.back() / 128, tiles));
  }
  ends.push_back(rows);
  return ends;
}

struct Codes {
  const char* name;
  const char* recipe;
  std::int64_t block;
  DLDataType scale;
};
constexpr Codes kMxfp8{"1x32 rceil", "rceil", 32, {kDLUInt, 8, 1}};
constexpr Codes kPow2{"1x128 rceil", "rceil", 128, {kDLUInt, 8, 1}};
constexpr Codes kDsv3{"1x128 fp32", "fp32", 128, {kDLFloat, 32, 1}};

void add_rows(std::vector<LayerTensor>& to, const Codes& c, std::int64_t rows, std::int64_t cols) {
  to.push_back({kByte, {rows, cols}, Content::output, {}});
  to.push_back({c.scale, {rows, (cols + c.block - 1) / c.block}, Content::output, {}});
}
void add_columns(std::vector<LayerTensor>& to, const Codes& c, std::int64_t rows, std::int64_t cols) {
  to.push_back({kByte, {cols, rows}, Content::output, {}});
  to.push_back({c.scale, {cols, rows / c.block}, Content::output, {}});  // experts end at multiples of 128
}

LayerRequest swiglu(const Sizes& s, bool backward, int outputs, const Codes& c, bool interleaved) {
  LayerRequest r;
  const bool coded = (outputs & (MXCHECK_ROWS_CODED | MXCHECK_COLUMNS_CODED)) != 0;
  const bool columns = (outputs & MXCHECK_COLUMNS_CODED) != 0;
  r.operation = backward ? "swiglu_backward" : "swiglu";
  mxcheck_policy& p = r.swiglu.policy;
  p.size = sizeof(r.swiglu);
  p.format = coded ? "e4m3" : "", p.recipe = coded ? c.recipe : "";
  p.block_rows = coded ? 1 : 0, p.block_cols = coded ? c.block : 0;
  p.rows = s.rows, p.cols = s.n;
  r.swiglu.format_h = "", r.swiglu.format_scaled = backward && columns ? "e4m3" : "";
  r.swiglu.gate_up = interleaved ? MXCHECK_INTERLEAVED : MXCHECK_HALVES;
  r.swiglu.outputs = outputs;
  r.inputs.push_back(normal(kBfloat16, s.rows, 2 * s.n));
  if (backward) {
    r.inputs.push_back(normal(kFloat32, s.rows, s.n));
    r.inputs.push_back(normal(kFloat32, s.rows, 1));
    r.inputs.back().shape = {s.rows};
    r.outputs.push_back({kFloat32, {s.rows}, Content::output, {}});
  }
  if (columns) r.inputs.push_back(given(kInt64, offsets_of(s.rows, s.experts)));
  if ((outputs & MXCHECK_VALUES) != 0) {
    r.outputs.push_back({kBfloat16, {s.rows, s.n}, Content::output, {}});
    if (backward) r.outputs.push_back({kBfloat16, {s.rows, 2 * s.n}, Content::output, {}});
  }
  if ((outputs & MXCHECK_ROWS_CODED) != 0) add_rows(r.outputs, c, s.rows, backward ? 2 * s.n : s.n);
  if (columns) {
    add_columns(r.outputs, c, s.rows, s.n);
    if (backward) add_columns(r.outputs, c, s.rows, 2 * s.n);
  }
  r.text =
      fmt::format("{}x{} {}{}{}{}{}", s.rows, s.n, interleaved ? "interleaved" : "halves",
                  (outputs & MXCHECK_VALUES) != 0 ? " bf16" : "", (outputs & MXCHECK_ROWS_CODED) != 0 ? " rows" : "",
                  columns ? " columns" : "", coded ? std::string(" ") + c.name : "");
  r.traffic = bytes_of(r.inputs) + bytes_of(r.outputs);
  return r;
}

// Tokens of width d, each in k rows that lie anywhere.
LayerRequest aggregate(std::int64_t tokens, std::int64_t d, std::int64_t k) {
  LayerRequest r;
  r.operation = "aggregate", r.text = fmt::format("{}x{} of {} rows", tokens, d, k);
  mxcheck_policy& p = r.aggregate.policy;
  p.size = sizeof(r.aggregate), p.format = "", p.recipe = "", p.rows = tokens, p.cols = d;
  r.aggregate.weighted = 1;
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> rows;
  const std::int64_t all = tokens * k;
  for (std::int64_t t = 0; t <= tokens; ++t) offsets.push_back(t * k);
  for (std::int64_t i = 0; i < all; ++i)
    rows.push_back(static_cast<std::int32_t>(i % k * tokens + i / k * 7919 % tokens));
  r.inputs = {normal(kBfloat16, all, d), normal(kFloat32, all, 1), given(kInt64, offsets), given(kInt32, rows)};
  r.inputs[1].shape = {all};
  r.outputs.push_back({kBfloat16, {tokens, d}, Content::output, {}});
  r.traffic = bytes_of(r.inputs) + bytes_of(r.outputs);
  return r;
}

LayerRequest transpose(std::int64_t rows, std::int64_t tokens, std::int64_t d, std::int64_t experts, const Codes& c) {
  LayerRequest r;
  r.operation = "quantize_transposed";
  r.text = fmt::format("{}x{} of {} tokens {}", rows, d, tokens, c.name);
  mxcheck_policy& p = r.swiglu.policy;
  p.size = sizeof(p), p.format = "e4m3", p.recipe = c.recipe;
  p.block_rows = c.block, p.block_cols = 1, p.rows = rows, p.cols = d;
  std::vector<std::int32_t> index;
  for (std::int64_t i = 0; i < rows; ++i) index.push_back(static_cast<std::int32_t>(i * 7919 % tokens));
  r.inputs = {normal(kBfloat16, tokens, d), given(kInt64, offsets_of(rows, experts)), given(kInt32, index)};
  add_columns(r.outputs, c, rows, d);
  r.traffic = static_cast<std::uint64_t>(rows * d) * 2 + bytes_of(r.outputs);  // rows that are gathered are read each
  return r;
}

}  // namespace

std::uint64_t LayerTensor::elements() const {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::uint64_t>(extent);
  return count;
}

std::vector<LayerRequest> layer_requests(std::int64_t shrink) {
  std::vector<LayerRequest> all;
  constexpr int kBoth = MXCHECK_ROWS_CODED | MXCHECK_COLUMNS_CODED;
  for (const Sizes& full : {Sizes{262144, 1024, 128}, Sizes{196608, 256, 128}, Sizes{524288, 512, 256}}) {
    const Sizes s{full.rows / shrink, full.n, std::max<std::int64_t>(full.experts / shrink, 3)};
    for (const bool interleaved : {false, true}) {
      all.push_back(swiglu(s, false, MXCHECK_VALUES, kMxfp8, interleaved));
      all.push_back(swiglu(s, true, MXCHECK_VALUES, kMxfp8, interleaved));
      for (const Codes& c : {kMxfp8, kPow2, kDsv3}) {
        all.push_back(swiglu(s, false, MXCHECK_ROWS_CODED, c, interleaved));
        all.push_back(swiglu(s, true, kBoth, c, interleaved));
      }
    }
    if (full.n == 1024) all.push_back(swiglu(s, false, kBoth, kMxfp8, false));
  }
  all.push_back(aggregate(32768 / shrink, 4096, 8));
  for (const Codes& c : {kMxfp8, kDsv3}) all.push_back(transpose(262144 / shrink, 32768 / shrink, 4096, 128, c));
  return all;
}

LayerCall::LayerCall(const mxcheck_operation& operation, const LayerRequest& request)
    : call_(operation, request.policy()) {
  std::uint32_t seed = 1;
  for (const LayerTensor& t : request.inputs) {
    inputs_.emplace_back(t.bytes());
    void* const at = inputs_.back().data();
    if (t.content == Content::given) {
      check_cuda(cudaMemcpy(at, t.given.data(), t.given.size(), cudaMemcpyHostToDevice), "an input");
    } else {
      fill(at, static_cast<std::int64_t>(t.elements()), t.type.bits == 16 ? Filling::bf16 : Filling::fp32, seed++,
           nullptr);
    }
    if (t.shape.size() == 1) call_.input(at, t.type, {t.shape[0]});
    if (t.shape.size() == 2) call_.input(at, t.type, {t.shape[0], t.shape[1]});
  }
  for (const LayerTensor& t : request.outputs) {
    outputs_.emplace_back(t.bytes());
    check_cuda(cudaMemset(outputs_.back().data(), 0xA5, t.bytes()), "poison");
    if (t.shape.size() == 1) call_.output(outputs_.back().data(), t.type, {t.shape[0]});
    if (t.shape.size() == 2) call_.output(outputs_.back().data(), t.type, {t.shape[0], t.shape[1]});
  }
  check_cuda(cudaDeviceSynchronize(), "filling");
  call_.prepare();
}

namespace {

struct Options {
  std::string library = MXCHECK_SM90_LAYER_LIBRARY;
  std::string only;
  int samples = 15;
  std::int64_t check = 64;
  bool quick = false;
};

bool wanted(const Options& options, const LayerRequest& r) {
  return (r.operation + " " + r.text).find(options.only) != std::string::npos;
}

int run(const Options& options) {
  fmt::print("{}\n", to_text(current_card()));
  Timer timer;
  const mxcheck_candidate_table& library = load_candidate(options.library);
  int wrong = 0;
  for (const LayerRequest& r : layer_requests(options.check)) {
    if (!wanted(options, r) && options.only.find(r.operation) == std::string::npos) continue;
    const std::string difference = LayerCall(operation(library, r.operation), r).difference(timer.stream());
    if (difference.empty()) continue;
    ++wrong;
    fmt::print("WRONG {} {}: {}\n", r.operation, r.text, difference);
  }
  fmt::print("compared with the reference: {} differ\n", wrong);
  if (options.quick) return wrong == 0 ? 0 : 1;
  const double copy = timer.large_copy_rate(options.samples);
  fmt::print("the best copy: {:.0f} GB/s\n{:<20} {:<52} {:>7} {:>8} {:>17} {:>6} {:>6}\n", copy / 1e9, "operation",
             "case", "MB", "us", "least-most", "GB/s", "ratio");
  for (const LayerRequest& r : layer_requests(1)) {
    if (!wanted(options, r)) continue;
    LayerCall call(operation(library, r.operation), r);
    const Spread time = timer.time(options.samples, 4, [&] { call.enqueue(timer.stream()); });
    const double rate = 1e6 * static_cast<double>(r.traffic) / time.median;
    fmt::print("{:<20} {:<52} {:>7.0f} {:>8.1f} {:>8.1f}-{:<8.1f} {:>6.0f} {:>6.3f}\n", r.operation, r.text,
               static_cast<double>(r.traffic) / 1e6, time.median, time.least, time.most, rate / 1e9, rate / copy);
    std::fflush(stdout);
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace mxcheck::bench

int main(int argc, char** argv) {
  mxcheck::bench::Options options;
  CLI::App app("The elementwise steps of a layer of a Hopper library, checked and timed", "mxcheck_sm90_layer_bench");
  app.add_option("--library", options.library, "The candidate");
  app.add_option("--only", options.only, "Cases whose operation and text have this");
  app.add_option("--check", options.check, "Compare at this part of the rows")->check(CLI::Range(1, 2048));
  app.add_flag("--quick", options.quick, "Compare alone");
  mxcheck::bench::add_samples(app, options.samples);
  return mxcheck::bench::run_benchmark(app, argc, argv, [&] { return mxcheck::bench::run(options); });
}
