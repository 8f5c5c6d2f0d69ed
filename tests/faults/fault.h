#pragma once
// is(Fault::NAME): whether this copy of the library has the fault. The sources of a family see this header by -include;
// fault_names.inc is generated from the catalogue, the control first.

#include <type_traits>

#include "tests/faults/stamp.h"

namespace mxcheck_faults {

enum class Fault : int {
#define MXCHECK_FAULT(name) name,
#include "fault_names.inc"
#undef MXCHECK_FAULT
};

// No fault in constant expressions: static assertions and tables see the unchanged code.
constexpr bool is(Fault fault) { return !std::is_constant_evaluated() && stamp.number == static_cast<int>(fault); }

}  // namespace mxcheck_faults
