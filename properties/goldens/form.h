#pragma once
// Whether a candidate's tensor has the dtype and shape that a golden asks for, and what to say when not.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "goldens/format/golden.h"

namespace mxcheck {

struct Form {
  bool dtype = true;
  bool shape = true;
  bool comparable = true;  // as many elements of as many bytes: bits are compared although something else is wrong
  std::vector<std::string> notes;
};

Form form_of(const DatasetInfo& expected, const Tensor& observed);

}  // namespace mxcheck
