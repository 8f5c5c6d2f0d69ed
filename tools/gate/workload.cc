#include "tools/gate/workload.h"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

namespace mxcheck {

Workload::Workload(const std::vector<const Statement*>& planned, const Run& run) : run_(run) {
  const UsualWorks works(planned, run.suite, run.cases);
  for (const Statement* s : planned) {
    Item item;
    item.is_known = works.knows(*s);
    item.sets_pace = item.is_known && s->covers_pairs;
    const UsualWork::Amount usual = works.of(*s);
    item.seconds = usual.seconds / run.shards, item.cost = 1e6 * usual.cost / run.shards;
    numbers_[s] = items_.size();
    items_.push_back(item);
  }
}

double Workload::Item::share() const {
  return state == State::ended ? 1 : std::min(0.99, counted / std::max(1.0, cost));
}
double Workload::Item::so_far(double at) const { return state == State::ended ? took : std::max(0.0, at - begun); }

void Workload::Pace::add(const Item& item, double at) {
  if (item.state == Item::State::waits) return;
  const double share = item.share();  // the first cases say less than the last
  took += share * item.so_far(at), expected += share * share * item.seconds;
}

Workload::Item* Workload::find(const Statement& s) {
  const auto found = numbers_.find(&s);
  return found == numbers_.end() ? nullptr : &items_[found->second];
}

void Workload::begin(const Statement& s, double at) {
  const std::lock_guard lock(mutex_);
  Item* const item = find(s);
  if (item == nullptr || item->state != Item::State::waits) return;
  item->state = Item::State::runs, item->begun = at;
  const auto waits = [](const Item& one) { return one.state == Item::State::waits; };
  item->from_end = run_.both_ends && std::any_of(items_.data(), item, waits);
}

void Workload::count(const Statement& s, std::int64_t cost) {
  const std::lock_guard lock(mutex_);
  if (Item* const item = find(s)) item->counted += static_cast<double>(cost);
}

void Workload::end(const Statement& s, double at) {
  const std::lock_guard lock(mutex_);
  Item* const item = find(s);
  if (item == nullptr || item->state != Item::State::runs) return;
  item->took = item->so_far(at), item->state = Item::State::ended;
}

double Workload::left(double at) const {
  const std::lock_guard lock(mutex_);
  constexpr double kSecondsOfDoubt = 1;  // in which the first statements may be slow or fast by chance
  Pace known{kSecondsOfDoubt, kSecondsOfDoubt}, others{kSecondsOfDoubt, kSecondsOfDoubt};
  for (const Item& item : items_) {
    if (item.sets_pace) known.add(item, at);
    if (!item.is_known) others.add(item, at);
  }
  const auto seconds = [&](const Item& item) { return item.seconds * (item.is_known ? known : others).ratio(); };
  // When each job is free, and the end of the list from which it takes the next statement.
  std::vector<std::pair<double, bool>> jobs;
  std::deque<double> waiting;
  for (const Item& item : items_) {
    if (item.state == Item::State::waits) waiting.push_back(seconds(item));
    if (item.state != Item::State::runs) continue;
    // The further the statement is, the more its own pace says, which gives so_far / share for the whole.
    const double share = item.share();
    const double expected = share * item.so_far(at) + (1 - share * share) * seconds(item);
    jobs.emplace_back((1 - share) * expected, item.from_end);
  }
  while (jobs.size() < static_cast<std::size_t>(run_.jobs))
    jobs.emplace_back(0, run_.both_ends && jobs.size() % 2 == 1);
  while (!waiting.empty()) {
    auto& [free, from_end] = *std::min_element(jobs.begin(), jobs.end());
    free += from_end ? waiting.back() : waiting.front();
    from_end ? waiting.pop_back() : waiting.pop_front();
  }
  return std::max_element(jobs.begin(), jobs.end())->first;
}

double Workload::share(double at) {
  const double whole = at + left(at);
  const std::lock_guard lock(mutex_);
  return share_ = std::max(share_, whole > 0 ? at / whole : 0);
}

}  // namespace mxcheck
