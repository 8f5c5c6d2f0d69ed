#pragma once
// The part of a run that each of several machines has: every case belongs to one shard, so that the shards together are
// exactly the run, and take about the same time.
//
//   const Dealing dealing({1, 4}, Suite::full, 0, selected, offered);
//   dealing.owns_group(statement, "quantize")    // its corners, covering cases, triples and layers
//   dealing.owns_case("cast_equals_the_reference: format=...")
//
// The next case of a covering design depends on which options the candidate has refused. Corners, covering cases,
// triples and layers of one statement about one operation are therefore a group, which belongs to one shard: groups are
// dealt by the seconds that they usually take (usual_work.h), the longest first, each to the shard that has least.
// Cases that stand alone (random ones, and those of statements that enumerate) fill up what is left, by a hash of their
// text.
//
// It depends on the statements that run, the suite and the number of shards, not on the machine. Not promised: equal
// times where one group takes longer than its share of the whole, as with many shards of the quick suite.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "properties/core/statement.h"

namespace mxcheck {

struct Shard {
  int index = 0;              // from 0
  int count = 1;              // 1: the whole run
  bool may_be_empty = false;  // a shard that no case falls to has not failed its purpose
  [[nodiscard]] bool is_whole() const { return count == 1; }
};

inline constexpr int kMostShards = 10'000;

// "2/4": the second of four. Error{usage} that names `what` for anything else.
Shard parse_shard(const std::string& text, const std::string& what);
std::string to_text(const Shard& shard);

class Dealing {
 public:
  // cases: --cases; 0: the suite's. selected: the statements of the run; offered: what the candidate offers.
  Dealing(const Shard& shard, Suite suite, int cases, const std::vector<const Statement*>& selected,
          const std::vector<Variant>& offered);

  [[nodiscard]] bool owns_group(const Statement& s, const std::string& operation) const;
  [[nodiscard]] bool owns_case(std::string_view text) const;
  // The seconds that each shard is expected to take; none of a whole run.
  [[nodiscard]] std::vector<double> expected() const;

 private:
  using Group = std::pair<std::string_view, std::string>;  // statement, operation; none where all cases are one group
  void deal_groups(std::vector<std::pair<std::int64_t, Group>> groups);
  void deal_cases(std::int64_t work);

  Shard shard_;
  // In microseconds: integers, so that every machine adds up to the same.
  std::vector<std::int64_t> of_groups_;  // each shard's
  std::vector<std::int64_t> of_cases_;   // each shard's and those of all before it
  std::map<Group, int> owners_;
};

}  // namespace mxcheck
