#pragma once
// A GEMM's tensors on the card: copies of the host's, with bytes around D that nobody may write.

#include <cstddef>
#include <cstdint>

#include "emulation/sm100/launch.h"
#include "kernels/sm100/gemm/params.h"

namespace mxcheck::sm100::gemm::on_sm90 {

class Tensors {
 public:
  // Copies what a launch reads, and D, which a launch may leave in part as it is. Throws Error{environment} where CUDA
  // fails.
  explicit Tensors(const Problem& problem);

  // The problem, with pointers of the card.
  [[nodiscard]] const Problem& on_card() const { return card_; }

  // D, back on the host. Bytes around it that were written are a finding.
  void take(emulation::sm100::LaunchResult& result) const;

 private:
  Problem host_;
  Problem card_;
  std::size_t d_bytes_ = 0;
};

}  // namespace mxcheck::sm100::gemm::on_sm90
