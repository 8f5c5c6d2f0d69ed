// The list of golden kinds; each is in the folder of its operation, but for that of any operation's cases.

#include "properties/goldens/case.h"
#include "properties/goldens/kind.h"
#include "properties/operations/layer/golden.h"
#include "properties/operations/moe/golden.h"
#include "properties/operations/nvfp4/golden.h"
#include "properties/operations/router/golden.h"
#include "properties/operations/scaled_blocks/golden.h"

namespace mxcheck {

const std::vector<const GoldenKind*>& all_golden_kinds() {
  static const std::vector<const GoldenKind*> all = [] {
    std::vector<const GoldenKind*> kinds;
    for (const auto& some : {blocks_golden_kinds(), nvfp4_golden_kinds(), router_golden_kinds(), swiglu_golden_kinds(),
                             layer_golden_kinds()})
      kinds.insert(kinds.end(), some.begin(), some.end());
    kinds.push_back(&case_golden_kind());
    return kinds;
  }();
  return all;
}

}  // namespace mxcheck
