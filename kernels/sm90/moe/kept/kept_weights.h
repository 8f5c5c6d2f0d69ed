#pragma once
// Weights that are kept between calls (kernels/candidate_kept_weights.h): a header at the front of the caller's memory,
// and behind it what the pass computes of W1 and W2, in the form in which its GEMMs read it.
//
// Memory: KeptHeader in 256 bytes; then codes and scales of W1, and of W2, as MoeCoder and round_weights have them,
// each at a multiple of 256 bytes.
//
// Does not: notice that codes were overwritten. The header says which layer they are of, and the digests which weights.

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/candidate_kept_weights.h"
#include "kernels/sm90/layer/steps/plan.h"

namespace mxcheck_kernels::sm90 {

// Every value is compared but the digests, which a check alone compares.
struct KeptLayer {
  static constexpr std::uint64_t kMark = 0x31'6B'65'70'74'20'77'00;  // of this order of the memory

  std::uint64_t mark = kMark;
  std::uint64_t pass = 0;    // 2 for the backward pass, and 1 for gate and up interleaved
  std::uint64_t recipe = 0;  // digest of its name
  std::int64_t cols = 0;
  std::int64_t inner = 0;
  std::int64_t experts = 0;
};
struct KeptHeader {
  KeptLayer layer;
  unsigned long long digests[2];  // of W1 and W2: kernels/common/digest.h, words of 8 bytes
};
inline constexpr std::int64_t kKeptHeaderBytes = 256;
static_assert(sizeof(KeptHeader) <= kKeptHeaderBytes);

// Nothing is written, and nothing is done, unless plan->status is MXCHECK_OK.
struct KeptJob {
  KeptLayer layer;
  KeptHeader* header = nullptr;           // of the memory
  unsigned long long* digests = nullptr;  // two in the workspace, of the weights as they are now; null: not compared
  PlanHeader* plan = nullptr;
  mxcheck_device_report* report = nullptr;
};

// Before weights are written: the header becomes that of no layer, and digests 0.
cudaError_t launch_begin_keeping(const KeptJob& job, cudaStream_t stream);
// Writes the header with the digests, after all else that the memory holds: whatever ends a call in between, the header
// vouches for no weights that are not there.
cudaError_t launch_write_kept_header(const KeptJob& job, cudaStream_t stream);
// Sets digests to 0.
cudaError_t launch_begin_digests(const KeptJob& job, cudaStream_t stream);
// Another layer, or other digests: plan->status becomes MXCHECK_INVALID, and the report says so.
cudaError_t launch_check_kept_header(const KeptJob& job, cudaStream_t stream);

// Adds the digest of `elements` numbers to *digest: a multiple of 8 of them, at a multiple of 16 bytes.
cudaError_t launch_digest(const std::uint16_t* w, std::int64_t elements, unsigned long long* digest,
                          const PlanHeader* plan, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
