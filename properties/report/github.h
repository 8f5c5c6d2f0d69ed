#pragma once
// A run for GitHub Actions: annotations, which the runner reads from a step's output, and the summary of a step.

#include <cstddef>
#include <string>
#include <string_view>

#include "properties/gate/gate.h"

namespace mxcheck {

// A step shows ten errors and ten warnings.
inline constexpr std::size_t kMostAnnotations = 10;

// Lines "::error title=STATEMENT,file=...,line=...::TEXT": one a failed statement, with its counterexample; "::warning"
// for inconclusive ones, "::notice" with the verdict where all is well. Those beyond kMostAnnotations are named in the
// last one. Without file and line where report.source is empty.
std::string github_annotations(const GateReport& report);

// GitHub's Markdown, of at most 64 KiB; counterexamples that do not fit are named. Every text is shown as it is,
// whoever wrote it.
std::string github_summary(const GateReport& report);

// ASCII punctuation as entities, so that Markdown sees none; other bytes as escaped_markup has them.
std::string escaped_markdown(std::string_view text);

}  // namespace mxcheck
