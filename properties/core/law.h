#pragma once
// Laws that hold whatever the reference says: the outputs of a candidate's calls are held against each other, or
// against the inputs.

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "properties/core/check.h"

namespace mxcheck {

// A case of a law, as its calls are made and compared. What ends it before its own end is thrown as a verdict, which
// law_check() returns.
class Law {
 public:
  using Outputs = std::vector<Bytes>;
  struct Verdict {
    std::optional<Finding> finding;
  };

  explicit Law(CheckContext& context) : context_(context) {}
  [[nodiscard]] CheckContext& context() const { return context_; }

  // The outputs of a call; one that found something, or that is not offered, ends the law.
  [[nodiscard]] Outputs outputs(const Problem& problem) const {
    CallOutputs got = run_problem(context_, problem);
    if (!got.usable()) throw Verdict{propagate(context_, got)};
    return std::move(got.outputs);
  }
  void equal(const TensorInfo& info, std::span<const std::byte> expected, std::span<const std::byte> observed,
             const std::string& summary) const {
    if (auto finding = differ(info, expected, observed, summary)) throw Verdict{std::move(finding)};
  }
  // All outputs of a problem; the summary is "NAME of_others".
  void all_equal(const Problem& p, const Outputs& expected, const Outputs& observed, const std::string& summary) const {
    for (std::size_t i = 0; i < p.outputs.size(); ++i)
      equal(p.outputs[i], expected[i], observed[i], p.outputs[i].name + " " + summary);
  }
  [[noreturn]] void says_nothing() const { throw Verdict{not_applicable(context_)}; }
  // Without a tensor to compare with: the sentence says what is broken.
  [[noreturn]] static void broken(std::string summary) {
    Finding finding;
    finding.kind = FindingKind::mismatch;
    finding.summary = std::move(summary);
    throw Verdict{std::move(finding)};
  }
  // A sentence about what is broken, or none.
  static void holds(std::string problem) {
    if (!problem.empty()) broken(std::move(problem));
  }

 private:
  CheckContext& context_;
};

using LawCheck = void(const Law&, const Case&);

// The check of a statement.
inline std::function<std::optional<Finding>(CheckContext&, const Case&)> law_check(LawCheck* check) {
  return [check](CheckContext& context, const Case& c) -> std::optional<Finding> {
    try {
      check(Law(context), c);
    } catch (Law::Verdict& verdict) {
      return std::move(verdict.finding);
    }
    return std::nullopt;
  };
}

// A statement about drawn cases. experts: percent of them with expert offsets.
inline Statement law_statement(std::string_view name, std::string_view sentence, std::string_view source,
                               std::function<bool(const Variant&, std::span<const Variant>)> applies,
                               std::vector<Data> data, int experts, bool strides, LawCheck* check) {
  return {name, sentence, source, std::move(applies), std::move(data), experts, strides, law_check(check)};
}

}  // namespace mxcheck
