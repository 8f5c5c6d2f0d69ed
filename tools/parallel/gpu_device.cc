#include "tools/parallel/parallel.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/parallel/peer.h"
#include "kernels/parallel/ranks.h"
#include "kernels/parallel/sockets.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/process/cuda_driver.h"
#include "tools/parallel/gpu_driver.h"
#include "tools/parallel/gpu_peer.h"

namespace mxcheck {
namespace {

using mxcheck_kernels::parallel::Exchange;
using mxcheck_kernels::parallel::Fault;
using mxcheck_kernels::parallel::Lane;
using mxcheck_kernels::parallel::Mesh;
using mxcheck_kernels::parallel::NcclCommunicator;
using mxcheck_kernels::parallel::NcclLibrary;
using mxcheck_kernels::parallel::ParallelError;
using mxcheck_kernels::parallel::PeerExchange;
using mxcheck_kernels::parallel::Transfer;

constexpr int kNotReady = 600;  // CUDA_ERROR_NOT_READY
constexpr unsigned kThreads = 256;
constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING

// Threads of one y copy a row: four words of 4 or 16 bytes a thread and step, all loads before the stores, and then
// one.
// $... is of the word.
constexpr const char* kGather = R"(
.visible .entry $NAME(.param .u64 to, .param .u64 from, .param .u64 index, .param .u64 words, .param .u64 rows) {
  .reg .pred %p;
  .reg .b32 %r<30>;
  .reg .b64 %d<16>;
  ld.param.u64 %d0, [to];
  ld.param.u64 %d1, [from];
  ld.param.u64 %d2, [index];
  ld.param.u64 %d3, [words];
  ld.param.u64 %d4, [rows];
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.y;
  mov.u32 %r2, %tid.y;
  mad.lo.u32 %r0, %r0, %r1, %r2;
  cvt.u64.u32 %d5, %r0;
  setp.ge.u64 %p, %d5, %d4;
  @%p bra DONE;
  mul.wide.u32 %d4, %r0, 4;
  add.u64 %d4, %d2, %d4;
  ld.global.s32 %r2, [%d4];
  mov.u32 %r1, %tid.x;
  cvt.u64.u32 %d7, %r1;
  mov.u32 %r3, %ntid.x;
  cvt.u64.u32 %d8, %r3;
  mul.lo.u64 %d9, %d8, 3;
  shl.b64 %d10, %d8, 2;
  shl.b64 %d11, %d8, $SHIFT;
  mul.lo.u64 %d5, %d5, %d3;
  add.u64 %d5, %d5, %d7;
  shl.b64 %d5, %d5, $SHIFT;
  add.u64 %d0, %d0, %d5;
  cvt.s64.s32 %d6, %r2;
  mul.lo.u64 %d6, %d6, %d3;
  add.u64 %d6, %d6, %d7;
  shl.b64 %d6, %d6, $SHIFT;
  add.u64 %d1, %d1, %d6;
FOUR:
  add.u64 %d12, %d7, %d9;
  setp.ge.u64 %p, %d12, %d3;
  @%p bra ONE;
  ld.global$TYPE $WORD0, [%d1];
  add.u64 %d1, %d1, %d11;
  ld.global$TYPE $WORD1, [%d1];
  add.u64 %d1, %d1, %d11;
  ld.global$TYPE $WORD2, [%d1];
  add.u64 %d1, %d1, %d11;
  ld.global$TYPE $WORD3, [%d1];
  add.u64 %d1, %d1, %d11;
  st.global$TYPE [%d0], $WORD0;
  add.u64 %d0, %d0, %d11;
  st.global$TYPE [%d0], $WORD1;
  add.u64 %d0, %d0, %d11;
  st.global$TYPE [%d0], $WORD2;
  add.u64 %d0, %d0, %d11;
  st.global$TYPE [%d0], $WORD3;
  add.u64 %d0, %d0, %d11;
  add.u64 %d7, %d7, %d10;
  bra FOUR;
ONE:
  setp.ge.u64 %p, %d7, %d3;
  @%p bra DONE;
  ld.global$TYPE $WORD0, [%d1];
  st.global$TYPE [%d0], $WORD0;
  add.u64 %d1, %d1, %d11;
  add.u64 %d0, %d0, %d11;
  add.u64 %d7, %d7, %d8;
  bra ONE;
DONE:
  ret;
}
)";

std::string gather_source() {
  const auto with = [](std::initializer_list<std::pair<std::string_view, std::string_view>> words) {
    std::string text = kGather;
    for (const auto& [name, value] : words) {
      for (std::size_t at = 0; (at = text.find(name)) != std::string::npos;) text.replace(at, name.size(), value);
    }
    return text;
  };
  return ".version 7.0\n.target sm_70\n.address_size 64\n" +
         with({{"$NAME", "gather4"},
               {"$SHIFT", "2"},
               {"$TYPE", ".b32"},
               {"$WORD0", "%r10"},
               {"$WORD1", "%r11"},
               {"$WORD2", "%r12"},
               {"$WORD3", "%r13"}}) +
         with({{"$NAME", "gather16"},
               {"$SHIFT", "4"},
               {"$TYPE", ".v4.b32"},
               {"$WORD0", "{%r10, %r11, %r12, %r13}"},
               {"$WORD1", "{%r14, %r15, %r16, %r17}"},
               {"$WORD2", "{%r18, %r19, %r20, %r21}"},
               {"$WORD3", "{%r22, %r23, %r24, %r25}"}});
}

class GpuDevice final : public mxcheck_kernels::parallel::Device {
 public:
  GpuDevice(Mesh& mesh, std::chrono::milliseconds timeout) : mesh_(mesh), timeout_(timeout) {
    streams_[0] = cuda_.create_stream();
    // Blocks of NCCL's kernels go before those of a GEMM that are not placed yet.
    int least = 0, greatest = 0;
    driver_.check(driver_.priority_range(&least, &greatest), "cuCtxGetStreamPriorityRange");
    driver_.check(driver_.create_stream(&streams_[1], kNonBlocking, greatest), "cuStreamCreateWithPriority");
    CudaHandle module = nullptr;
    driver_.check(driver_.module_load(&module, gather_source().c_str()), "cuModuleLoadData");
    driver_.check(driver_.module_function(&gather4_, module, "gather4"), "cuModuleGetFunction");
    driver_.check(driver_.module_function(&gather16_, module, "gather16"), "cuModuleGetFunction");
  }
  void use_nccl(const NcclLibrary& nccl) { nccl_.emplace(nccl, mesh_); }
  // Why not, the same on all ranks.
  std::string use_peers() {
    const std::uint64_t words = PeerExchange::words_of(mesh_.ranks());
    peer_memory_.emplace(cuda_, driver_, streams_[1]);
    words_ = static_cast<std::uint32_t*>(allocate(words * sizeof(std::uint32_t)));
    clear(words_, words * sizeof(std::uint32_t));
    cuda_.synchronize(streams_[0]);
    peers_.emplace(mesh_, *peer_memory_, words_);
    std::string problem = peers_->problem();
    if (!problem.empty()) peers_.reset(), peer_memory_.reset();
    return problem;
  }
  ~GpuDevice() override {
    if (std::uncaught_exceptions() > 0) give_up();
    forget_marks();
    for (CudaHandle event : spare_) driver_.event_destroy(event);
  }

  [[nodiscard]] DLDeviceType type() const override { return kDLCUDA; }
  [[nodiscard]] void* stream() const override { return streams_[0]; }

  void* allocate(std::uint64_t bytes) override {
    if (bytes == 0) return nullptr;
    try {
      if (peer_memory_) bytes = (bytes + GpuPeerMemory::kPage - 1) / GpuPeerMemory::kPage * GpuPeerMemory::kPage;
      return reinterpret_cast<void*>(cuda_.allocate(bytes));  // NOLINT(performance-no-int-to-ptr)
    } catch (const CudaFailure& failure) {
      throw ParallelError(Fault::environment,
                          "no memory for " + std::to_string(bytes) + " bytes on the GPU: " + failure.what);
    }
  }
  void release(void* memory) noexcept override {
    if (std::uncaught_exceptions() > 0) give_up();  // memory is not given back before the GPU's work is done
    if (peers_ && peer_memory_->keeps(address(memory))) return;
    try {
      cuda_.free(address(memory));
    } catch (const CudaFailure&) {  // the context is gone, and the memory with it
    }
  }
  void to_device(void* to, const void* from, std::uint64_t bytes) override {
    if (bytes == 0) return;
    cuda_.to_device(address(to), from, bytes, streams_[0]);
    cuda_.synchronize(streams_[0]);
  }
  void to_host(void* to, const void* from, std::uint64_t bytes) override {
    if (bytes != 0) cuda_.to_host(to, address(from), bytes, streams_[0]);
    cuda_.synchronize(streams_[0]);
  }
  void clear(void* to, std::uint64_t bytes) override {
    if (bytes != 0) cuda_.fill(address(to), 0, bytes, streams_[0]);
  }
  void copy(void* to, const void* from, std::uint64_t bytes) override {
    if (bytes != 0) cuda_.copy(address(to), address(from), bytes, streams_[0]);
  }

  void gather_rows(void* to, const void* from, const std::int32_t* index, std::int64_t rows,
                   std::int64_t row_bytes) override {
    if (rows == 0) return;
    const bool wide = row_bytes % 16 == 0;
    std::uint64_t words = static_cast<std::uint64_t>(row_bytes) / (wide ? 16 : 4);
    auto count = static_cast<std::uint64_t>(rows);
    void* arguments[] = {&to, &from, &index, &words, &count};
    const auto across = static_cast<unsigned>(std::min<std::uint64_t>(std::bit_ceil((words + 3) / 4), kThreads));
    const unsigned down = kThreads / across;
    driver_.check(driver_.launch(wide ? gather16_ : gather4_, static_cast<unsigned>((count + down - 1) / down), 1, 1,
                                 across, down, 1, 0, streams_[0], arguments, nullptr),
                  "cuLaunchKernel");
  }

  void transfer(std::string_view step, std::span<const Transfer> sends, std::span<const Transfer> receives) override {
    if (peers_) return peers_->transfer(step);
    if (!nccl_) return over_sockets(step, sends, receives);
    std::vector<Transfer> away, from, mine;
    for (const Transfer& t : sends) (t.peer == mesh_.rank() ? mine : away).push_back(t);
    std::size_t next = 0;
    for (const Transfer& t : receives) {
      if (t.peer != mesh_.rank()) {
        from.push_back(t);
      } else {
        cuda_.copy(address(t.data), address(mine.at(next++).data), t.bytes, streams_[1]);
      }
    }
    nccl_->exchange(away, from, streams_[1]);
  }

  int mark(Lane lane) override {
    CudaHandle event = nullptr;
    if (spare_.empty()) {
      driver_.check(driver_.event_create(&event, 0), "cuEventCreate");
    } else {
      event = spare_.back(), spare_.pop_back();
    }
    driver_.check(driver_.event_record(event, of(lane)), "cuEventRecord");
    marks_.push_back(event);
    return static_cast<int>(marks_.size()) - 1;
  }
  void wait(Lane lane, int mark) override {
    const CudaHandle event = marks_.at(static_cast<std::size_t>(mark));
    driver_.check(driver_.stream_wait(of(lane), event, 0), "cuStreamWaitEvent");
    if (lane == Lane::compute || !peers_) return;
    for (CudaHandle stream : peer_memory_->streams())
      driver_.check(driver_.stream_wait(stream, event, 0), "cuStreamWaitEvent");
  }
  void connect(std::span<const Exchange> all) override {
    if (peers_) peers_->connect(all);
  }
  void disconnect() override {
    nccl_.reset();
    if (peers_) peers_->disconnect();
    peers_.reset();
  }
  void forget_marks() override {
    spare_.insert(spare_.end(), marks_.begin(), marks_.end());
    marks_.clear();
  }
  [[nodiscard]] double seconds_between(int from, int to) override {
    float milliseconds = 0;
    driver_.check(driver_.event_elapsed(&milliseconds, marks_.at(static_cast<std::size_t>(from)),
                                        marks_.at(static_cast<std::size_t>(to))),
                  "cuEventElapsedTime");
    return static_cast<double>(milliseconds) / 1000;
  }

  // A kernel of NCCL's and a stream wait for their peers without end: so this looks after the peers while it waits.
  void synchronize(std::string_view step) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout_;
    try {
      for (int polls = 0; !is_done(); ++polls) {
        if (polls % 64 == 63) mesh_.look(step);
        if (std::chrono::steady_clock::now() > deadline) late(step);
        if (polls > 256) std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    } catch (...) {
      give_up();
      throw;
    }
  }

 private:
  [[nodiscard]] bool is_done() const {
    std::vector<CudaHandle> all{streams_[0], streams_[1]};
    if (peers_) {
      for (CudaHandle stream : peer_memory_->streams()) all.push_back(stream);
    }
    bool done = true;
    for (CudaHandle stream : all) {
      const int code = driver_.stream_query(stream);
      if (code != 0 && code != kNotReady) driver_.check(code, "the GPU's work");
      done = done && code == 0;
    }
    return done;
  }
  [[noreturn]] void late(std::string_view step) {
    std::string who = "a rank";
    if (peers_) {
      const auto ranks = peers_->awaited(peer_memory_->read(words_, PeerExchange::words_of(mesh_.ranks())));
      if (!ranks.empty()) who = mxcheck_kernels::parallel::ranks_text(ranks);
    }
    throw ParallelError(Fault::rank, "the GPU of rank " + std::to_string(mesh_.rank()) + " did not finish '" +
                                         std::string(step) + "' in time: " + who + " did not send its rows");
  }
  // Nothing on the GPU waits for other ranks any more.
  void give_up() noexcept {
    if (nccl_) nccl_->give_up();
    if (peers_) peer_memory_->release_waits(words_, PeerExchange::words_of(mesh_.ranks()));
  }

  [[nodiscard]] CudaHandle of(Lane lane) const { return streams_[lane == Lane::compute ? 0 : 1]; }

  void over_sockets(std::string_view step, std::span<const Transfer> sends, std::span<const Transfer> receives) {
    std::vector<std::vector<std::byte>> there, here;
    std::vector<Transfer> out, in;
    for (const Transfer& t : sends) {
      there.emplace_back(t.bytes);
      cuda_.to_host(there.back().data(), address(t.data), t.bytes, streams_[1]);
      out.push_back({t.peer, there.back().data(), t.bytes});
    }
    cuda_.synchronize(streams_[1]);
    for (const Transfer& t : receives) {
      here.emplace_back(t.bytes);
      in.push_back({t.peer, here.back().data(), t.bytes});
    }
    mesh_.exchange(step, out, in);
    for (std::size_t i = 0; i < in.size(); ++i)
      cuda_.to_device(address(receives[i].data), in[i].data, in[i].bytes, streams_[1]);
    cuda_.synchronize(streams_[1]);
  }

  Mesh& mesh_;
  std::chrono::milliseconds timeout_;
  CudaDevice cuda_;
  MoreOfDriver driver_;
  CudaHandle streams_[2] = {};
  CudaHandle gather4_ = nullptr, gather16_ = nullptr;
  std::vector<CudaHandle> marks_, spare_;
  std::optional<NcclCommunicator> nccl_;
  std::optional<GpuPeerMemory> peer_memory_;
  std::uint32_t* words_ = nullptr;
  std::optional<PeerExchange> peers_;
};

}  // namespace

std::string choose_gpu(const GpuChoice& choice) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string list = visible == nullptr ? "" : visible;
  const std::vector<std::string_view> names = split(list, ',');
  if (names.size() == 1) return "";  // a launcher gave each rank its own
  const int number = choice.shares_one ? 0 : choice.local_rank;
  if (!names.empty() && number >= std::ssize(names)) {
    return "rank " + std::to_string(number) + " of this host has no GPU: CUDA_VISIBLE_DEVICES is " + list +
           "; start fewer ranks, or use --one-gpu";
  }
  const std::string own = names.empty() ? std::to_string(number) : std::string(names[static_cast<std::size_t>(number)]);
  setenv("CUDA_VISIBLE_DEVICES", own.c_str(), 1);
  return "";
}

std::unique_ptr<mxcheck_kernels::parallel::Device> gpu_device(Mesh& mesh, const GpuTransport& transport,
                                                              std::chrono::milliseconds timeout) {
  std::unique_ptr<GpuDevice> device;
  try {
    device = std::make_unique<GpuDevice>(mesh, timeout);
  } catch (const Error& e) {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    throw Error(e.kind(), "GPU " + std::string(visible == nullptr ? "0" : visible) + ": " + e.what() +
                              "; each rank of a host needs a GPU, or --one-gpu for all");
  }
  std::string problem;
  if (transport.peers) problem = device->use_peers();
  if (transport.peers && problem.empty()) return device;
  if (transport.peers && !transport.nccl) throw ParallelError(Fault::environment, problem + "; use --transport nccl");
  if (transport.nccl) device->use_nccl(transport.nccl());
  return device;
}

}  // namespace mxcheck
