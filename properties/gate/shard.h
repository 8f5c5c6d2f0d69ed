#pragma once
// A run dealt to several machines: every case belongs to one shard, by a hash of its text, so that the shards together
// are exactly the run.
//
// Which case a covering design makes next depends on which options the candidate has refused. Corners, covering cases,
// triples and layers of one statement about one operation therefore belong to one shard together, by a hash of both
// names; random cases, and the cases of statements that enumerate, are dealt one by one.

#include <string>
#include <string_view>

namespace mxcheck {

struct Shard {
  int index = 0;              // from 0
  int count = 1;              // 1: the whole run
  bool may_be_empty = false;  // a shard that no case falls to has not failed its purpose
  [[nodiscard]] bool is_whole() const { return count == 1; }
  [[nodiscard]] bool owns(std::string_view text) const;
};

inline constexpr int kMostShards = 10'000;

// "2/4": the second of four. Error{usage} that names `what` for anything else.
Shard parse_shard(const std::string& text, const std::string& what);
std::string to_text(const Shard& shard);

}  // namespace mxcheck
