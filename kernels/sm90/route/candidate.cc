// The table of router operations.

#include "kernels/candidate.h"

#include <array>
#include <cstdint>

#include "kernels/common/boundary.h"
#include "kernels/sm90/route/metadata/metadata.h"
#include "kernels/sm90/route/route.h"
#include "kernels/sm90/route/router.h"
#include "kernels/sm90/route/token_rounding/token_rounding.h"

namespace mxcheck_kernels::sm90 {
namespace {

// An operation of this name: kCheck says what is offered, kRun runs it, kWorkspace says how many bytes it needs.
template <auto kCheck, auto kRun, auto kWorkspace>
constexpr mxcheck_operation operation(const char* name) {
  mxcheck_operation o = make_cuda_operation<kCheck, kRun, kWorkspace>(name);
  o.max_rows = INT32_MAX, o.max_cols = kMostExperts;
  return o;
}

constexpr std::array kOperations{
    operation<route_supports, route_run, route_workspace>("route"),
    operation<token_rounding_supports, token_rounding_run, token_rounding_workspace>("route_round"),
    operation<metadata_supports, metadata_run, metadata_workspace>("route_metadata"),
    operation<backward_supports, backward_run, backward_workspace>("route_backward"),
};

constexpr mxcheck_candidate_table kTable = make_table("sm90_route", MXCHECK_SM90_VERSION, kDLCUDA, kOperations);

}  // namespace
}  // namespace mxcheck_kernels::sm90

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  return &mxcheck_kernels::sm90::kTable;
}
