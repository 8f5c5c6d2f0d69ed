#pragma once
// NCCL, loaded at run time: no build needs it. Only what carries rows between ranks; names, values and signatures are
// those of nccl.h since 2.27.
//
//   const NcclLibrary library("");                     // libnccl.so.2, as the dynamic linker finds it
//   NcclCommunicator nccl(library, mesh);              // all ranks call it together
//   nccl.exchange(sends, receives, stream);            // enqueued, in one group
//
// Errors: ParallelError{environment} for a library that cannot be loaded, lacks a function or is older than 2.27, with
// its name; ParallelError{disagreement} for ranks with other versions; ParallelError{environment} with NCCL's words for
// calls that fail.

#include <memory>
#include <span>
#include <string>

#include "kernels/parallel/mesh.h"

namespace mxcheck_kernels::parallel {

class NcclLibrary {
 public:
  // The path, or the name that the dynamic linker looks for; empty: libnccl.so.2.
  explicit NcclLibrary(const std::string& path);
  [[nodiscard]] int version() const { return version_; }  // 22703 for 2.27.3
  [[nodiscard]] std::string version_text() const;

  struct Functions;
  [[nodiscard]] const Functions& functions() const { return *functions_; }
  void check(int result, const char* call) const;

 private:
  std::shared_ptr<const Functions> functions_;
  int version_ = 0;
};

class NcclCommunicator {
 public:
  NcclCommunicator(const NcclLibrary& library, Mesh& mesh);
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  // Device memory, enqueued in the stream as one group: between a pair of ranks the transfers match in their order.
  // Transfers of this rank to itself must not be among them.
  void exchange(std::span<const Transfer> sends, std::span<const Transfer> receives, void* stream);

  // After a rank has failed: kernels that wait for it end.
  void give_up() noexcept;

 private:
  const NcclLibrary& library_;
  void* communicator_ = nullptr;
};

}  // namespace mxcheck_kernels::parallel
