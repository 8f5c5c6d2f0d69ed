#include "properties/diagnosis/cause.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace mxcheck {

Fit fit_of(const Observed& data, std::span<const std::byte> bytes) {
  Fit fit;
  for (std::size_t at = 0; at < data.expected.size(); at += data.width) {
    const bool right = std::memcmp(data.expected.data() + at, data.observed.data() + at, data.width) == 0;
    const bool foretold = std::memcmp(bytes.data() + at, data.observed.data() + at, data.width) == 0;
    if (right) {
      fit.contradicted += foretold ? 0 : 1;
    } else {
      ++fit.wrong;
      fit.explained += foretold ? 1 : 0;
    }
  }
  return fit;
}

namespace {

struct Likely {
  std::vector<std::string> texts;
  Fit fit;
  std::vector<std::byte> bytes;
};

std::string named(const Likely& cause) {
  constexpr std::size_t kMostNames = 8;
  std::string text = cause.texts.front();
  for (std::size_t i = 1; i < cause.texts.size(); ++i) {
    if (i == kMostNames) return text + " and " + std::to_string(cause.texts.size() - i) + " more)";
    text += (i == 1 ? " (the same here: " : ", ") + cause.texts[i];
  }
  return text + (cause.texts.size() > 1 ? ")" : "");
}

}  // namespace

std::vector<std::string> likeliest_causes(const Observed& all, const std::vector<Hypothesis>& hypotheses,
                                          const std::string& unit, std::size_t most) {
  std::vector<Likely> exact, likely;
  // What follows from another dataset's fault is no hypothesis's merit: shares are of what is wrong beyond it.
  Observed data = all;
  std::vector<std::byte> follows;
  for (const Hypothesis& h : hypotheses) {
    std::vector<std::byte> bytes = h.bytes();
    if (bytes.size() != data.expected.size()) continue;
    const Fit fit = fit_of(data, bytes);
    if (h.innocent && !fit.exact() && fit.explained > fit.contradicted) {
      follows = std::move(bytes);
      data.expected = follows;
      continue;
    }
    if (fit.exact() && h.innocent) return {h.text};
    if (h.innocent || (!fit.exact() && !fit.likely())) continue;
    std::vector<Likely>& into = fit.exact() ? exact : likely;
    const auto same = std::find_if(into.begin(), into.end(), [&](const Likely& c) { return c.bytes == bytes; });
    if (same == into.end()) {
      into.push_back({{h.text}, fit, std::move(bytes)});
    } else if (std::find(same->texts.begin(), same->texts.end(), h.text) == same->texts.end()) {
      same->texts.push_back(h.text);
    }
  }
  std::vector<std::string> causes;
  for (const Likely& c : exact) {
    if (causes.size() < most) causes.push_back("every " + unit + " is that of " + named(c));
  }
  if (!exact.empty()) return causes;
  std::stable_sort(likely.begin(), likely.end(), [](const Likely& a, const Likely& b) {
    return a.fit.explained - a.fit.contradicted > b.fit.explained - b.fit.contradicted;
  });
  for (const Likely& c : likely) {
    // What explains much less than the best is an accident of overlap.
    if (causes.size() == most || 10 * c.fit.explained < 9 * likely.front().fit.explained) break;
    causes.push_back(
        std::to_string(c.fit.explained) + " of the " + std::to_string(c.fit.wrong) + " wrong " + unit +
        "s are those of " + named(c) +
        (c.fit.contradicted > 0 ? ", though " + std::to_string(c.fit.contradicted) + " right ones are not" : ""));
  }
  return causes;
}

std::vector<std::string> constant_tail(const Observed& data, const std::string& unit) {
  constexpr std::size_t kFewest = 32;
  const std::size_t count = data.expected.size() / data.width;
  const auto same = [&](std::span<const std::byte> bytes, std::size_t a, std::size_t b) {
    return std::memcmp(bytes.data() + a * data.width, bytes.data() + b * data.width, data.width) == 0;
  };
  if (count < kFewest) return {};
  std::size_t begin = count - 1, expected_begin = count - 1;
  while (begin > 0 && same(data.observed, begin - 1, count - 1)) --begin;
  while (expected_begin > 0 && same(data.expected, expected_begin - 1, count - 1)) --expected_begin;
  const Fit fit = fit_of(data, data.observed);
  std::int64_t wrong_in_tail = 0;
  for (std::size_t i = begin; i < count; ++i) {
    const bool right =
        std::memcmp(data.expected.data() + i * data.width, data.observed.data() + i * data.width, data.width) == 0;
    wrong_in_tail += right ? 0 : 1;
  }
  if (count - begin < kFewest || expected_begin <= begin || 2 * wrong_in_tail < fit.wrong) return {};
  std::uint32_t value = 0;
  std::memcpy(&value, data.observed.data() + (count - 1) * data.width, std::min<std::size_t>(data.width, 4));
  char hex[16];
  std::snprintf(hex, sizeof(hex), "0x%0*x", static_cast<int>(2 * data.width), value);
  return {"from " + unit + " " + std::to_string(begin) + " of " + std::to_string(count) + " on all are " + hex +
          ": were they written?"};
}

}  // namespace mxcheck
