#pragma once
// The coverage of an operation's domain by a run: counts of bins, pairs, triples and layers, and what no case met.

#include <cstdint>
#include <string>
#include <vector>

namespace mxcheck {

// The fate of a case: checked; refused as an option that the candidate does not offer; or one that the statement
// says nothing about.
enum class CaseFate : std::uint8_t { checked, refused, not_applicable };

struct BinCount {
  std::string label;
  std::int64_t checked = 0;
  std::int64_t refused = 0;
  std::int64_t not_applicable = 0;
};
struct AxisCount {
  std::string name;
  std::vector<BinCount> bins;
};
// Pairs or triples of bins, or uses of layers; all 0 where they were not asked for.
struct TupleCounts {
  std::int64_t possible = 0;  // that a case can meet
  std::int64_t checked = 0;   // met by a case that was checked
  std::int64_t refused = 0;   // met by refused cases alone, or by such that the statement says nothing about
  std::int64_t excluded = 0;  // that exclude one another, or are too large together for the suite
};
struct CoverageReport {
  std::string operation;
  std::vector<AxisCount> axes;
  TupleCounts pairs;       // of bins of different axes
  TupleCounts triples;     // of bins of the axes that interact; full suite
  AxisCount layers;        // cases at the dimensions of each of production's layers
  TupleCounts layer_uses;  // with each family of variants
  // Bins, uses of layers, and the first of the pairs and triples, that a case can meet and none did.
  std::vector<std::string> missed;
  // Pairs of bins, of variants that are offered, of which the suite has no case: "rows 65536-131072 with cols 64,
  // 65-127".
  std::vector<std::string> without_case;
};

}  // namespace mxcheck
