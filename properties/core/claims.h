#pragma once
// Operations that promise no bits: outputs held to intervals, and errors compared with those of the reference. Which
// claims there are is Operation::claims(); docs/contracts.md says what each finds.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "numerics/measure/paired_errors.h"
#include "properties/core/check.h"
#include "reference/matmul/any_order.h"

namespace mxcheck {

inline constexpr std::string_view kAnyOrder = "any_order";
inline constexpr std::string_view kAsAccurateAsExact = "as_accurate_as:exact";

// An entry for each output: not 0 where the words differ; one NaN is as good as another.
std::vector<std::uint8_t> differing(const Bytes& x, const Bytes& y, Format format);

// The ranges of an output of the problem, where `wanted` asks for them; observed: all outputs of the call, of which one
// may decide what is right in another (a scale, of its codes).
using RangesOf = std::function<std::vector<OutputRange>(
    const Problem&, std::size_t output, const std::vector<Bytes>& observed, std::span<const std::uint8_t> wanted)>;
// Every output lies in its range, over each poison; of large cases over one of them. The reference's own answer does,
// so that outputs which are that need none. outside: what a finding says, with {} for the output's name.
std::optional<Finding> lies_within(CheckContext& context, const Case& c, const RangesOf& ranges,
                                   std::string_view outside);

// The distance of a word from the exact value, as a part of the magnitude that an output is made of.
double relative_error(const ExactOutput& exact, double value);

// Errors of a candidate and of the reference, over all cases of a statement: the candidate's are no larger.
//
// The chance of a set of outputs is that of PairedErrors (numerics/measure/paired_errors.h), which derives it and says
// for which candidates it holds. Sets are all outputs, and those of cases with one property in common. What is worse in
// one of them alone is not lost among the others. With s sets (known from the cases, not from what came out) each is
// tested at 10^-9 / s, so that a candidate as accurate as the reference fails in at most one run of 10^9; one that has
// the reference's bits, or never a larger error, fails in none. Errors that are added must be independent.
class ErrorTally final : public RunTally {
 public:
  // output: "D", "o"; measure: errors are parts of this, "the sum of magnitudes".
  ErrorTally(std::string output, std::string measure) : output_(std::move(output)), measure_(std::move(measure)) {}

  // One output's errors; their difference may be `off` from that of the exact ones. sets: beside those that the text of
  // the case's variant and its data make.
  void add(const Case& c, const std::vector<std::string>& sets, double candidate, double reference, double off);
  // The same from words of the output's format. Nothing is said of values that are not finite.
  void add(const Case& c, const std::vector<std::string>& sets, const ExactOutput& exact, double candidate,
           double reference);

  [[nodiscard]] Conclusion conclusion() const override;

 private:
  [[nodiscard]] std::string counts_text(const PairedErrors& p) const;
  [[nodiscard]] Finding finding(const std::pair<const std::string, PairedErrors>& least, const PairedErrors& all,
                                double log_level) const;

  std::string output_, measure_;
  std::map<std::string, PairedErrors> sets_;
  double most_ = 0;
  Case example_;
};

}  // namespace mxcheck
