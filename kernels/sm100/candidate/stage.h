#pragma once
// Operands and scales in the form that TMA and tcgen05 read, in the workspace; and what is to be right of a call beside
// its bits: no finding of the emulation, and no output written where there is one.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "emulation/sm100/launch.h"
#include "kernels/candidate.h"
#include "kernels/common/arguments.h"
#include "kernels/common/refusal.h"
#include "kernels/sm100/candidate/choice.h"
#include "kernels/sm100/candidate/matmul.h"
#include "kernels/sm100/gemm/pack.h"

namespace mxcheck_kernels::sm100 {

// --- findings
//
// The verdict that an emulated kernel did nothing that Blackwell forbids.

// DEVICE_ERROR with the first finding, where there is one: what Blackwell forbids makes a result worth nothing, right
// as its bits may be.
inline void require_clean(const char* kernel, const mxcheck::emulation::sm100::LaunchResult& result) {
  if (result.completed && result.findings.empty()) return;
  std::string text = std::string("emulation of ") + kernel + ": ";
  text += result.findings.empty() ? "it did not come to its end"
                                  : mxcheck::emulation::sm100::text_of(result.findings.front());
  if (result.findings.size() > 1) text += " (and " + std::to_string(result.findings.size() - 1) + " more)";
  std::ranges::replace(text, '\n', ' ');
  throw Refusal(MXCHECK_DEVICE_ERROR, text);
}

// --- outputs
//
// A copy of an output, made before a kernel writes it and put back unless keep_new(): a call that fails writes nothing.

class Saved {
 public:
  // `memory` has room for the output's bytes.
  Saved(const Checked& output, std::byte* memory) : output_(output), memory_(memory) {
    if (output.bytes != 0) std::memcpy(memory_, output_.data, output_.bytes);
  }
  Saved(const Saved&) = delete;
  Saved& operator=(const Saved&) = delete;
  ~Saved() {
    if (!kept_ && output_.bytes != 0) std::memcpy(output_.data, memory_, output_.bytes);
  }
  void keep_new() { kept_ = true; }

 private:
  Checked output_;
  std::byte* memory_;
  bool kept_ = false;
};

// --- the workspace
//
// The workspace of a matmul holds scales in chunks, copies of operands that TMA cannot read where they are, offsets of
// such copies, and what D held before, which D gets back if the emulation finds something.
//
// Where operands lie and where groups end is not known when the workspace is asked for, so that there is always room
// for the copies. Extents are 64 bits; each product is checked.

struct Workspace {
  std::int64_t pitch = 0;  // bytes of a row of the copies: whole blocks of 32, one or more
  std::uint64_t a_at = 0;
  std::uint64_t b_at = 0;
  std::uint64_t scales_a_at = 0;
  std::uint64_t scales_b_at = 0;
  std::uint64_t offsets_at = 0;
  std::uint64_t d_at = 0;
  std::uint64_t bytes = 0;
};

// By the shapes alone: data may be null. Throws Refusal: INVALID where shapes are none, UNSUPPORTED where a coordinate
// would need more than the 31 bits that TMA has for it.
Workspace plan_workspace(const mxcheck_call& call);

// --- staging

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
