#pragma once
// The fields of matmul (kernels/candidate_matmul.h), whose operation is "matmul:" and its contract. m is rows, n cols,
// k depth; experts are offsets along rows or depth:
//
//   op=matmul:sm90_fp8+promote128 format=e4m3 format_b=e5m2 block=1x128 block_b=128x128 scales=e8m0 groups=rows d=bf16
//   rows=3 cols=33 depth=256 experts=0,1,3 data=normal seed=7;  optional: gather=50 adds=1 alpha=0.5 cancels=16
//
// Masked groups have no experts and no gather, but counts: groups=masked rows=24 counts=3,0,8 are three of capacity 8.

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/candidate_matmul.h"
#include "kernels/candidate_nvfp4.h"
#include "numerics/format/format.h"
#include "properties/core/case.h"
#include "reference/common/matrix.h"

namespace mxcheck {

struct MatmulVariant {
  Format format = Format::e4m3;  // of A
  Format format_b = Format::e4m3;
  BlockShape block{0, 0};  // of A's scales; 0 x 0 where there are none
  BlockShape block_b{0, 0};
  int scales = MXCHECK_NO_SCALES;  // mxcheck_scale_type, or MXCHECK_E4M3
  int groups = MXCHECK_DENSE;      // mxcheck_grouping
  friend bool operator==(const MatmulVariant&, const MatmulVariant&) = default;
};
struct MatmulCase {
  std::int64_t depth = 0;
  bool adds = false;  // C
  float alpha = 1;
  std::vector<std::int64_t> counts;  // rows of each masked group, 0 to its capacity
  std::int64_t cancels = 0;          // the distance along k of products that cancel one another; 0 where none are to
  // By alpha's bits: a NaN is itself, and -0 is not 0.
  friend bool operator==(const MatmulCase& a, const MatmulCase& b) {
    const auto same_alpha = std::bit_cast<std::uint32_t>(a.alpha) == std::bit_cast<std::uint32_t>(b.alpha);
    return a.depth == b.depth && a.adds == b.adds && same_alpha && a.counts == b.counts && a.cancels == b.cancels;
  }
};

inline const MatmulVariant& matmul_of(const Variant& v) { return v.own.get<MatmulVariant>(); }
inline MatmulVariant& matmul_of(Variant& v) { return v.own.edit<MatmulVariant>(); }
inline const MatmulCase& matmul_case(const Case& c) { return c.own.get<MatmulCase>(); }
inline MatmulCase& matmul_case(Case& c) { return c.own.edit<MatmulCase>(); }

// By mxcheck_scale_type and MXCHECK_E4M3, and by mxcheck_grouping.
inline constexpr std::array<std::string_view, 4> kScaleTypes{"none", "e8m0", "fp32", "e4m3"};
inline constexpr std::array<std::string_view, 4> kGroupings{"none", "rows", "depth", "masked"};

inline Format scale_format(const MatmulVariant& v) {
  return v.scales == MXCHECK_FP32 ? Format::fp32 : v.scales == MXCHECK_E4M3 ? Format::e4m3 : Format::e8m0;
}
// Two codes a byte.
inline bool is_packed(const MatmulVariant& v) { return v.scales == MXCHECK_E4M3; }

inline bool is_masked(const Variant& v) { return matmul_of(v).groups == MXCHECK_MASKED; }
// Groups of the case; 1 of a dense one.
inline std::int64_t groups_in(const Case& c) {
  const int groups = matmul_of(c.variant).groups;
  if (groups == MXCHECK_DENSE) return 1;
  return groups == MXCHECK_MASKED ? static_cast<std::int64_t>(matmul_case(c).counts.size())
                                  : static_cast<std::int64_t>(c.experts.size()) - 1;
}
// Matrices B, one below the other.
inline std::int64_t matrices_in(const Case& c) {
  return matmul_of(c.variant).groups == MXCHECK_DEPTH ? 1 : groups_in(c);
}
inline std::int64_t capacity_in(const Case& c) {  // of masked groups
  return matmul_case(c).counts.empty() ? 0 : c.rows / groups_in(c);
}

inline bool is_matmul(std::string_view operation) { return operation.starts_with("matmul:"); }
inline std::string_view contract_text(std::string_view operation) {
  return operation.substr(std::string_view("matmul:").size());
}

}  // namespace mxcheck
