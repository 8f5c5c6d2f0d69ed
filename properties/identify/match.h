#pragma once
// Answers of a black box as words, for the matcher of properties/core/definitions.h.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "numerics/format/format.h"
#include "properties/core/definitions.h"

namespace mxcheck {

// One tensor of an answer: words of `format`, or integers.
struct AnswerPart {
  std::string name;
  std::optional<Format> format;
  std::vector<std::uint32_t> words;
  std::int64_t cols = 1;
  bool any_nan = false;  // any two NaNs are equal
};
using BoxAnswer = std::vector<AnswerPart>;

struct BoxDefinition {
  std::string name;
  std::function<BoxAnswer(std::size_t probe)> answer;
};

Match match_answers(std::span<const std::string> probes, std::span<const BoxAnswer> answers,
                    std::span<const BoxDefinition> definitions, const std::string& declared = "");

}  // namespace mxcheck
