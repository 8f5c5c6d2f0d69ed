// mxcheck_sm90_bench [--library PATH] [--only TEXT] [--json] [--samples N] [--rows N] [--quick]: of the cases whose
// operation the library has (libmxcheck_sm90.so, or libmxcheck_sm90_nvfp4.so), each is compared with the gate's answer,
// then timed with CUDA events over copies of its tensors that exceed L2; rates are given as ratios to a
// device-to-device copy of as many bytes in the same run.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/sm90/common/command_line.h"
#include "benchmarks/sm90/common/device.h"
#include "benchmarks/sm90/common/fill.h"
#include "kernels/candidate.h"
#include "kernels/candidate_nvfp4.h"
#include "numerics/format/format.h"
#include "numerics/scale/recipe.h"
#include "numerics/scale/two_level.h"
#include "reference/common/matrix.h"
#include "reference/quantize/scale_layout.h"
#include "tests/kernels/loaded_library.h"

namespace mxcheck::bench {

struct DeviceRequest {
  std::string operation = "quantize";
  Format wide = Format::bf16;
  Format element = Format::e4m3;
  BlockShape block{1, 32};
  bool tiled = true;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  int experts = 0;      // ragged, some empty; 0: no offsets
  bool gather = false;  // rows by index, from as many
  std::string recipe = "rceil";
  mxcheck_rounding rounding = MXCHECK_NEAREST;  // quantize_nvfp4 with options
  int group = 0;                                // of a transform by butterfly; 0: none
  bool has_both = false;                        // directions
  [[nodiscard]] bool has_options() const { return rounding != MXCHECK_NEAREST || group != 0 || has_both; }
  [[nodiscard]] std::string text() const;
};

// An operation bound to device memory of its own, as the gate binds it; with enough copies of its tensors that no run
// finds them in L2.
class DeviceCall {
 public:
  DeviceCall(const mxcheck_operation& operation, const DeviceRequest& request, std::uint64_t least_bytes);
  // The next copy's.
  void enqueue(cudaStream_t stream) { sets_[next_++ % sets_.size()].call->enqueue(stream); }
  // "" or what differs from the gate's answer.
  std::string difference(cudaStream_t stream) {
    check_cuda(cudaDeviceSynchronize(), "before the check");
    return sets_[0].call->difference(stream);
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }  // read plus written by one run
  [[nodiscard]] std::size_t copies() const { return sets_.size(); }

 private:
  struct Set {
    std::vector<DeviceBuffer> memory;
    std::unique_ptr<DeviceOperation> call;
  };
  void add(Set& set, bool input, DLDataType type, std::initializer_list<std::int64_t> shape);
  void add_scales(Set& set, bool input, BlockShape block);
  void add_scales(Set& set, bool input, const std::vector<std::int64_t>& scale_rows, std::int64_t cols,
                  BlockShape block);
  void add_tensor_scale(Set& set);
  void add_inputs(Set& set);
  void add_outputs(Set& set);

  DeviceRequest request_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::int32_t> index_;
  std::vector<Set> sets_;
  std::size_t next_ = 0;
  std::int64_t bytes_ = 0;
};

namespace {

BlockShape transposed(BlockShape b) { return {b.cols, b.rows}; }
bool is_nvfp4(const DeviceRequest& r) { return r.operation.ends_with("quantize_nvfp4"); }
bool quantizes(const DeviceRequest& r) { return r.operation.starts_with("quantize"); }

// Ends that are no multiples of anything, and every fourth expert empty.
std::vector<std::int64_t> ragged(std::int64_t rows, int experts) {
  std::vector<std::int64_t> offsets{0};
  for (int e = 1; e < experts; ++e) {
    const std::int64_t end = rows * e / experts + 37 * e % 61;
    offsets.push_back(e % 4 == 0 ? offsets.back() : std::clamp(end, offsets.back(), rows));
  }
  offsets.push_back(rows);
  return offsets;
}

}  // namespace

namespace {

Policy policy_with_options(const DeviceRequest& request, const mxcheck_policy& base) {
  mxcheck_nvfp4_policy p{};
  p.base = base;
  p.rounding = request.rounding;
  if (request.rounding != MXCHECK_NEAREST) p.seed = 0x243F6A8885A308D3, p.counter[0] = 0x80000104;
  if (request.has_both) p.directions = MXCHECK_BOTH_DIRECTIONS;
  if (request.has_both && request.rounding != MXCHECK_NEAREST) p.column_counter[0] = 0x80000105;
  p.hadamard_sum = "";
  if (request.group != 0) {
    p.hadamard = request.group, p.hadamard_sum = "butterfly", p.signs[0] = 0x2D4B;
    p.hadamard_result = request.wide == Format::fp32 ? MXCHECK_HADAMARD_FP32 : MXCHECK_HADAMARD_BF16;
  }
  return pack(p, {offsetof(mxcheck_nvfp4_policy, hadamard_sum)});
}

}  // namespace

std::string DeviceRequest::text() const {
  std::string out = operation + " " + to_text(block) + " " + std::string(spec(wide).name) + " " +
                    std::string(spec(element).name) + (tiled ? " tcgen05 " : " compact ") + std::to_string(rows) + "x" +
                    std::to_string(cols);
  if (experts != 0) out += " experts=" + std::to_string(experts);
  if (gather) out += " gather";
  if (recipe != "rceil") out += " " + recipe;
  constexpr std::array kRoundings{"", " stochastic", " stochastic_bytes"};
  out += kRoundings[rounding];
  if (group != 0) out += group == 16 ? " hadamard" : " hadamard" + std::to_string(group);
  return out + (has_both ? " both" : "");
}

void DeviceCall::add(Set& set, bool input, DLDataType type, std::initializer_list<std::int64_t> shape) {
  std::uint64_t bytes = type.bits / 8U;
  for (const std::int64_t extent : shape) bytes *= static_cast<std::uint64_t>(extent);
  void* const data = set.memory.emplace_back(bytes).data();
  input ? set.call->input(data, type, shape) : set.call->output(data, type, shape);
  if (sets_.empty()) bytes_ += static_cast<std::int64_t>(bytes);
}

void DeviceCall::add_scales(Set& set, bool input, const std::vector<std::int64_t>& scale_rows, std::int64_t cols,
                            BlockShape block) {
  const std::int64_t scale_cols = (cols + block.cols - 1) / block.cols;
  if (request_.tiled) {
    add(set, input, kByte, {layout_bytes(ScaleLayout::tcgen05, {scale_rows, scale_cols, block})});
  } else {
    add(set, input, kByte, {std::accumulate(scale_rows.begin(), scale_rows.end(), std::int64_t{0}), scale_cols});
  }
}

void DeviceCall::add_scales(Set& set, bool input, BlockShape block) {
  add_scales(set, input, count_scale_rows_by_expert(request_.rows, block.rows, offsets_), request_.cols, block);
}

// The scale of an amax of 640, the most that fill_normal() gives, as each recipe stores it: no block is cut.
void DeviceCall::add_tensor_scale(Set& set) {
  const TwoLevel levels = any_recipe_named(request_.recipe).two_level;
  const float scale = stored_scale(levels, outer_scale(levels, 6, 640), 640);
  add(set, true, kFloat32, {1});
  check_cuda(cudaMemcpy(set.memory.back().data(), &scale, sizeof(scale), cudaMemcpyHostToDevice), "tensor_scale");
}

void DeviceCall::add_inputs(Set& set) {
  const DeviceRequest& r = request_;
  const auto seed = static_cast<std::uint32_t>(sets_.size());
  if (quantizes(r)) {
    add(set, true, r.wide == Format::fp32 ? kFloat32 : kBfloat16, {r.rows, r.cols});
    fill_normal(set.memory[0].data(), r.rows, r.cols, r.wide == Format::fp32, seed, nullptr);
  } else {
    add(set, true, kByte, {r.rows, is_nvfp4(r) ? (r.cols + 1) / 2 : r.cols});
    add_scales(set, true, r.block);
    // Bits of normal values make codes and scale bytes of all sorts.
    for (const DeviceBuffer& b : set.memory) {
      fill_normal(b.data(), static_cast<std::int64_t>(b.bytes() / 4), 1, true, seed, nullptr);
    }
  }
  if (is_nvfp4(r)) add_tensor_scale(set);
  if (r.has_both) add_tensor_scale(set);
  if (!offsets_.empty()) {
    add(set, true, kInt64, {std::ssize(offsets_)});
    check_cuda(cudaMemcpy(set.memory.back().data(), offsets_.data(), offsets_.size() * 8, cudaMemcpyHostToDevice),
               "offsets");
  }
  if (!index_.empty()) {
    add(set, true, kInt32, {r.rows});
    check_cuda(cudaMemcpy(set.memory.back().data(), index_.data(), index_.size() * 4, cudaMemcpyHostToDevice),
               "row index");
  }
}

void DeviceCall::add_outputs(Set& set) {
  const DeviceRequest& r = request_;
  if (!quantizes(r)) return add(set, false, r.wide == Format::fp32 ? kFloat32 : kBfloat16, {r.rows, r.cols});
  add(set, false, kByte, {r.rows, is_nvfp4(r) ? (r.cols + 1) / 2 : r.cols});
  add_scales(set, false, r.block);
  if (r.has_both) {
    add(set, false, kByte, {r.cols, (r.rows + 1) / 2});
    add_scales(set, false, count_scale_rows_by_expert(r.cols, r.block.rows, {}), r.rows, r.block);
  }
  if (r.operation != "quantize_dual") return;
  add(set, false, kByte, {r.rows, r.cols});
  add_scales(set, false, transposed(r.block));
}

DeviceCall::DeviceCall(const mxcheck_operation& operation, const DeviceRequest& request, std::uint64_t least_bytes)
    : request_(request) {
  mxcheck_policy policy{};
  policy.size = sizeof(policy);
  policy.format = spec(request.element).name.data(), policy.recipe = request.recipe.c_str();
  policy.block_rows = request.block.rows, policy.block_cols = request.block.cols;
  policy.rows = request.rows, policy.cols = request.cols;
  policy.layout = request.tiled ? MXCHECK_TCGEN05 : MXCHECK_COMPACT;
  if (request.experts != 0) offsets_ = ragged(request.rows, request.experts);
  for (std::int64_t i = 0; request.gather && i < request.rows; ++i) {
    index_.push_back(static_cast<std::int32_t>(i * 7919 % request.rows));
  }
  do {
    Set set;
    set.call = std::make_unique<DeviceOperation>(
        operation, request.has_options() ? policy_with_options(request, policy) : pack(policy));
    add_inputs(set);
    add_outputs(set);
    set.call->prepare(sets_.empty() ? nullptr : sets_[0].call.get());
    sets_.push_back(std::move(set));
  } while (static_cast<std::uint64_t>(bytes_) * sets_.size() < least_bytes);
}

namespace {

constexpr std::uint64_t kBeyondL2 = std::uint64_t{512} << 20;

struct Options {
  std::string library;
  std::string only;
  bool json = false;
  bool quick = false;     // small shapes: does it run at all
  std::int64_t rows = 0;  // of large cases; 0: their own
  int samples = 25;
};

std::vector<DeviceRequest> all_requests(const Options& options) {
  const bool quick = options.quick;
  std::vector<DeviceRequest> all;
  const std::int64_t rows = quick ? 259 : options.rows != 0 ? options.rows : 131072;
  const std::int64_t fewer = quick ? 131 : options.rows != 0 ? options.rows : 32768;
  const std::int64_t cols = quick ? 392 : 7168;
  const auto add = [&](const char* operation, BlockShape block, bool tiled, std::int64_t r, std::int64_t c,
                       Format wide = Format::bf16, Format element = Format::e4m3, int experts = 0,
                       bool gather = false) {
    all.push_back({operation, wide, element, block, tiled, r, c, experts, gather});
  };
  for (const std::int64_t r : {rows, fewer}) {
    add("quantize", {1, 32}, true, r, cols);
    add("quantize", {32, 1}, true, r, cols);
    add("quantize_dual", {1, 32}, true, r, cols);
    add("quantize", {1, 128}, false, r, cols);
    add("quantize", {128, 128}, false, r, cols);
  }
  add("quantize", {1, 32}, false, fewer, cols);
  add("quantize", {1, 128}, true, fewer, cols);
  add("quantize", {128, 1}, true, fewer, cols);
  add("quantize", {32, 32}, false, fewer, cols);
  add("quantize_dual", {1, 128}, true, fewer, cols);
  add("quantize", {1, 32}, true, fewer, cols, Format::bf16, Format::e5m2);
  add("quantize", {1, 32}, true, fewer, cols, Format::fp32);
  add("quantize", {32, 1}, true, fewer, cols, Format::fp32);
  add("quantize_dual", {1, 32}, true, fewer, cols, Format::fp32);
  add("quantize", {32, 1}, true, fewer, cols, Format::bf16, Format::e4m3, 64);
  add("quantize_dual", {1, 32}, true, fewer, cols, Format::bf16, Format::e4m3, 64);
  add("quantize", {1, 32}, true, fewer, cols, Format::bf16, Format::e4m3, 64, true);
  add("quantize", {1, 32}, true, fewer, cols - 1);
  add("quantize", {1, 32}, true, fewer, cols - 4);
  add("quantize", {1, 128}, false, fewer, cols - 1);
  add("quantize", {1, 32}, true, fewer, cols - 1, Format::fp32);
  add("quantize", {1, 32}, true, fewer, cols - 1, Format::bf16, Format::e4m3, 64, true);
  add("quantize", {32, 1}, true, fewer, cols - 1);
  add("quantize", {32, 1}, true, fewer, cols - 4);
  add("quantize_dual", {1, 32}, true, fewer, cols - 4);
  add("quantize", {1, 32}, true, fewer, cols - 8);
  add("quantize_dual", {1, 32}, true, fewer, cols - 8);
  add("quantize", {32, 1}, true, fewer, cols - 1, Format::bf16, Format::e4m3, 64);
  add("quantize", {32, 1}, true, fewer, cols - 1, Format::fp32);
  add("quantize", {128, 128}, false, fewer, cols - 1);
  add("quantize_dual", {1, 32}, true, fewer, cols - 1);
  add("quantize_dual", {1, 128}, true, fewer, cols - 1);
  add("dequantize", {1, 32}, true, fewer, cols);
  add("dequantize", {32, 1}, true, fewer, cols);
  add("dequantize", {1, 32}, true, fewer, cols, Format::fp32);
  for (const char* recipe : {"nvfp4_te", "nvfp4_te_2_8", "nvfp4_vllm", "nvfp4", "nvfp4_46"}) {
    for (const Format wide : {Format::bf16, Format::fp32}) {
      const auto nvfp4 = [&](BlockShape block, bool tiled) {
        for (const char* operation : {"quantize_nvfp4", "dequantize_nvfp4"})
          all.push_back({operation, wide, Format::e2m1, block, tiled, fewer, cols, 0, false, recipe});
      };
      nvfp4({1, 16}, false), nvfp4({1, 16}, true), nvfp4({16, 16}, false);
    }
  }
  for (const Format wide : {Format::bf16, Format::fp32}) {
    for (const BlockShape block : {BlockShape{1, 16}, BlockShape{16, 16}}) {
      for (const int group : {0, 16, 128}) {
        for (const mxcheck_rounding rounding : {MXCHECK_NEAREST, MXCHECK_STOCHASTIC, MXCHECK_STOCHASTIC_BYTES}) {
          for (const bool has_both : {false, true}) {
            DeviceRequest r{"quantize_nvfp4", wide, Format::e2m1, block, false, fewer, quick ? 384 : cols};
            r.recipe = "nvfp4_te", r.rounding = rounding, r.group = group, r.has_both = has_both;
            if (quick && has_both) r.rows = 256;  // a multiple of the group
            if (r.has_options()) all.push_back(r);
          }
        }
      }
    }
  }
  for (const Format wide : {Format::bf16, Format::fp32}) {
    for (const BlockShape block : {BlockShape{1, 16}, BlockShape{16, 16}}) {
      for (const int experts : {0, 64}) {
        for (const bool gather : {false, true}) {
          DeviceRequest r{"quantize_nvfp4", wide, Format::e2m1, block, false, fewer, cols, experts, gather, "nvfp4_te"};
          if (experts != 0 || gather) all.push_back(r);
          r.rounding = MXCHECK_STOCHASTIC_BYTES, r.group = 16;
          if (quick) r.cols = 384;
          if (gather && wide == Format::bf16) all.push_back(r);
        }
      }
    }
  }
  for (const char* recipe : {"nvfp4_te", "nvfp4", "nvfp4_46"}) {  // neither side of which is a multiple of a tile
    DeviceRequest r{"quantize_nvfp4", Format::bf16, Format::e2m1, {1, 16}, true, fewer - 1, cols - 3};
    r.recipe = recipe, r.has_both = true;
    all.push_back(r);
  }
  if (quick) return all;
  add("quantize", {1, 32}, true, 4096, 512);
  add("quantize", {32, 1}, true, 4096, 512);
  add("quantize_dual", {1, 32}, true, 4096, 512);
  return all;
}

// Bytes per second of a kernel that reads 4 bytes for 16 that it writes, with as many as the large cases of 4 bits.
double widening_rate(Timer& timer, int samples, bool quick) {
  const std::int64_t words = (quick ? 131 : 32768) * std::int64_t{7168} / 8;
  const DeviceBuffer from(static_cast<std::uint64_t>(4 * words)), to(static_cast<std::uint64_t>(16 * words));
  check_cuda(cudaMemset(from.data(), 0x3C, from.bytes()), "fill");
  check_cuda(cudaDeviceSynchronize(), "fill");
  const Spread t = timer.time(samples, 4, [&] { launch_widening(from.data(), to.data(), words, timer.stream()); });
  return 20e6 * static_cast<double>(words) / t.median;
}

int run(const Options& options) {
  Timer timer;
  int wrong = 0;
  const Spread nothing = timer.time(options.samples, 20, [&] { launch_nothing(timer.stream()); });
  const double large_copy = timer.large_copy_rate(options.quick ? 1 : options.samples);
  const double widening = widening_rate(timer, options.samples, options.quick);
  if (!options.json) {
    fmt::print(
        "{}\nan empty kernel: {:.2f} us; of 4 bytes read and 16 written: {:.0f} GB/s, {:.3f} of the copy\n{:<66} {:>7} "
        "{:>9} {:>17} {:>6} {:>9} {:>6}\n",
        to_text(current_card()), nothing.median, widening / 1e9, widening / large_copy, "case", "MB", "us",
        "least-most", "GB/s", "copy GB/s", "ratio");
  } else {
    fmt::print(
        "{{\"card\": {}, \"empty_kernel_us\": {:.3f}, \"large_copy_bytes_per_s\": {:.4e}, "
        "\"widening_bytes_per_s\": {:.4e}, \"cases\": [",
        to_line(current_card()), nothing.median, large_copy, widening);
  }
  bool first = true;
  const mxcheck_candidate_table& table = load_candidate(options.library);
  const std::span<const mxcheck_operation> offered(table.operations, static_cast<std::size_t>(table.num_operations));
  for (const DeviceRequest& request : all_requests(options)) {
    if (request.text().find(options.only) == std::string::npos) continue;
    if (std::ranges::none_of(offered, [&](const auto& one) { return request.operation == one.name; })) continue;
    DeviceCall call(operation(table, request.operation), request, options.quick ? 1 : kBeyondL2);
    const std::string difference = call.difference(timer.stream());
    wrong += difference.empty() ? 0 : 1;
    const auto together = static_cast<int>(std::clamp<std::size_t>(call.copies(), 1, 40));
    const Spread t = timer.time(options.samples, together, [&] { call.enqueue(timer.stream()); });
    const double rate = 1e6 * static_cast<double>(call.bytes()) / t.median;
    // Small calls are compared with a copy of as many bytes, large ones with the best large copy.
    const bool small = call.bytes() < 100'000'000;
    const double copy =
        small ? timer.copy_rate(options.samples, together, static_cast<std::uint64_t>(call.bytes() / 2)) : large_copy;
    if (options.json) {
      fmt::print(
          "{}\n{{\"case\": \"{}\", \"bytes\": {}, \"us\": {:.3f}, \"us_least\": {:.3f}, \"us_most\": {:.3f}, "
          "\"bytes_per_s\": {:.4e}, \"copy_bytes_per_s\": {:.4e}, \"ratio\": {:.4f}, \"difference\": \"{}\"}}",
          first ? "" : ",", request.text(), call.bytes(), t.median, t.least, t.most, rate, copy, rate / copy,
          difference);
    } else {
      fmt::print("{:<66} {:>7.1f} {:>9.2f} {:>8.2f}-{:<8.2f} {:>6.0f} {:>9.0f} {:>6.3f}{}\n", request.text(),
                 static_cast<double>(call.bytes()) / 1e6, t.median, t.least, t.most, rate / 1e9, copy / 1e9,
                 rate / copy, difference.empty() ? "" : "  WRONG: " + difference);
    }
    std::fflush(stdout);
    first = false;
  }
  if (options.json) fmt::print("\n]}}\n");
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace mxcheck::bench

int main(int argc, char** argv) {
  mxcheck::bench::Options options;
  options.library = MXCHECK_SM90_LIBRARY;
  CLI::App app("Casts of a Hopper library, checked and timed", "mxcheck_sm90_bench");
  app.add_option("--library", options.library, "The candidate");
  app.add_option("--only", options.only, "Cases whose text has this");
  app.add_option("--rows", options.rows, "Rows of the large cases, in place of 131072 and 32768: the check takes less")
      ->check(CLI::Range(1, 1 << 20));
  app.add_flag("--quick", options.quick, "Small shapes: does it run at all");
  app.add_flag("--json", options.json, "Print JSON");
  mxcheck::bench::add_samples(app, options.samples);
  return mxcheck::bench::run_benchmark(app, argc, argv, [&] { return mxcheck::bench::run(options); });
}
