#pragma once
// What a run met of an operation's domain.

#include <cstdint>
#include <string>
#include <vector>

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
  std::int64_t pairs = 0;           // that a case can meet
  std::int64_t pairs_checked = 0;   // met by a case that was checked
  std::int64_t pairs_refused = 0;   // met by refused cases alone, or by such that the statement says nothing about
  std::int64_t pairs_excluded = 0;  // that exclude one another, or are too large together for the suite
  std::vector<std::string> missed;  // bins, and the first of the pairs, that a case can meet and none did
};

}  // namespace mxcheck
