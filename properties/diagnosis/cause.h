#pragma once
// Why a candidate's bytes are what they are: hypotheses, each a fault in plain words and the bytes that it would give,
// held against what was observed.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

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

// How much of what is wrong a hypothesis explains, and how much of what is right it contradicts.
struct Fit {
  std::int64_t wrong = 0;         // elements that differ from the expected
  std::int64_t explained = 0;     // of these, as the hypothesis has them
  std::int64_t contradicted = 0;  // right elements that the hypothesis has otherwise
  [[nodiscard]] bool exact() const { return wrong > 0 && explained == wrong && contradicted == 0; }
  // Half of what is wrong, and hardly anything that is right: less is no cause.
  [[nodiscard]] bool likely() const { return 2 * explained >= wrong && 10 * contradicted <= explained; }
};

Fit fit_of(const Observed& data, std::span<const std::byte> bytes);

// Lines about the hypotheses that explain everything, or else about the best of the likely ones; at most `most`, in the
// order given. Those that give the same bytes are one cause: "recipe floor (the same here: recipe ocp)". A derived
// one that explains everything is the only one.
std::vector<std::string> likeliest_causes(const Observed& data, const std::vector<Hypothesis>& hypotheses,
                                          const std::string& unit, std::size_t most = 5);

// "from element 1234 on everything is 0x00: not written?", when that holds for most of what is wrong.
std::vector<std::string> constant_tail(const Observed& data, const std::string& unit);

}  // namespace mxcheck
