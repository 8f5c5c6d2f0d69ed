#pragma once
// Indices from begin to one before end, of rows, columns or k.

#include <cstdint>

namespace mxcheck {

struct Extent {
  std::int64_t begin;
  std::int64_t end;
};

}  // namespace mxcheck
