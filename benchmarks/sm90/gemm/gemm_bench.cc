// mxcheck_sm90_gemm_bench [--json] [--quick] [--only GLOB] [--samples N] [--library PATH] [--cublaslt PATH]: every
// output of each GEMM is compared with the GPU model, whose rate is printed as well; then the GEMM is timed with
// CUDA events next to cuBLASLt's dense GEMMs of as much work, sample by sample in turn, from graphs of calls over
// copies of the tensors.

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "benchmarks/sm90/common/command_line.h"
#include "benchmarks/sm90/gemm/cublaslt.h"
#include "benchmarks/sm90/gemm/gemm_case.h"
#include "numerics/error.h"

namespace mxcheck::bench {
namespace {

constexpr std::uint64_t kBeyondL2 = std::uint64_t{512} << 20;
constexpr std::size_t kLeastTogether = 4;  // calls in a graph
constexpr int kWarmUp = 3;

struct Options {
  std::string library = MXCHECK_SM90_GEMM_LIBRARY;
  std::string cublaslt;
  std::string only = "*";
  bool json = false;
  bool quick = false;  // small shapes: does it run at all
  int samples = 25;
};

// Something that is timed: calls of one kind in a graph.
class Contender {
 public:
  Contender(std::string name, std::size_t together, cudaStream_t stream, const std::function<void(std::size_t)>& call)
      : name_(std::move(name)), together_(together) {
    check_cuda(cudaEventCreate(&begin_), "event");
    check_cuda(cudaEventCreate(&end_), "event");
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (std::size_t i = 0; i < together; ++i) call(i);
    check_cuda(cudaStreamEndCapture(stream, &graph), "capture");
    check_cuda(cudaGraphInstantiate(&graph_, graph, 0), "graph");
    cudaGraphDestroy(graph);
  }
  ~Contender() {
    cudaGraphExecDestroy(graph_);
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;

  void launch(cudaStream_t stream) {
    check_cuda(cudaEventRecord(begin_, stream), "event");
    check_cuda(cudaGraphLaunch(graph_, stream), "graph");
    check_cuda(cudaEventRecord(end_, stream), "event");
  }
  void keep() {
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, begin_, end_), "event");
    times_.push_back(1000.0 * ms / static_cast<double>(together_));
  }
  void sort() { std::sort(times_.begin(), times_.end()); }

  [[nodiscard]] const std::string& name() const { return name_; }
  // Microseconds of one call, after sort().
  [[nodiscard]] double median() const { return times_[times_.size() / 2]; }
  [[nodiscard]] double least() const { return times_.front(); }
  [[nodiscard]] double most() const { return times_.back(); }

 private:
  std::string name_;
  std::size_t together_;
  cudaGraphExec_t graph_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  std::vector<double> times_;
};

// One sample of each in turn; the host waits once a round.
void time_in_turn(std::deque<Contender>& contenders, int samples, cudaStream_t stream) {
  for (int round = -kWarmUp; round < samples; ++round) {
    for (Contender& c : contenders) c.launch(stream);
    check_cuda(cudaStreamSynchronize(stream), "a round of samples");
    if (round < 0) continue;
    for (Contender& c : contenders) c.keep();
  }
  for (Contender& c : contenders) c.sort();
}

struct Result {
  GemmRequest request;
  GemmCheck check;
  GemmCheck dense;                                              // of groups: our dense GEMM
  std::deque<Contender> contenders;                             // ours first; empty where nothing was timed
  std::vector<std::pair<std::string, std::string>> algorithms;  // of cuBLASLt
  std::vector<std::string> notes;
  double distance = std::nan("");  // of cuBLASLt's blocks to our dense GEMM

  [[nodiscard]] double tflops(const Contender& c) const { return request.operations() / c.median() / 1e6; }
  // The rate of the GPU model, in the check: billions of products a second.
  [[nodiscard]] double model_gmacs() const { return request.operations() / 2e9 / check.model_seconds; }
  [[nodiscard]] double ratio(const Contender& c) const { return c.median() / contenders.front().median(); }
  [[nodiscard]] bool wrong() const {
    return (check.offered && !check.equal) || (request.grouping != MXCHECK_DENSE && !request.is_masked() &&
                                               check.offered && dense.offered && !dense.equal);
  }
};

void measure(const mxcheck_operation& operation, const CublasLt* cublaslt, const Options& options, cudaStream_t stream,
             Result& result) {
  const GemmRequest& request = result.request;
  GemmCase gemm(operation, request, options.quick ? 1 : kBeyondL2);
  result.check = gemm.check(GemmForm::asked, stream);
  if (!result.check.offered) return;
  const bool grouped = request.grouping != MXCHECK_DENSE && !request.is_masked();
  if (grouped) result.dense = gemm.check(GemmForm::dense, stream);

  const std::size_t copies = gemm.copies();
  const std::size_t together = (kLeastTogether + copies - 1) / copies * copies;
  std::deque<std::unique_ptr<LtMatmul>> theirs;
  std::vector<LtMode> modes;
  for (const LtMode mode : kLtModes) {
    if (cublaslt == nullptr || request.is_masked()) break;  // it has no GEMM of as much work and memory
    auto lt = std::make_unique<LtMatmul>(*cublaslt, gemm.lt_problem(mode));
    std::vector<LtOperands> calls;
    for (std::size_t copy = 0; copy < copies; ++copy) calls.push_back(gemm.lt_operands(mode, copy)[0]);
    const std::string none = lt->search(calls, stream);
    if (!none.empty()) {
      result.notes.push_back(std::string("cuBLASLt ") + name_of(mode) + ": " + none);
      continue;
    }
    result.algorithms.emplace_back(name_of(mode), lt->algorithm());
    const bool same_values = mode == LtMode::fp8_blocks && request.block == 128 && (!grouped || result.dense.offered);
    if (same_values && !request.accumulates()) {
      result.distance = gemm.distance(*lt, mode, stream);
      if (!(result.distance < 0.01)) {
        result.notes.push_back(
            fmt::format("cuBLASLt {}: other values, relative distance {:.2e}", name_of(mode), result.distance));
      }
    }
    theirs.push_back(std::move(lt));
    modes.push_back(mode);
  }

  const auto ours = [&](const char* name, GemmForm form) {
    result.contenders.emplace_back(name, together, stream,
                                   [&](std::size_t i) { gemm.enqueue(form, i % copies, stream); });
  };
  ours("ours", GemmForm::asked);
  if (grouped && result.dense.offered) ours("dense", GemmForm::dense);
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    result.contenders.emplace_back(name_of(modes[i]), together, stream, [&](std::size_t copy) {
      for (const LtOperands& o : gemm.lt_operands(modes[i], copy % copies)) theirs[i]->enqueue(o, stream);
    });
  }
  time_in_turn(result.contenders, options.samples, stream);
}

std::string json_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

std::string json_of(const GemmCheck& check) {
  if (!check.offered) return fmt::format("{{\"offered\": false, \"message\": {}}}", json_text(check.message));
  return fmt::format("{{\"offered\": true, \"equal\": {}, \"compared\": {}, \"message\": {}}}", check.equal,
                     check.compared, json_text(check.message));
}

void print_json(const Result& r, bool first) {
  fmt::print("{}\n{{\"case\": {}, \"m\": {}, \"n\": {}, \"k\": {}, \"check\": {}", first ? "" : ",",
             json_text(r.request.text()), r.request.m, r.request.n, r.request.k, json_of(r.check));
  const bool has_dense = r.request.grouping != MXCHECK_DENSE && !r.request.is_masked();
  if (has_dense && r.check.offered) fmt::print(", \"dense_check\": {}", json_of(r.dense));
  if (r.check.offered) fmt::print(", \"model_gmacs\": {:.1f}", r.model_gmacs());
  if (std::isfinite(r.distance)) fmt::print(", \"cublaslt_blocks_distance\": {:.4e}", r.distance);
  if (!r.contenders.empty()) fmt::print(", \"times\": {{");
  for (const Contender& c : r.contenders) {
    fmt::print(
        "{}{}: {{\"us\": {:.3f}, \"us_least\": {:.3f}, \"us_most\": {:.3f}, \"tflops\": {:.2f}, \"ratio\": {:.4f}",
        &c == &r.contenders.front() ? "" : ", ", json_text(c.name()), c.median(), c.least(), c.most(), r.tflops(c),
        r.ratio(c));
    for (const auto& [name, algorithm] : r.algorithms) {
      if (name == c.name()) fmt::print(", \"algorithm\": {}", json_text(algorithm));
    }
    fmt::print("}}");
  }
  if (!r.contenders.empty()) fmt::print("}}");
  fmt::print(", \"notes\": [");
  for (std::size_t i = 0; i < r.notes.size(); ++i) fmt::print("{}{}", i == 0 ? "" : ", ", json_text(r.notes[i]));
  fmt::print("]}}");
}

constexpr std::array kColumns{"fp8", "fp8 fast", "fp8 blocks", "bf16", "dense"};

void print_row(const Result& r) {
  fmt::print("{:<62}", r.request.text());
  if (!r.check.offered) {
    fmt::print(" not offered{}\n", r.check.message.empty() ? "" : ": " + r.check.message);
    return;
  }
  const Contender& ours = r.contenders.front();
  fmt::print(" {:>9.2f} {:>9.2f}-{:<9.2f} {:>7.1f}", ours.median(), ours.least(), ours.most(), r.tflops(ours));
  for (const char* const column : kColumns) {
    std::string cell = "-";
    for (const Contender& c : r.contenders) {
      if (c.name() == column) cell = fmt::format("{:.3f} ({:.0f})", r.ratio(c), r.tflops(c));
    }
    fmt::print(" {:>13}", cell);
  }
  fmt::print(" {:>11.1f}{}\n", r.model_gmacs(), r.check.equal ? "" : "  WRONG: " + r.check.message);
  if (r.check.equal && r.wrong()) fmt::print("    the dense GEMM is WRONG: {}\n", r.dense.message);
  for (const std::string& note : r.notes) fmt::print("    {}\n", note);
}

void print_head(const Options& options, const GemmLibrary& library, const CublasLt* cublaslt,
                const std::string& refusal) {
  const std::string path = cublaslt == nullptr ? "" : cublaslt->path();
  const std::size_t version = cublaslt == nullptr ? 0 : cublaslt->version();
  if (options.json) {
    fmt::print(
        "{{\"card\": {}, \"library\": {}, \"cublaslt\": {{\"path\": {}, \"version\": {}, \"message\": {}}}, "
        "\"samples\": {}, \"cases\": [",
        to_line(current_card()), json_text(library.name()), json_text(path), version, json_text(refusal),
        options.samples);
    return;
  }
  fmt::print("{}\n", to_text(current_card()));
  fmt::print("library {}\ncuBLASLt {}\n", library.name(),
             cublaslt == nullptr ? refusal : fmt::format("{}, {}", version, path));
  fmt::print(
      "Times of one call, medians of {}; then our rate over that of cuBLASLt and of our own dense GEMM, "
      "and theirs in TFLOPS. The model: billions of products a second in the check of all outputs.\n",
      options.samples);
  fmt::print("{:<62} {:>9} {:>19} {:>7}", "case, m x n x k", "us", "least-most", "TFLOPS");
  for (const char* const column : kColumns) fmt::print(" {:>13}", column);
  fmt::print(" {:>11}\n", "model GMAC/s");
}

int run(const Options& options) {
  const GemmLibrary library(options.library);
  std::unique_ptr<CublasLt> cublaslt;
  std::string refusal;
  try {
    cublaslt = std::make_unique<CublasLt>(options.cublaslt);
  } catch (const Error& e) {
    if (!options.cublaslt.empty()) throw;
    refusal = e.what();
  }
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  print_head(options, library, cublaslt.get(), refusal);
  bool wrong = false;
  bool first = true;
  for (const GemmRequest& request : all_gemm_requests(options.quick)) {
    if (fnmatch(options.only.c_str(), request.text().c_str(), 0) != 0) continue;
    Result result{request, {}, {}, {}, {}, {}};
    const mxcheck_operation* const operation = library.find(request);
    result.check.offered = operation != nullptr;
    if (operation != nullptr) measure(*operation, cublaslt.get(), options, stream, result);
    wrong = wrong || result.wrong();
    if (options.json) {
      print_json(result, first);
    } else {
      print_row(result);
    }
    std::fflush(stdout);
    first = false;
  }
  if (options.json) fmt::print("\n]}}\n");
  cudaStreamDestroy(stream);
  return wrong ? 1 : 0;
}

}  // namespace
}  // namespace mxcheck::bench

int main(int argc, char** argv) {
  mxcheck::bench::Options options;
  CLI::App app("GEMMs of a Hopper library, checked and timed beside cuBLASLt", "mxcheck_sm90_gemm_bench");
  app.add_option("--library", options.library, "The candidate");
  app.add_option("--cublaslt", options.cublaslt, "libcublasLt.so, where it is not found by itself");
  app.add_option("--only", options.only, "Glob over the cases");
  app.add_flag("--quick", options.quick, "Small shapes: does it run at all");
  app.add_flag("--json", options.json, "Print JSON");
  mxcheck::bench::add_samples(app, options.samples);
  return mxcheck::bench::run_benchmark(app, argc, argv, [&] {
    if (options.quick && app.count("--samples") == 0) options.samples = 3;
    return mxcheck::bench::run(options);
  });
}
