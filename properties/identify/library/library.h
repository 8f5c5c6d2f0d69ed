#pragma once
// The definitions that each policy of a candidate library (kernels/candidate.h) follows, whether declared or not:
// docs/identify.md.
//
//   CandidateProcess process(own_executable(), "libmine.so", std::chrono::seconds(20));
//   const LibraryReport r = identify_library(process, {}, [](const PolicyReport& p) { print(to_text(p)); });
//   summary_text(r);
//
// The library runs in a process of its own, as under the gate. One that crashes, does not return or refuses is
// reported, and the next policy is asked in a fresh process; an operation that has done so three times is not asked any
// more.
//
// Errors: Error{usage} for an operation that is none. Does not promise: groups, biases, offsets, layouts of scales,
// alpha and C, and operations other than products, quantizations, casts and token choice.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "goldens/json/json.h"
#include "properties/core/operation.h"
#include "properties/identify/product.h"
#include "properties/process/candidate_process.h"

namespace mxcheck {

// Operations of a candidate as black boxes, a policy at a time; properties/identify/library/library.h has the whole. A
// new operation is identified when it has a row of box_kinds(), and says by Operation::identified_as which variants are
// asked.

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

struct LibraryReport {
  CandidateInfo candidate;
  std::size_t offered = 0;  // variants
  std::vector<PolicyReport> policies;
  std::vector<std::string> not_asked;  // operations of the table, and why

  [[nodiscard]] std::size_t holding() const;
  [[nodiscard]] std::size_t ended() const;
};

LibraryReport identify_library(CandidateProcess& process, const LibraryQuestion& question,
                               const std::function<void(const PolicyReport&)>& each = {});

// Error{usage} for an operation that is none.
void check_operation(const LibraryQuestion& question);

// The candidate in a line; a policy in a line where what it declares holds, else with all that was found; all together.
std::string header_text(const CandidateInfo& candidate);
std::string to_text(const PolicyReport& report);
std::string summary_text(const LibraryReport& report);
// {"candidate": {...}, "policies": [{"operation", "policy", "holds", "ended", "trouble", "match", "scales",
// "elements"}], ...}
Json to_json(const LibraryReport& report);

// One call of a candidate with inputs of one's own: a case of zeros is posed as the gate poses it, its inputs are
// replaced, and what comes back is read.
//
//   Posing p(process, variant, 16, 16, [](Case& c) { matmul_case(c).depth = 128; });
//   p.set(0, Format::e4m3, codes, 16, 128);
//   p.run();
//   p.words(0, 16, 16);
//
// A matrix that is smaller than the case's is padded below and to the right.
//
// Errors: CallFailed for a candidate that crashes, does not return, refuses, or does what no call may.

struct CallFailed {
  bool ended = false;  // crashed or did not return
  std::string what;
};

class Posing {
 public:
  // Extents are raised to the multiples that the candidate's operation takes. CallFailed where its limits are smaller.
  Posing(CandidateRunner& runner, const Variant& variant, std::int64_t rows, std::int64_t cols,
         const std::function<void(Case&)>& edit = {});
  [[nodiscard]] const Case& posed() const { return problem_->c; }

  // Input number `input`, whose elements are words of this type; what is padded holds `fill`.
  void set(std::size_t input, Format type, const std::vector<std::uint32_t>& words, std::int64_t rows,
           std::int64_t cols, std::uint32_t fill = 0);
  void run();
  // The upper left of an output; its type.
  [[nodiscard]] std::vector<std::uint32_t> words(std::size_t output, std::int64_t rows, std::int64_t cols) const;
  [[nodiscard]] Format type(std::size_t output) const { return call_.outputs[output].dtype; }

 private:
  CandidateRunner& runner_;
  std::unique_ptr<Problem> problem_;
  Call call_;
  std::vector<std::vector<std::byte>> outputs_;
};

}  // namespace mxcheck
