#pragma once
// Faults in a narrow part of the domain: what each is wrong about, and where.

#include <span>
#include <string_view>

#include "tests/narrow/view.h"

namespace narrow {

struct Fault {
  std::string_view name;
  std::string_view operation;  // as in fnmatch
  void (*after)(const View&);  // spoils what a right library wrote
  // Where not null: the call that the right library gets instead.
  void (*before)(View&, mxcheck_route_policy&) = nullptr;
};

std::span<const Fault> quantize_faults();
std::span<const Fault> matmul_faults();
std::span<const Fault> route_faults();
std::span<const Fault> own_faults();

}  // namespace narrow
