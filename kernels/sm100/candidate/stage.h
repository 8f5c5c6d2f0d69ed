#pragma once
// Operands and scales in the form that TMA and tcgen05 read, in the workspace.

#include <cstddef>
#include <cstdint>

#include "emulation/sm100/launch.h"
#include "kernels/sm100/candidate/choice.h"
#include "kernels/sm100/candidate/matmul.h"
#include "kernels/sm100/candidate/workspace.h"
#include "kernels/sm100/scales/pack.h"

namespace mxcheck_kernels::sm100 {

// How every kernel of a call is emulated.
inline mxcheck::emulation::sm100::LaunchOptions options_of(const MatmulShape& shape) {
  using Schedule = mxcheck::emulation::sm100::Schedule;
  constexpr Schedule kSchedules[] = {Schedule::random, Schedule::eager, Schedule::lazy};
  const std::uint64_t seed = seed_of(shape);
  return {.schedule = kSchedules[kEverySchedule ? seed % 3 : 0], .seed = seed, .strict = true};
}

struct Staging {
  const MatmulTensors& x;
  MatmulShape shape;
  Workspace plan;
  std::byte* workspace;
  mxcheck::sm100::scales::Groups depth;  // of k: one where there are none

  template <class T>
  [[nodiscard]] T* at(std::uint64_t byte) const {
    return reinterpret_cast<T*>(workspace + byte);
  }
};

Staging make_staging(const MatmulTensors& x, const MatmulShape& shape, const Workspace& plan, void* workspace);

// Packs the scales of both operands, and copies the operands where they cannot be read in place; groups of k begin
// elsewhere in the copies. Of a problem that is otherwise complete.
void stage(const Staging& s, mxcheck::sm100::gemm::Problem& g);

}  // namespace mxcheck_kernels::sm100
