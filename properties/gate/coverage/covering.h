#pragma once
// A covering design: few cases that together meet every bin of a domain's axes and every pair of bins of two axes, and
// the count of what was met.
//
// Pairs, because a kernel's paths are chosen by one size, or by one size under one option (a format, a layout, an
// alignment): with a few hundred cases each of them is met, whatever the seed. Greedy, in the manner of AETG (Cohen,
// Dalal, Fredman, Patton 1997): a case begins with a pair that is still open and takes, axis after axis, the bin that
// closes most others.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "properties/core/domain/domain.h"
#include "properties/gate/coverage/coverage.h"

namespace mxcheck {

// The work that a case may have, the least first: a case that is too large for the usual one is hardly larger than it
// must be.
std::vector<std::int64_t> works_of(std::int64_t usual, std::int64_t most);

// Fixes the axis at the bin that closes most and has a case, which becomes c; of equals the first, the smallest. Three
// bins are tried. closes(bin): the open tuples that it closes; make(bins): a case in them, or none.
template <class Closes, class Make>
void fix_best_bin(Bins& wanted, std::size_t axis, std::size_t bins, Case& c, const Closes& closes, const Make& make) {
  constexpr std::size_t kBinsToTry = 3;
  std::vector<std::pair<int, int>> best;  // minus what it closes, bin
  for (int bin = 0; bin < static_cast<int>(bins); ++bin) {
    if (const int closed = closes(bin); closed > 0) best.emplace_back(-closed, bin);
  }
  std::sort(best.begin(), best.end());
  if (best.size() > kBinsToTry) best.resize(kBinsToTry);
  for (const auto& [closed, bin] : best) {
    wanted[axis] = bin;
    if (std::optional<Case> more = make(wanted)) {
      c = *std::move(more);
      return;
    }
    wanted[axis] = kAnyBin;
  }
}

class Covering {
 public:
  // pairs: whether pairs are to be met too. Work, elements or multiplications of one case: usual, and at most.
  Covering(std::string operation, const Domain& domain, bool pairs, std::int64_t usual, std::int64_t most);

  // Cases for the bins, or the pairs of bins, that no case is planned for yet. Pairs come after single bins have run:
  // those of a bin that was refused throughout are left out.
  [[nodiscard]] std::vector<Case> cases(bool pairs, Draw& draw);
  void count(const Case& c, CaseFate fate);
  // For what only refused cases have met: cases that ask for nothing else. First of single bins; once those have run,
  // of pairs whose bins are both offered.
  [[nodiscard]] std::vector<Case> again(bool pairs, Draw& draw) const;
  [[nodiscard]] CoverageReport report() const;

  // The states of all bins and pairs, for the same covering on another machine. Error{input} for one of another domain.
  [[nodiscard]] std::vector<std::uint8_t> states() const;
  void add_states(const std::vector<std::uint8_t>& states, const CoverageReport& counts);

  // No case in the bin was checked, and some were refused.
  [[nodiscard]] bool is_refused(std::size_t axis, int bin) const;
  // No case can be in the bin, or in both.
  [[nodiscard]] bool is_excluded(std::size_t axis, int bin) const;
  [[nodiscard]] bool is_excluded(std::size_t a, int bin_a, std::size_t b, int bin_b) const;

 private:
  struct Tuple {
    std::size_t a, b;  // axes; a < b, or equal for a single bin
    int bin_a, bin_b;
  };
  [[nodiscard]] std::size_t index_of(std::size_t a, int bin_a, std::size_t b, int bin_b) const;
  void mark(const Case& c, std::uint8_t bit);
  [[nodiscard]] std::vector<Tuple> all_tuples(Draw& draw) const;
  [[nodiscard]] int gain(const Bins& wanted, std::size_t axis, int bin, bool pairs) const;
  [[nodiscard]] std::optional<Case> make(const Bins& wanted, bool pairs, Draw& draw) const;  // and extended
  [[nodiscard]] Case extend(Bins wanted, Case c, bool pairs, Draw& draw) const;
  [[nodiscard]] std::string text_of(const Tuple& t) const;
  [[nodiscard]] std::vector<std::string> without_case() const;

  std::string operation_;
  const Domain& domain_;
  bool pairs_;
  std::int64_t usual_, most_;
  std::vector<std::size_t> base_;     // of the pairs of axes a and b, at a * axes + b; single bins at a * axes + a
  std::vector<std::uint8_t> states_;  // bits of a tuple
  std::vector<AxisCount> counts_;
};

}  // namespace mxcheck
