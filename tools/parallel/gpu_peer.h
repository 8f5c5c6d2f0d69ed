#pragma once
// The protocol of kernels/parallel/peer.h on GPUs of one host: memory is shown by CUDA's handles between processes,
// rows are copied by copy engines, which take no multiprocessor from a GEMM, and words are written and waited for by
// the streams themselves.
//
// The transfer lane is three streams, so that a step need not wait for the one before: one says where may be written
// to, one sends, and one waits for what arrives. Copies of one piece are large: 512 MiB in pieces of 8 MiB go at 341
// GB/s between two H200s, in one piece at 391, in however many streams.

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/parallel/peer.h"
#include "properties/process/cuda_driver.h"
#include "tools/parallel/gpu_driver.h"

namespace mxcheck {

class GpuPeerMemory final : public mxcheck_kernels::parallel::PeerMemory {
 public:
  // Allocations that are shown are of whole pages of the GPU: others would be shown with them.
  static constexpr std::uint64_t kPage = std::uint64_t{2} << 20;

  // lane: the stream that waits for what arrives.
  GpuPeerMemory(CudaDevice& cuda, const MoreOfDriver& driver, CudaHandle lane);

  // The streams of the lane beside that one.
  [[nodiscard]] std::array<CudaHandle, 2> streams() const { return {says_, sends_}; }
  // True: other ranks may have this memory open, and it is given back later.
  bool keeps(CudaPointer memory);
  // Nothing waits for a word of these any more.
  void release_waits(std::uint32_t* words, std::uint64_t count) noexcept;
  [[nodiscard]] std::vector<std::uint32_t> read(const std::uint32_t* words, std::uint64_t count);

  [[nodiscard]] std::string host() const override;
  Shown show(const void* inside) override;
  std::byte* open(const std::string& key) override;
  void close(std::byte* opened) noexcept override;
  void all_closed() override;
  void copy(const mxcheck_kernels::parallel::PeerCopy& here) override;
  void write(std::uint32_t* word, std::uint32_t value) override;
  void wait(int peer, const std::uint32_t* word, std::uint32_t value, std::string_view step) override;
  void push(std::span<const mxcheck_kernels::parallel::PeerPush> pushes, std::uint32_t value,
            std::string_view step) override;

 private:
  void wait_in(CudaHandle stream, const std::uint32_t* word, std::uint32_t value) const;
  void write_in(CudaHandle stream, std::uint32_t* word, std::uint32_t value) const;

  CudaDevice& cuda_;
  const MoreOfDriver& driver_;
  CudaHandle lane_;
  CudaHandle says_ = nullptr, sends_ = nullptr;
  CudaHandle control_ = nullptr;  // for what must not wait for the lane
  std::set<CudaPointer> shown_;
  std::vector<CudaPointer> kept_;
};

}  // namespace mxcheck
