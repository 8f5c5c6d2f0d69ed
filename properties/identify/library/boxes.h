#pragma once
// Operations of a candidate as black boxes, a policy at a time; properties/identify/library/library.h has the whole. A
// new operation is identified when it has a row of box_kinds(), and says by Operation::identified_as which variants are
// asked.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "properties/core/operation.h"
#include "properties/identify/product.h"

namespace mxcheck {

// The gate's own cases of equality of a policy whose probes the declared definition explains: the corners of its
// statements, cases that meet each bin of its domain, and random ones, at most a second of the reference's time.
struct CornerReport {
  std::int64_t cases = 0;
  std::int64_t words = 0;
  std::set<std::string> shapes = {};
  std::optional<Finding> finding = {};  // of the first that differs
  std::string failing = {};             // that case
};

// The definitions that one policy of a library follows.
struct PolicyReport {
  std::string operation;  // as in the candidate's table
  std::string policy;     // as a case's text has it: "op=matmul:sm90_fp8 format=e4m3 ..."
  std::optional<Match> match;
  // The scale bytes alone, and the elements under whatever scales they have, of a quantization that no recipe explains.
  std::optional<Match> scales;
  std::optional<Match> elements;
  std::optional<TreeReport> order;
  std::optional<CornerReport> corners;
  bool ended = false;   // a call crashed or did not return
  std::string trouble;  // why there is no answer, or none to all that was asked

  [[nodiscard]] bool holds() const {
    return match && match->holds() && trouble.empty() && !(corners && corners->finding);
  }
};

struct LibraryQuestion {
  std::string op;    // matmul, quantize, cast, scale, route; empty: all but scale
  std::string only;  // policies whose text has this
  bool always_tree = false;
  std::int64_t k = 384;       // of products: three intervals of 128, so that their order shows
  std::int64_t tree_k = 128;  // of the sums whose tree is looked for
};

// A word of --op: how a policy of these operations is identified.
struct BoxKind {
  std::string_view word;
  std::vector<std::string_view> operations;
  void (*identify)(CandidateRunner& runner, const Variant& v, const LibraryQuestion& question, PolicyReport& report);
  bool scales_alone = false;  // of outputs: the gate's cases are not posed
};
// The first one with an operation is that of a question without --op.
const std::vector<BoxKind>& box_kinds();

}  // namespace mxcheck
