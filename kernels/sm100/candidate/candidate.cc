// The table: one matmul.

#include "kernels/candidate.h"

#include <array>
#include <cstdint>

#ifdef MXCHECK_SM100_ON_CARD
  #include <string>

  #include "emulation/on_sm90/launch.h"
#endif
#include "kernels/common/boundary.h"
#include "kernels/sm100/candidate/body.h"
#include "kernels/sm100/candidate/run.h"

namespace mxcheck_kernels::sm100 {
namespace {

constexpr mxcheck_operation matmul() {
  mxcheck_operation o = make_operation<check_scaled, run_scaled>("matmul", "sm100_mxf8f6f4");
  o.max_rows = kMostRows, o.max_cols = kMostCols;
  o.workspace = [](const mxcheck_call* call, std::uint64_t* bytes) {
    return guarded<sizeof(mxcheck_call)>(call, [bytes](const mxcheck_call& c) { *bytes = scaled_workspace(c); });
  };
  return o;
}

constexpr std::array kOperations{matmul()};
constexpr mxcheck_candidate_table kTable = make_table(kName, MXCHECK_SM100_EMULATED_VERSION, kDLCPU, kOperations);

}  // namespace
}  // namespace mxcheck_kernels::sm100

#ifdef MXCHECK_SM100_ON_CARD
extern "C" __attribute__((visibility("default"))) const char* mxcheck_candidate_refusal(void) {
  static const std::string refusal = mxcheck::emulation::on_sm90::card_refusal();
  return refusal.c_str();
}
extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return *mxcheck_candidate_refusal() == 0 ? &mxcheck_kernels::sm100::kTable : nullptr;
}
#else
extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_kernels::sm100::kTable;
}
#endif
