#include "emulation/on_sm90/launch.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "emulation/on_sm90/control.h"
#include "numerics/error.h"

namespace mxcheck::emulation::on_sm90 {
namespace {

constexpr std::size_t kMostSharedBytes = 232448;
constexpr unsigned kMostBlocks = 4096;  // a GiB of tensor memory
constexpr std::size_t kCountBytes = (2 + kMostBlocks) * sizeof(std::uint32_t);

struct Meaning {
  sm100::Hazard hazard;
  const char* what;
  const char* right;
};

Meaning meaning_of(Code code) {
  using sm100::Hazard;
  switch (code) {
    case Code::instruction_descriptor:
      return {Hazard::descriptor, "an instruction descriptor that is not valid",
              "one that the PTX ISA has, and the emulation (emulation/sm100/tensor_core/instruction.h)"};
    case Code::matrix_descriptor:
      return {Hazard::descriptor, "a matrix descriptor that is not valid, or reads outside of shared memory",
              "one that the PTX ISA has, and the emulation (emulation/sm100/tensor_core/shared_matrix.h)"};
    case Code::d_address: return {Hazard::unknown, "D begins at another lane than 0", "lane 0"};
    case Code::scale_address: return {Hazard::unknown, "scales at another lane than 0", "lane 0 and no sub-column"};
    case Code::copy_address: return {Hazard::unknown, "a copy to another lane than 0", "lane 0"};
    case Code::column:
      return {Hazard::allocation, "a column that is not allocated", "columns that the CTA has allocated"};
    case Code::lanes:
      return {Hazard::address, "lanes of another warp, or a 16-lane shape in their middle",
              "lanes 32 (warp % 4) to 32 (warp % 4) + 31, 16-lane shapes at a multiple of 16"};
    case Code::allocation:
      return {Hazard::allocation, "columns that cannot be allocated, or are no allocation",
              "a power of two from 32 to 512 that is free; the address and width of an alloc"};
    case Code::allocation_grows:
      return {Hazard::allocation, "more columns than in the allocation before", "as many or fewer"};
    case Code::allocation_after_relinquish:
      return {Hazard::allocation, "an alloc after tcgen05.relinquish_alloc_permit", "none after it"};
    case Code::cta_group: return {Hazard::issue, "a second cta_group", "one for all tcgen05 instructions of a kernel"};
    case Code::pair:
      return {Hazard::issue, "cta_group::2 outside of a pair, or by its odd CTA", "a thread of the even-ranked CTA"};
    case Code::issuer: return {Hazard::issue, "a second thread that issues mma, cp or commit", "one thread of a CTA"};
    case Code::scale_copies:
      return {Hazard::scale_copies, "copies of a row's scale that differ between the partitions",
              "the same scales in all four partitions (cp.32x128b.warpx4)"};
    case Code::not_freed:
      return {Hazard::exit, "columns that are allocated when the CTA ends", "tcgen05.dealloc before"};
    case Code::barrier_wait:
      return {Hazard::deadlock, "a wait for an mbarrier's phase that does not end", "an arrival that completes it"};
    case Code::tensor_core_idle:
      return {Hazard::deadlock, "threads of the kernel that come to no end", "barriers that all of them reach"};
    case Code::none:
    case Code::form: break;
  }
  return {Hazard::unknown, "a form that is not modelled on Hopper", "one that is; the CPU's emulation may have it"};
}

sm100::Finding finding_of(const DeviceFinding& f) {
  const Meaning m = meaning_of(f.code);
  sm100::Finding finding;
  finding.hazard = m.hazard;
  finding.who =
      "cta " + std::to_string(f.block) + " warp " + std::to_string(f.warp) + " lane " + std::to_string(f.lane);
  finding.instruction = "on Hopper";
  finding.what = std::string(m.what) + " (" + std::to_string(f.value) + ", " + std::to_string(f.other) + ")";
  finding.right = m.right;
  return finding;
}

// Memory and events that launches share; never freed, as the runtime may be gone when a process ends.
class Card {
 public:
  std::uint32_t* tmem(unsigned blocks) {
    if (blocks <= blocks_) return tmem_;
    if (tmem_ != nullptr) require_success(cudaFree(tmem_), "cudaFree");
    tmem_ = nullptr;
    blocks_ = 0;
    require_success(cudaMalloc(&tmem_, std::size_t{blocks} * kTmemWords * 4), "cudaMalloc of tensor memory");
    blocks_ = blocks;
    return tmem_;
  }
  // Two counts and a claim for each cluster.
  std::uint32_t* counts() {
    if (counts_ == nullptr) require_success(cudaMalloc(&counts_, kCountBytes), "cudaMalloc");
    return counts_;
  }
  // Host memory, mapped: the card writes its findings there, and may read its Launch.
  struct Mapped {
    Report report;
    Launch launch;
  };
  Mapped& mapped() {
    if (mapped_ == nullptr)
      require_success(cudaHostAlloc(&mapped_, sizeof(Mapped), cudaHostAllocMapped), "cudaHostAlloc");
    return *mapped_;
  }
  std::pair<cudaEvent_t, cudaEvent_t> events() {
    if (begin_ == nullptr) {
      require_success(cudaEventCreate(&begin_), "cudaEventCreate");
      require_success(cudaEventCreate(&end_), "cudaEventCreate");
    }
    return {begin_, end_};
  }

 private:
  std::uint32_t* tmem_ = nullptr;
  unsigned blocks_ = 0;
  std::uint32_t* counts_ = nullptr;
  Mapped* mapped_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

Card& card() {
  static Card* const the_card = new Card;
  return *the_card;
}

Timing timing_of(sm100::Schedule schedule) {
  switch (schedule) {
    case sm100::Schedule::eager: return Timing::eager;
    case sm100::Schedule::lazy: return Timing::lazy;
    case sm100::Schedule::random: break;
  }
  return Timing::random;
}

void check(const KernelShape& s) {
  const std::size_t all = s.shared_bytes + kControlBytes;
  const bool whole = s.cluster > 0 && s.blocks > 0 && s.blocks % s.cluster == 0 && s.blocks <= kMostBlocks;
  if (whole && s.cluster <= 8 && s.threads > 0 && s.threads % 32 == 0 && s.threads <= kMostKernelThreads &&
      s.shared_bytes % 16 == 0 && all <= kMostSharedBytes) {
    return;
  }
  throw Error(ErrorKind::usage,
              "a launch of " + std::to_string(s.blocks) + " blocks of " + std::to_string(s.threads) +
                  " threads in clusters of " + std::to_string(s.cluster) + " with " + std::to_string(s.shared_bytes) +
                  " bytes of shared memory: whole clusters of up to 8 and 4096 blocks, " + "warps up to " +
                  std::to_string(kMostKernelThreads) + " threads, and a multiple of 16 up to " +
                  std::to_string(kMostSharedBytes - kControlBytes) + " bytes are possible");
}

}  // namespace

void require_success(int cuda_error, const char* what) {
  const auto error = static_cast<cudaError_t>(cuda_error);
  if (error != cudaSuccess) throw Error(ErrorKind::environment, std::string(what) + ": " + cudaGetErrorString(error));
}

std::string card_refusal() {
  static const std::string refusal = [] {
    cudaDeviceProp properties{};
    const cudaError_t error = cudaGetDeviceProperties(&properties, 0);
    if (error != cudaSuccess) return std::string("no card for the emulation: ") + cudaGetErrorString(error);
    if (properties.major == 9 && properties.minor == 0) return std::string();
    return std::string("the emulation is compiled for Hopper (sm_90a), and the card is ") + properties.name +
           ", of compute capability " + std::to_string(properties.major) + "." + std::to_string(properties.minor);
  }();
  return refusal;
}

const void* launch_in_memory() { return &card().mapped().launch; }

sm100::LaunchResult launch(const KernelShape& shape, void* params, const sm100::LaunchOptions& options) {
  check(shape);
  if (const std::string refusal = card_refusal(); !refusal.empty()) throw Error(ErrorKind::environment, refusal);
  Report* const report = &card().mapped().report;
  *report = {};
  Launch launch{.tmem = card().tmem(shape.blocks),
                .claims = card().counts() + 2,
                .report = report,
                .counts = card().counts(),
                .seed = options.seed,
                .limit_ns = options.limit_ns,
                .timing = timing_of(options.schedule)};
  card().mapped().launch = launch;
  require_success(cudaMemset(launch.counts, 0, kCountBytes), "cudaMemset");
  const std::size_t shared = shape.shared_bytes + kControlBytes;
  require_success(
      cudaFuncSetAttribute(shape.function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)),
      "cudaFuncSetAttribute");
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {shape.cluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(shape.blocks);
  config.blockDim = dim3(shape.threads + kEngineThreads);
  config.dynamicSmemBytes = shared;
  config.attrs = &cluster;
  config.numAttrs = 1;
  void* arguments[] = {params, &launch};
  const auto [begin, end] = card().events();
  require_success(cudaEventRecord(begin), "cudaEventRecord");
  require_success(cudaLaunchKernelExC(&config, shape.function, arguments), "cudaLaunchKernelExC");
  require_success(cudaEventRecord(end), "cudaEventRecord");
  const cudaError_t error = cudaDeviceSynchronize();
  sm100::LaunchResult result;
  result.completed = error == cudaSuccess;
  if (!result.completed) result.dump = std::string("the kernel on the card: ") + cudaGetErrorString(error);
  sm100::Findings findings;
  for (const DeviceFinding& f : report->findings) {
    if (f.code != Code::none) findings.add(finding_of(f), "warp " + std::to_string(f.warp));
  }
  result.findings = findings.all();
  if (!result.completed) return result;
  std::uint32_t counts[2] = {};
  require_success(cudaMemcpy(counts, launch.counts, sizeof(counts), cudaMemcpyDeviceToHost), "cudaMemcpy");
  result.mmas = counts[1];
  float milliseconds = 0;
  require_success(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  result.seconds = milliseconds / 1e3;
  return result;
}

}  // namespace mxcheck::emulation::on_sm90
