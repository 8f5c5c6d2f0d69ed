#pragma once
// Why a candidate's bytes are what they are: hypotheses, each a fault in plain words and the bytes that it would give,
// held against what was observed.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "properties/core/definitions.h"

namespace mxcheck {

// The expected and the observed bytes of a dataset, with elements of `width` bytes each.
struct Observed {
  std::span<const std::byte> expected;
  std::span<const std::byte> observed;
  std::size_t width = 1;
};

struct Hypothesis {
  std::string text;                               // what there is in place of the right thing: "ties away from zero"
  std::function<std::vector<std::byte>()> bytes;  // of the expected size; anything else means: not applicable
  // Not a fault of this dataset: what follows, rightly, from another one that is wrong. The text is then the whole
  // line.
  bool derived = false;
};

std::vector<std::string> likeliest_causes(const Observed& data, const std::vector<Hypothesis>& hypotheses,
                                          const std::string& unit, std::size_t most = 5);
std::vector<std::string> constant_tail(const Observed& data, const std::string& unit);

}  // namespace mxcheck
