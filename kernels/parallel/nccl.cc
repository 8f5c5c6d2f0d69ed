#include "kernels/parallel/nccl.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "kernels/parallel/parallel_error.h"

namespace mxcheck_kernels::parallel {
namespace {

constexpr int kSuccess = 0;
constexpr int kUint8 = 1;  // ncclUint8
constexpr int kOldest = 22700;
constexpr const char* kUsualName = "libnccl.so.2";

struct UniqueId {  // ncclUniqueId
  char internal[128];
};

}  // namespace

struct NcclLibrary::Functions {
  int (*version)(int*) = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*unique_id)(UniqueId*) = nullptr;
  int (*init)(void**, int, UniqueId, int) = nullptr;
  int (*destroy)(void*) = nullptr;
  int (*abort)(void*) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*send)(const void*, std::size_t, int, int, void*, void*) = nullptr;
  int (*receive)(void*, std::size_t, int, int, void*, void*) = nullptr;
};

NcclLibrary::NcclLibrary(const std::string& path) {
  const std::string name = path.empty() ? kUsualName : path;
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    throw ParallelError(Fault::environment,
                        "NCCL cannot be loaded: " + std::string(why == nullptr ? name : why) +
                            "; name libnccl.so.2 of NCCL 2.27 or later with --nccl or MXCHECK_NCCL (PyPI's " +
                            "nvidia-nccl-cu13 has it in nvidia/nccl/lib)");
  }
  auto functions = std::make_shared<Functions>();
  const auto find = [&](const char* symbol, auto& to) {
    void* const found = dlsym(library, symbol);
    if (found == nullptr)
      throw ParallelError(Fault::environment, name + " has no " + symbol + ": NCCL 2.27 or later is needed");
    static_assert(sizeof(to) == sizeof(found));
    std::memcpy(&to, &found, sizeof(found));
  };
  find("ncclGetVersion", functions->version), find("ncclGetErrorString", functions->error_text);
  find("ncclGetUniqueId", functions->unique_id), find("ncclCommInitRank", functions->init);
  find("ncclCommDestroy", functions->destroy), find("ncclCommAbort", functions->abort);
  find("ncclGroupStart", functions->group_start), find("ncclGroupEnd", functions->group_end);
  find("ncclSend", functions->send), find("ncclRecv", functions->receive);
  functions_ = functions;
  check(functions->version(&version_), "ncclGetVersion");
  if (version_ < kOldest) {
    throw ParallelError(Fault::environment, name + " is NCCL " + version_text() + ": 2.27 or later is needed");
  }
}

std::string NcclLibrary::version_text() const {
  return std::to_string(version_ / 10000) + "." + std::to_string(version_ / 100 % 100) + "." +
         std::to_string(version_ % 100);
}

void NcclLibrary::check(int result, const char* call) const {
  if (result == kSuccess) return;
  throw ParallelError(Fault::environment, std::string(call) + ": " + functions_->error_text(result) +
                                              " (NCCL_DEBUG=WARN makes NCCL say more)");
}

NcclCommunicator::NcclCommunicator(const NcclLibrary& library, Mesh& mesh) : library_(library) {
  UniqueId id{};
  if (mesh.rank() == 0) library.check(library.functions().unique_id(&id), "ncclGetUniqueId");
  const std::string mine(id.internal, sizeof(id.internal));
  const std::vector<std::string> all = mesh.all_gather("NCCL's id", mine);
  if (all[0].size() != sizeof(id.internal)) throw ParallelError(Fault::disagreement, "rank 0 has another NCCL");
  std::memcpy(id.internal, all[0].data(), sizeof(id.internal));
  library.check(library.functions().init(&communicator_, mesh.ranks(), id, mesh.rank()), "ncclCommInitRank");
}

NcclCommunicator::~NcclCommunicator() {
  if (communicator_ != nullptr) library_.functions().destroy(communicator_);
}

void NcclCommunicator::give_up() noexcept {
  if (communicator_ != nullptr) library_.functions().abort(communicator_);
  communicator_ = nullptr;
}

void NcclCommunicator::exchange(std::span<const Transfer> sends, std::span<const Transfer> receives, void* stream) {
  const NcclLibrary::Functions& f = library_.functions();
  library_.check(f.group_start(), "ncclGroupStart");
  for (const Transfer& t : sends) {
    if (t.bytes != 0) library_.check(f.send(t.data, t.bytes, kUint8, t.peer, communicator_, stream), "ncclSend");
  }
  for (const Transfer& t : receives) {
    if (t.bytes != 0) library_.check(f.receive(t.data, t.bytes, kUint8, t.peer, communicator_, stream), "ncclRecv");
  }
  library_.check(f.group_end(), "ncclGroupEnd");
}

}  // namespace mxcheck_kernels::parallel
