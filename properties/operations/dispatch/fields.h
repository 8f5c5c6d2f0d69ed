#pragma once
// The fields of expert parallelism's communication, "dispatch" and "combine" (kernels/candidate_dispatch.h):
//
//   op=dispatch x=e4m3 rows=20 cols=130 ranks=0,7,7,20 homes=turns num=8 k=3 drops=10 hot=50 capacity=4 data=slots
//   seed=7 op=combine x=bf16 weighted=1 rows=20 cols=64 ranks=0,20 homes=blocks num=3 k=2 data=normal seed=7 optional:
//   drops=10 hot=50 capacity=4
//
// Rows are the tokens of all ranks, ranks the offsets of each rank's. num experts live where `homes` says: in blocks of
// neighbours, one after another in turns, scattered, or all on one rank. A token has up to k slots of different
// experts; drops is the percentage of the slots that the router dropped, hot that of the tokens whose first slot is of
// one and the same expert. x is the type of the rows: codes where it is none of BF16.

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/candidate_dispatch.h"
#include "properties/core/case.h"

namespace mxcheck {

enum class Homes : std::uint8_t { blocks, turns, scattered, one };

struct DispatchVariant {
  bool weighted = false;  // combine
  friend bool operator==(const DispatchVariant&, const DispatchVariant&) = default;
};
struct DispatchCase {
  std::vector<std::int64_t> ranks;  // offsets of the tokens of each rank
  Homes homes = Homes::blocks;
  std::int64_t experts = 1;
  std::int64_t k = 1;
  int drops = 0;
  int hot = 0;
  std::int64_t capacity = 0;
  std::optional<std::int64_t> routed;  // of a call that was read; that of a drawn case follows from its routes
  friend bool operator==(const DispatchCase&, const DispatchCase&) = default;
};

inline const DispatchVariant& dispatch_of(const Variant& v) { return v.own.get<DispatchVariant>(); }
inline DispatchVariant& dispatch_of(Variant& v) { return v.own.edit<DispatchVariant>(); }
inline const DispatchCase& dispatch_case(const Case& c) { return c.own.get<DispatchCase>(); }
inline DispatchCase& dispatch_case(Case& c) { return c.own.edit<DispatchCase>(); }

inline bool is_dispatch(const Variant& v) { return v.operation == "dispatch"; }
// Whatever claim it is held to.
inline bool is_combine(const Variant& v) { return is_operation(v.operation, "combine"); }
inline bool has_coded_rows(const Variant& v) { return v.dtype != Format::bf16; }

inline std::int64_t ranks_of(const Case& c) {
  const std::vector<std::int64_t>& ranks = dispatch_case(c).ranks;
  return ranks.empty() ? 1 : static_cast<std::int64_t>(ranks.size()) - 1;
}

}  // namespace mxcheck
