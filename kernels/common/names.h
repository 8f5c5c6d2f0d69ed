#pragma once
// A policy's name looked up in a table of what is offered.

#include <string>
#include <string_view>

#include "kernels/common/refusal.h"

namespace mxcheck_kernels {

// The entry of `table` of this name, among those that offered(entry) holds for. Throws Refusal: INVALID for null,
// UNSUPPORTED for another name; both messages list what is offered. `field` is the policy's, `what` the name's kind.
template <class Table, class Offered>
const auto& entry_named(const Table& table, const char* what, const char* field, const char* name,
                        const Offered& offered) {
  std::string all;
  for (const auto& entry : table) {
    if (!offered(entry)) continue;
    if (name != nullptr && entry.name == std::string_view(name)) return entry;
    all += (all.empty() ? "" : ", ") + std::string(entry.name);
  }
  if (name == nullptr) invalid("policy." + std::string(field) + " is null: must be one of " + all);
  unsupported(std::string(what) + " " + name + " is not offered: offered are " + all);
}

}  // namespace mxcheck_kernels
