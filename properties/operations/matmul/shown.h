#pragma once
// Cases whose D says something about its sums. An output that is NaN, infinite or a zero whatever was added up hides
// every wrong sum: pairs of sizes that are met by such outputs alone are met in name only.
//
//   deepest_shown(v, Data::bits)     // 128 of E4M3 without scales: one output in eight is still a number
//
// Does not promise that each output is a number: about one in eight is at the deepest k.

#include <cstdint>

#include "properties/core/case.h"

namespace mxcheck {

// The longest sum over k of such data of which enough outputs are numbers; the largest there is where length does not
// matter.
std::int64_t deepest_shown(const Variant& v, Data data);

// False where D of this many outputs, or of such deep sums, would be wasted on outputs that show none of them: NaN or
// infinities nearly everywhere, no k, or an alpha of zero. Small cases may be so.
bool shows_sums(const Case& c);

}  // namespace mxcheck
