#include "tools/gate/workload.h"

#include <algorithm>
#include <array>

namespace mxcheck {
namespace {

// Statements that take more than a hundredth of the time of the quick or the full suite, of cpu and cpu_layer.
constexpr std::array kUsual{
    UsualWork{"route_round_equals_the_reference", {10, 15325}, {105, 86160}},
    UsualWork{"quantize_dual_equals_the_reference", {9, 1700}, {91, 5400}},
    UsualWork{"quantize_equals_the_reference", {4.8, 3310}, {97, 10530}},
    UsualWork{"cast_equals_the_reference", {4.8, 940}, {63, 4640}},
    UsualWork{"dequantize_equals_the_reference", {4.2, 1500}, {61, 6550}},
    UsualWork{"route_equals_the_reference", {2.8, 15270}, {12, 22000}},
    UsualWork{"route_backward_equals_the_reference", {2, 7760}, {40, 14180}},
    UsualWork{"large_tensors_equal_the_reference", {2, 6}, {41, 40}},
    UsualWork{"every_bf16_value_at_every_scale_is_cast_as_the_reference", {1.6, 4}, {41, 14}},
    UsualWork{"the_thread_count_changes_nothing", {1.3, 720}, {145, 8200}},
    UsualWork{"every_row_of_a_small_alphabet_is_routed_as_the_reference", {0.1, 20}, {44, 216}},
    UsualWork{"a_refused_call_changes_nothing_after_it", {1.2, 470}, {8.3, 3030}},
    UsualWork{"bad_arguments_are_refused_and_nothing_is_written", {0.7, 460}, {4.1, 2930}},
    UsualWork{"route_metadata_equals_the_reference", {0.6, 900}, {23, 10200}},
    UsualWork{"token_rounding_keeps_whole_tiles", {0.3, 850}, {13, 44390}},
    UsualWork{"scores_far_below_or_above_by_their_bias_are_routed_as_the_reference", {0.4, 9200}, {10.6, 101400}},
    UsualWork{"every_logit_is_scored_as_the_reference", {0.1, 10}, {10.5, 76}},
    UsualWork{"swiglu_backward_equals_the_reference", {12.5, 1470}, {125, 5900}},
    UsualWork{"swiglu_equals_the_reference", {5.7, 1490}, {57, 6000}},
    UsualWork{"quantize_transposed_equals_the_reference", {5.2, 1150}, {52, 4600}},
    UsualWork{"aggregate_equals_the_reference", {1.2, 750}, {12, 3000}},
    UsualWork{"quantize_nvfp4_equals_the_reference", {9, 2030}, {50, 6000}},
    UsualWork{"dequantize_nvfp4_equals_the_reference", {4, 2320}, {16, 5950}}};
constexpr UsualWork kOther{"", {0.2, 430}, {2, 4000}};

}  // namespace

std::span<const UsualWork> usual_works() { return kUsual; }

Workload::Workload(const std::vector<const Statement*>& planned, const Run& run) {
  const double factor = run.suite == Suite::exhaustive ? 10 : 1;  // of the full suite
  for (const Statement* s : planned) {
    const auto found =
        std::find_if(kUsual.begin(), kUsual.end(), [&](const auto& w) { return w.statement == s->name; });
    const UsualWork& work = found == kUsual.end() ? kOther : *found;
    const UsualWork::Amount& usual = run.suite == Suite::quick ? work.quick : work.full;
    const double cases = (run.cases > 0 && !s->data.empty() ? run.cases : usual.cases * factor) / run.shards;
    Item& item = items_[s];
    item.cases = std::max(1.0, cases);
    item.seconds = usual.seconds * cases / usual.cases;
    all_ += item.seconds;
  }
}

void Workload::count(const Statement& s) {
  const std::lock_guard lock(mutex_);
  const auto found = items_.find(&s);
  if (found == items_.end()) return;
  Item& item = found->second;
  if (item.ended || item.counted >= item.cases) return;
  const double counted = std::min(item.cases, item.counted + 1);
  done_ += item.seconds * (counted - item.counted) / item.cases;
  item.counted = counted;
}

void Workload::end(const Statement& s) {
  const std::lock_guard lock(mutex_);
  const auto found = items_.find(&s);
  if (found == items_.end() || found->second.ended) return;
  Item& item = found->second;
  done_ += item.seconds * (item.cases - item.counted) / item.cases;
  item.ended = true;
}

double Workload::share() const {
  const std::lock_guard lock(mutex_);
  return all_ > 0 ? std::clamp(done_ / all_, 0.0, 1.0) : 0;
}

}  // namespace mxcheck
