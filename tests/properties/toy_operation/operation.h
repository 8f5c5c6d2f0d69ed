#pragma once
// An operation of one's own, as an example: multiply, y = factor * x in FP32. Everything that mxcheck has to know of it
// is in this folder (docs/extending.md).
//
//   op=multiply x=fp32 rows=3 cols=5 data=normal seed=7 factor=2

#include "properties/core/operation.h"

namespace mxcheck {

// The field that cases of multiply have beside those of every operation. Its variants have none.
struct MultiplyCase {
  float factor = 2;
  friend bool operator==(const MultiplyCase&, const MultiplyCase&) = default;
};
inline const MultiplyCase& multiply_case(const Case& c) { return c.own.get<MultiplyCase>(); }
inline MultiplyCase& multiply_case(Case& c) { return c.own.edit<MultiplyCase>(); }

// The operation and the statement about it. In mxcheck itself, a line of properties/operations/registry.cc.
OperationModule multiply_module();

}  // namespace mxcheck
