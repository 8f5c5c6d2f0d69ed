#pragma once
// Rows of tokens copied to where their experts' rows are, as steps "gather ...".
//
// GEMMs can read rows of tokens through row_token instead (gemm/matmul.h), and it is slower: a row that is
// gathered costs the tensor cores' pipeline more than its copy costs memory (docs/performance_log.md, whole layers).

#include "kernels/sm90/moe/gather.h"
#include "kernels/sm90/moe/steps/builder.h"

namespace mxcheck_kernels::sm90 {

// scales: of codes; its rows have no bytes where there are none.
void add_gather(MoeBuilder& b, const char* name, const GatherRows& values, const GatherRows& scales);

}  // namespace mxcheck_kernels::sm90
