#include "properties/gate/dealing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/core/rng.h"
#include "properties/gate/usual_work.h"

namespace mxcheck {
namespace {

constexpr double kMicroseconds = 1e6;
// Each variant has corners of its own; where there are very many, those of most are small.
constexpr int kMostVariants = 256;
constexpr std::uint64_t kDealing = 0x6465616c696e67;  // "dealing": other words than those that cases are drawn from

std::int64_t microseconds(double seconds) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::llround(kMicroseconds * seconds)));
}

}  // namespace

Shard parse_shard(const std::string& text, const std::string& what) {
  const std::size_t slash = text.find('/');
  if (slash != std::string::npos) {
    const auto index = parse_number<int>(std::string_view(text).substr(0, slash));
    const auto count = parse_number<int>(std::string_view(text).substr(slash + 1));
    if (index && count && *count >= 1 && *count <= kMostShards && *index >= 1 && *index <= *count)
      return {*index - 1, *count, false};
  }
  throw Error(ErrorKind::usage,
              what + " '" + text + "' is not I/N, the shard I of 1 to N, with N to " + std::to_string(kMostShards));
}

std::string to_text(const Shard& shard) { return std::to_string(shard.index + 1) + "/" + std::to_string(shard.count); }

Dealing::Dealing(const Shard& shard, Suite suite, int cases, const std::vector<const Statement*>& selected,
                 const std::vector<Variant>& offered)
    : shard_(shard), of_groups_(static_cast<std::size_t>(shard.count)) {
  if (shard.is_whole()) return;
  std::vector<std::pair<const Statement*, std::map<std::string, int>>>
      planned;  // with its variants by operation, up to a number
  std::vector<const Statement*> statements;
  for (const Statement* s : selected) {
    std::map<std::string, int> operations;
    for (const Variant& v : offered) {
      int& variants = operations[v.operation];
      if (variants < kMostVariants && s->applies(v, offered)) ++variants;
    }
    std::erase_if(operations, [](const auto& one) { return one.second == 0; });
    if (!operations.empty()) planned.emplace_back(s, std::move(operations)), statements.push_back(s);
  }
  const UsualWorks works(statements, suite, cases);
  std::vector<std::pair<std::int64_t, Group>> groups;
  std::int64_t alone = 0;
  for (const auto& [s, operations] : planned) {
    const double seconds = works.of(*s).seconds;
    if (s->tally) {
      groups.push_back({microseconds(seconds), {s->name, ""}});
      continue;
    }
    const double together = works.together(*s);
    alone += microseconds(seconds - together);
    if (s->data.empty()) continue;
    int weights = 0;
    for (const auto& [operation, variants] : operations) weights += variants;
    for (const auto& [operation, variants] : operations)
      groups.push_back({microseconds(together * variants / weights), {s->name, operation}});
  }
  deal_groups(std::move(groups));
  deal_cases(alone);
}

void Dealing::deal_groups(std::vector<std::pair<std::int64_t, Group>> groups) {
  std::sort(groups.begin(), groups.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  using Load = std::pair<std::int64_t, int>;  // of a shard
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int i = 0; i < shard_.count; ++i) loads.push({0, i});
  for (const auto& [work, group] : groups) {
    const auto [load, owner] = loads.top();
    loads.pop();
    owners_[group] = owner;
    of_groups_[static_cast<std::size_t>(owner)] = load + work;
    loads.push({load + work, owner});
  }
}

// Fills shards up to one level of work, as water fills a vessel; those above the level get nothing.
void Dealing::deal_cases(std::int64_t work) {
  std::vector<std::int64_t> loads = of_groups_;
  std::sort(loads.begin(), loads.end());
  std::int64_t level = 0;
  std::int64_t filled = work;  // with what the shards have that are below the level
  for (std::size_t i = 0; i < loads.size(); ++i) {
    filled += loads[i];
    level = filled / static_cast<std::int64_t>(i + 1);
    if (i + 1 == loads.size() || level <= loads[i + 1]) break;
  }
  std::int64_t sum = 0;
  for (const std::int64_t load : of_groups_) of_cases_.push_back(sum += std::max<std::int64_t>(0, level - load));
  if (sum > 0) return;
  for (std::int64_t& before : of_cases_) before = ++sum;  // no such case is expected: whoever comes is dealt evenly
}

bool Dealing::owns_group(const Statement& s, const std::string& operation) const {
  if (shard_.is_whole()) return true;
  const auto found = owners_.find({s.name, s.tally ? "" : operation});
  return found != owners_.end() && found->second == shard_.index;
}

bool Dealing::owns_case(std::string_view text) const {
  if (shard_.is_whole()) return true;
  const auto place =
      static_cast<std::int64_t>(derived_seed(kDealing, text) % static_cast<std::uint64_t>(of_cases_.back()));
  return std::upper_bound(of_cases_.begin(), of_cases_.end(), place) - of_cases_.begin() == shard_.index;
}

std::vector<double> Dealing::expected() const {
  std::vector<double> seconds;
  std::int64_t before = 0;
  for (std::size_t i = 0; i < of_cases_.size(); ++i) {
    seconds.push_back(static_cast<double>(of_groups_[i] + of_cases_[i] - before) / kMicroseconds);
    before = of_cases_[i];
  }
  return seconds;
}

}  // namespace mxcheck
