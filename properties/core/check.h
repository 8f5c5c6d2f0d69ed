#pragma once
// Helpers shared by the checks of statements: running a problem, comparing its outputs, judging a refusal.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "properties/core/ahead.h"
#include "properties/core/operation.h"

namespace mxcheck {

inline constexpr std::uint8_t kPoisons[] = {0xA5, 0x3C};

std::unique_ptr<Problem> make_problem(const Case& c);

// Inputs that any operation may have; pointers into the vectors.
CallTensor offsets_tensor(const std::vector<std::int64_t>& offsets);
CallTensor index_tensor(const std::vector<std::int32_t>& index);

// Runs the candidate; a finding if it crashed, hung, refused or wrote out of bounds, else outcome is set. UNSUPPORTED
// for a case that asks for an option (Operation::is_option) is an option not offered: outcome stays empty, and so does
// finding.
struct CallVerdict {
  std::optional<Outcome> outcome;
  std::optional<Finding> finding;
};
CallVerdict run_checked(CandidateRunner& process, const Call& call, const Case& c);
// The meaning of a call's outcome, as run_checked() returns it; a call that crashed or hung was not repeated.
CallVerdict judged(Outcome outcome, const Case& c);

// The case's problem and the reference's answer: those that were computed ahead, or computed now.
ProblemAndAnswer problem_and_answer_of(CheckContext& context, const Case& c);

// The outputs of a run, or the finding that stopped it, or neither: not offered.
struct CallOutputs {
  std::vector<std::vector<std::byte>> outputs;
  bool are_the_answer = false;  // to the byte, and not in `outputs`
  std::optional<Finding> finding;
  bool offered = true;
  bool outside_limits = false;  // the candidate does not claim shapes like this one
  [[nodiscard]] bool usable() const { return offered && !finding; }
};
// The workspace's fill is that of the case and the poison.
WorkspaceFill workspace_of(const Case& c, std::uint8_t poison);
// answer: the problem's, for one who compares with it; outputs that are these need not be brought.
CallOutputs run_problem(CheckContext& context, const Problem& problem, std::uint8_t poison = kPoisons[0],
                        const std::vector<ExpectedTensor>* answer = nullptr);
CallOutputs run_call(CheckContext& context, const Call& call, const Case& c);

// A finding passed on from CallOutputs: its own, or nothing where the candidate does not offer the case.
std::optional<Finding> propagate(CheckContext& context, const CallOutputs& got);
// The return value of a check for a case that its statement says nothing about.
std::optional<Finding> not_applicable(CheckContext& context);

// A mismatch finding if the tensors differ.
std::optional<Finding> differ(const TensorInfo& info, std::span<const std::byte> expected,
                              std::span<const std::byte> observed, const std::string& summary);

// The first output that differs, explained.
std::optional<Finding> first_difference(const Problem& problem, const std::vector<ExpectedTensor>& expected,
                                        const std::vector<std::vector<std::byte>>& outputs, const std::string& of);

// Says in the finding which rows of the problem's table, or which general slips, explain the outputs of a run.
struct Explaining {
  std::uint8_t poison = kPoisons[0];                // that the outputs held before
  const std::vector<std::string>* among = nullptr;  // rows with these names alone, or parts of them; none: all
};
void tell_matches(const Problem& problem, const std::vector<ExpectedTensor>& expected,
                  const std::vector<std::vector<std::byte>>& outputs, Finding& finding, const Explaining& how = {});

// The rows, among these names, that would change an output of a case whose outputs are all right.
std::vector<std::string> rows_that_change(const Problem& problem, const std::vector<std::string>& among);

// The candidate's outputs are the reference's, over each poison; of large cases over one of them. Where the context is
// thorough, the finding has its matches.
struct EqualityOptions {
  std::int64_t one_poison_above = 100'000;           // elements
  std::optional<std::uint8_t> poison_of_large = {};  // none: one that the case's seed chooses
  std::string of = " from the reference";            // in "codes differ from the reference"
};
std::optional<Finding> equals_answer(CheckContext& context, const Problem& problem,
                                     const std::vector<ExpectedTensor>& expected, const EqualityOptions& options);

// The case's problem, so compared.
std::optional<Finding> equals_reference(CheckContext& context, const Case& c, const EqualityOptions& options);
inline std::optional<Finding> equals_the_reference(CheckContext& context, const Case& c) {
  return equals_reference(context, c, {});
}

// The candidate's outputs are those of the in-tree CPU library: it equals the reference on the same cases, and is a
// hundred times as fast.
std::optional<Finding> equals_cpu_library(CheckContext& context, const Case& c);

// Slips that any operation may have, made of a problem's own inputs and answer: where an operation's table has no row
// that explains a case, these are asked (properties/core/causes.h).
//
// Three kinds: the right outputs at other places or with other values ("the row before", "not written"); the right
// answer to other inputs ("subnormal elements of x taken for zero", "the scales of the first group for every group");
// and the right answer of another variant ("recipe=floor in place of recipe=rceil").

// outputs: of one run, whose memory held this poison before. Rows point into the problem and the outputs. The problem's
// answer is computed again by each row about inputs and variants that is asked for: none of these where that takes
// long, as it does sooner where all will be asked for than where a few will.
Table general_slips(const Problem& problem, std::span<const AnswerTensor> outputs, std::uint8_t poison,
                    bool few_are_asked);

}  // namespace mxcheck
