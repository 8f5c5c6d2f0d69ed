#pragma once
// A covering design: few cases that together meet every bin of a domain's axes and every pair of bins of two axes, and
// the count of what was met.
//
// Pairs, because a kernel's paths are chosen by one size, or by one size under one option (a format, a layout, an
// alignment): with a few hundred cases each of them is met, whatever the seed. Greedy, in the manner of AETG (Cohen,
// Dalal, Fredman, Patton 1997): a case begins with a pair that is still open and takes, axis after axis, the bin that
// closes most others.

#include <cstdint>
#include <string>
#include <vector>

#include "properties/core/domain.h"

namespace mxcheck {

// What became of a case: checked; refused as an option that the candidate does not offer; or one that the statement
// says nothing about.
enum class CaseFate : std::uint8_t { checked, refused, nothing_claimed };

struct BinCount {
  std::string label;
  std::int64_t checked = 0;
  std::int64_t refused = 0;
  std::int64_t nothing_claimed = 0;
};
struct AxisCount {
  std::string name;
  std::vector<BinCount> bins;
};
struct CoverageReport {
  std::string operation;
  std::vector<AxisCount> axes;
  // Pairs of bins of different axes; all 0 where pairs were not asked for.
  std::int64_t pairs = 0;          // that a case can meet
  std::int64_t pairs_checked = 0;  // met by a case that was checked
  std::int64_t pairs_refused = 0;  // met by refused cases alone, or by such that the statement says nothing about
  std::int64_t pairs_excluded = 0;  // that exclude one another, or are too large together for the suite
  std::vector<std::string> missed;  // bins, and the first of the pairs, that a case can meet and none did
};

class Covering {
 public:
  // pairs: else single bins. most: elements or multiplications of one case.
  Covering(std::string operation, const Domain& domain, bool pairs, std::int64_t most);

  [[nodiscard]] std::vector<Case> cases(Draw& draw);
  void count(const Case& c, CaseFate fate);
  [[nodiscard]] CoverageReport report() const;

 private:
  struct Tuple {
    std::size_t a, b;  // axes; a < b, or equal for a single bin
    int bin_a, bin_b;
  };
  [[nodiscard]] std::size_t index_of(std::size_t a, int bin_a, std::size_t b, int bin_b) const;
  void mark(const Case& c, std::uint8_t bit);
  [[nodiscard]] std::vector<Tuple> all_tuples(Draw& draw) const;
  [[nodiscard]] int gain(const Bins& wanted, std::size_t axis, int bin) const;
  [[nodiscard]] std::optional<Case> extend(Bins wanted, Case c, Draw& draw) const;
  [[nodiscard]] std::string text_of(const Tuple& t) const;

  std::string operation_;
  const Domain& domain_;
  bool pairs_;
  std::int64_t most_;
  std::vector<std::size_t> base_;     // of the pairs of axes a and b, at a * axes + b; single bins at a * axes + a
  std::vector<std::uint8_t> states_;  // bits of a tuple
  std::vector<AxisCount> counts_;
};

}  // namespace mxcheck
