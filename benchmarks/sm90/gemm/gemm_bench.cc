// mxcheck_sm90_gemm_bench [--json] [--quick] [--only GLOB] [--samples N] [--library PATH] [--cublaslt PATH] [--beside
// PATH]: every output of each GEMM is compared with the GPU model, whose rate is printed as well; then the GEMM is
// timed with CUDA events next to cuBLASLt's dense GEMMs of as much work, and next to the same GEMM of the library that
// --beside names, whose outputs are compared with ours, sample by sample in turn, from graphs of calls over copies of
// the tensors.

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
#include "benchmarks/sm90/gemm/report.h"
#include "benchmarks/sm90/gemm/request.h"
#include "numerics/error.h"

namespace mxcheck::bench {
namespace {

constexpr std::uint64_t kBeyondL2 = std::uint64_t{512} << 20;
constexpr std::size_t kLeastTogether = 4;  // calls in a graph
constexpr int kWarmUp = 3;

struct Options {
  std::string library = MXCHECK_SM90_GEMM_LIBRARY;
  std::string cublaslt;
  std::string beside;  // a second library, or ""
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

  // After sort().
  [[nodiscard]] GemmTime time() const { return {name_, times_[times_.size() / 2], times_.front(), times_.back()}; }

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

// The libraries of a run.
struct Libraries {
  const GemmLibrary& ours;
  const CublasLt* cublaslt = nullptr;
  const GemmLibrary* beside = nullptr;
};

// True if the library beside ours is to be timed; its check goes into the result.
bool offered_beside(const GemmLibrary* beside, GemmCase& gemm, cudaStream_t stream, GemmResult& result) {
  if (beside == nullptr) return false;
  const mxcheck_operation* const operation = beside->find(result.request);
  if (operation == nullptr) {
    result.beside = GemmCheck{};
    result.beside->offered = false;
  } else {
    result.beside = gemm.check_beside(*operation, beside->steps(), stream);
  }
  return result.beside->offered;
}

void measure(const mxcheck_operation& operation, const Libraries& libraries, const Options& options,
             cudaStream_t stream, GemmResult& result) {
  const CublasLt* const cublaslt = libraries.cublaslt;
  const GemmRequest& request = result.request;
  GemmCase gemm(operation, request, options.quick ? 1 : kBeyondL2);
  result.check = gemm.check(GemmForm::asked, stream);
  if (!result.check.offered) return;
  const bool grouped = result.has_dense();
  if (grouped) result.dense = gemm.check(GemmForm::dense, stream);

  const bool beside = offered_beside(libraries.beside, gemm, stream, result);

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

  std::deque<Contender> contenders;
  const auto ours = [&](const char* name, GemmForm form) {
    contenders.emplace_back(name, together, stream, [&](std::size_t i) { gemm.enqueue(form, i % copies, stream); });
  };
  ours("ours", GemmForm::asked);
  if (grouped && result.dense.offered) ours("dense", GemmForm::dense);
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    contenders.emplace_back(name_of(modes[i]), together, stream, [&](std::size_t copy) {
      for (const LtOperands& o : gemm.lt_operands(modes[i], copy % copies)) theirs[i]->enqueue(o, stream);
    });
  }
  // The kernel alone where it is told from the change of layouts, and the whole call.
  const bool steps = beside && libraries.beside->steps() != nullptr;
  if (steps) {
    contenders.emplace_back(kBesideName, together, stream, [&](std::size_t i) { gemm.enqueue_prepared(i, stream); });
  }
  if (beside) {
    contenders.emplace_back(steps ? kBesideWholeName : kBesideName, together, stream,
                            [&](std::size_t i) { gemm.enqueue_beside(i, stream); });
  }
  time_in_turn(contenders, options.samples, stream);
  for (const Contender& c : contenders) result.times.push_back(c.time());
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
  std::unique_ptr<GemmLibrary> beside;
  if (!options.beside.empty()) beside = std::make_unique<GemmLibrary>(options.beside);
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  GemmRun common{current_card(), library.name(), "", 0, refusal, beside ? beside->name() : "", options.samples};
  if (cublaslt) common.cublaslt = cublaslt->path(), common.cublaslt_version = cublaslt->version();
  fmt::print("{}", options.json ? json_head(common) : text_head(common));
  bool wrong = false;
  bool first = true;
  for (const GemmRequest& request : all_gemm_requests(options.quick)) {
    if (fnmatch(options.only.c_str(), request.text().c_str(), 0) != 0) continue;
    GemmResult result;
    result.request = request;
    const mxcheck_operation* const operation = library.find(request);
    result.check.offered = operation != nullptr;
    if (operation != nullptr) measure(*operation, {library, cublaslt.get(), beside.get()}, options, stream, result);
    wrong = wrong || result.wrong();
    if (options.json) {
      fmt::print("{}\n{}", first ? "" : ",", json_of(result));
    } else {
      fmt::print("{}", text_of(common, result));
    }
    std::fflush(stdout);
    first = false;
  }
  if (options.json) fmt::print("{}", json_tail());
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
  app.add_option("--beside", options.beside, "A second candidate library, timed and compared beside the first");
  app.add_option("--only", options.only, "Glob over the cases");
  app.add_flag("--quick", options.quick, "Small shapes: does it run at all");
  app.add_flag("--json", options.json, "Print JSON");
  mxcheck::bench::add_samples(app, options.samples);
  return mxcheck::bench::run_benchmark(app, argc, argv, [&] {
    if (options.quick && app.count("--samples") == 0) options.samples = 3;
    return mxcheck::bench::run(options);
  });
}
