#pragma once
// Formats of codes and types of values that the in-tree libraries know, and their DLPack types.

#include <cstdint>

#include "kernels/candidate.h"

namespace mxcheck_kernels {

enum class Element : std::uint8_t { e4m3, e5m2 };
enum class Dtype : std::uint8_t { bf16, fp32 };

inline constexpr DLDataType kByteType{kDLUInt, 8, 1};
inline constexpr DLDataType kInt32Type{kDLInt, 32, 1};
inline constexpr DLDataType kInt64Type{kDLInt, 64, 1};
inline constexpr DLDataType kFp32Type{kDLFloat, 32, 1};
inline constexpr DLDataType kBf16Type{kDLBfloat, 16, 1};

constexpr bool same(DLDataType a, DLDataType b) { return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes; }

constexpr DLDataType dl_type(Dtype dtype) { return dtype == Dtype::bf16 ? kBf16Type : kFp32Type; }

// Throw Refusal: INVALID for no name, UNSUPPORTED for another than these. `values` is what the message calls them.
Element element_named(const char* name);
Dtype dtype_of(const char* values, DLDataType type);

}  // namespace mxcheck_kernels
