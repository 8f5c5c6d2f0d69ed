#include "tools/gate/workload.h"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

namespace mxcheck {
namespace {

// Statements that take more than a hundredth of the CPU time of the quick or the full suite, of cpu, cpu_layer and
// cpu_nvfp4.
constexpr std::array kUsual{
    UsualWork{"route_round_equals_the_reference", {11, 61}, {34, 330}},
    UsualWork{"quantize_dual_equals_the_reference", {5, 185}, {17, 615}},
    UsualWork{"quantize_equals_the_reference", {3.9, 198}, {14.4, 690}},
    UsualWork{"cast_equals_the_reference", {3.8, 139}, {15, 515}},
    UsualWork{"dequantize_equals_the_reference", {3.7, 212}, {12.4, 690}},
    UsualWork{"route_equals_the_reference", {3, 52}, {11.7, 220}},
    UsualWork{"route_backward_equals_the_reference", {2.2, 41}, {8.5, 180}},
    UsualWork{"large_tensors_equal_the_reference", {2, 101}, {6.3, 358}},
    UsualWork{"every_bf16_value_at_every_scale_is_cast_as_the_reference", {1.6, 67}, {5.7, 235}},
    UsualWork{"the_thread_count_changes_nothing", {1.5, 90}, {30, 1060}},
    UsualWork{"a_refused_call_changes_nothing_after_it", {1.5, 9.5}, {7.1, 36}},
    UsualWork{"bad_arguments_are_refused_and_nothing_is_written", {0.8, 8}, {4.1, 34}},
    UsualWork{"route_metadata_equals_the_reference", {0.6, 370}, {5.8, 5400}},
    UsualWork{"scores_far_below_or_above_by_their_bias_are_routed_as_the_reference", {0.5, 10}, {9.1, 109}},
    UsualWork{"every_row_of_a_small_alphabet_is_routed_as_the_reference", {0.1, 1}, {7.5, 112}},
    UsualWork{"token_rounding_keeps_whole_tiles", {0.4, 3}, {5.9, 76.5}},
    UsualWork{"every_logit_is_scored_as_the_reference", {0.1, 1}, {1.2, 7.5}},
    UsualWork{"swiglu_backward_equals_the_reference", {13, 81}, {31, 200}},
    UsualWork{"swiglu_equals_the_reference", {5.9, 81}, {12.7, 206}},
    UsualWork{"quantize_transposed_equals_the_reference", {5.1, 140}, {22, 610}},
    UsualWork{"aggregate_equals_the_reference", {1.2, 61}, {4.6, 280}},
    UsualWork{"special_gates_values_gradients_and_weights_meet_as_in_the_reference", {0.15, 0.7}, {3.1, 14}},
    UsualWork{"quantize_nvfp4_equals_the_reference", {11, 154}, {45, 665}},
    UsualWork{"dequantize_nvfp4_equals_the_reference", {3.5, 163}, {15, 646}}};

// In their place, of libraries that quantize no MXFP8: cpu_layer and cpu_nvfp4.
constexpr std::array kUsualOfFewer{UsualWork{"the_thread_count_changes_nothing", {1.5, 90}, {9.3, 150}},
                                   UsualWork{"large_tensors_equal_the_reference", {2, 101}, {1.9, 42}},
                                   UsualWork{"a_refused_call_changes_nothing_after_it", {1.5, 9.5}, {10.6, 27}}};

// Statements that are not among them. Those of pairs of sizes compare with the reference.
constexpr UsualWork kOther{"", {0.2, 4}, {1, 36}};
constexpr UsualWork kOtherOfPairs{"", {4, 120}, {15, 400}};

// A random case has at most 2^16 elements, mostly far fewer.
constexpr double kCostOfRandomCase = 0.008;
constexpr int kRandomCasesOfFullSuite = 4000;

const UsualWork* usual_work(std::string_view statement, bool quantizes) {
  const auto in = [&](std::span<const UsualWork> works) {
    const auto found = std::ranges::find(works, statement, &UsualWork::statement);
    return found == works.end() ? nullptr : &*found;
  };
  const UsualWork* const of_fewer = quantizes ? nullptr : in(kUsualOfFewer);
  return of_fewer != nullptr ? of_fewer : in(kUsual);
}

UsualWork::Amount usual_amount(const Statement& s, const UsualWork& work, const Workload::Run& run) {
  UsualWork::Amount amount = run.suite == Suite::quick ? work.quick : work.full;
  double cost = amount.cost;
  if (run.cases > 0 && !s.data.empty()) cost = kCostOfRandomCase * run.cases;
  // The exhaustive suite is the full one with ten times the random cases.
  if (run.cases == 0 && run.suite == Suite::exhaustive) cost += 9 * kCostOfRandomCase * kRandomCasesOfFullSuite;
  return {amount.seconds * cost / amount.cost / run.shards, cost / run.shards};
}

}  // namespace

std::span<const UsualWork> usual_works() { return kUsual; }

Workload::Workload(const std::vector<const Statement*>& planned, const Run& run) : run_(run) {
  const bool quantizes = std::ranges::any_of(
      planned, [](const Statement* s) { return s->name == std::string_view("quantize_equals_the_reference"); });
  for (const Statement* s : planned) {
    const UsualWork* const found = usual_work(s->name, quantizes);
    Item item;
    item.is_known = found != nullptr;
    item.sets_pace = item.is_known && s->covers_pairs;
    const UsualWork& other = s->covers_pairs ? kOtherOfPairs : kOther;
    const UsualWork::Amount usual = usual_amount(*s, item.is_known ? *found : other, run);
    item.seconds = usual.seconds, item.cost = 1e6 * usual.cost;
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
