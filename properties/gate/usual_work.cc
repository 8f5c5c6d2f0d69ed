#include "properties/gate/usual_work.h"

#include <algorithm>
#include <array>

namespace mxcheck {
namespace {

// Statements that take more than a hundredth of the CPU time of the quick or the full suite, of cpu, cpu_layer and
// cpu_nvfp4; and those of dispatch and combine that take far less than others which cover pairs, or far more in full.
constexpr std::array kUsual{
    UsualWork{"route_round_equals_the_reference", {12.5, 61}, {34, 330}},
    UsualWork{"quantize_dual_equals_the_reference", {5, 185}, {17, 615}},
    UsualWork{"quantize_equals_the_reference", {3.9, 198}, {14.4, 690}},
    UsualWork{"cast_equals_the_reference", {3.5, 139}, {15, 515}},
    UsualWork{"dequantize_equals_the_reference", {3.4, 212}, {12.4, 690}},
    UsualWork{"route_equals_the_reference", {3.6, 52}, {11.7, 220}},
    UsualWork{"route_backward_equals_the_reference", {2.8, 41}, {8.5, 180}},
    UsualWork{"large_tensors_equal_the_reference", {1.4, 101}, {6.3, 358}},
    UsualWork{"every_bf16_value_at_every_scale_is_cast_as_the_reference", {1.1, 67}, {5.7, 235}},
    UsualWork{"the_thread_count_changes_nothing", {1.5, 90, 0.84}, {30, 1060, 0.96}},
    UsualWork{"a_refused_call_changes_nothing_after_it", {3, 9.5, 0.55}, {7.1, 36}},
    UsualWork{"bad_arguments_are_refused_and_nothing_is_written", {2, 8, 0.5}, {4.1, 34}},
    UsualWork{"route_metadata_equals_the_reference", {0.6, 370}, {5.8, 5400}},
    UsualWork{"scores_far_below_or_above_by_their_bias_are_routed_as_the_reference", {1, 10}, {9.1, 109}},
    UsualWork{"every_row_of_a_small_alphabet_is_routed_as_the_reference", {0.1, 1}, {7.5, 112}},
    UsualWork{"experts_do_not_see_each_other", {1, 15.2}, {5, 48.8, 0.07}},
    UsualWork{"scale_layout_equals_the_reference", {0.5, 166}, {1, 597, 0.6}},
    UsualWork{"token_rounding_keeps_whole_tiles", {0.4, 3}, {5.9, 76.5}},
    UsualWork{"every_logit_is_scored_as_the_reference", {0.1, 1}, {1.2, 7.5}},
    UsualWork{"swiglu_backward_equals_the_reference", {13, 81}, {31, 200}},
    UsualWork{"swiglu_equals_the_reference", {5.9, 81}, {12.7, 206}},
    UsualWork{"quantize_transposed_equals_the_reference", {5.1, 140}, {22, 610}},
    UsualWork{"aggregate_equals_the_reference", {1.2, 61}, {4.6, 280}},
    UsualWork{"special_gates_values_gradients_and_weights_meet_as_in_the_reference", {0.15, 0.7}, {3.1, 14}},
    UsualWork{"quantize_nvfp4_equals_the_reference", {37, 380}, {72, 890}},
    UsualWork{"dequantize_nvfp4_equals_the_reference", {3.5, 163}, {15, 646}},
    UsualWork{"dispatch_equals_the_reference", {0.4, 35}, {1.5, 149}},
    UsualWork{"combine_equals_the_reference", {0.45, 31}, {2.3, 135}},
    UsualWork{"placement_and_ranks_change_no_bit_of_what_comes_back", {0.2, 2.4}, {2.4, 21.5}}};

// In their place, of libraries that quantize no MXFP8: cpu_layer and cpu_nvfp4.
constexpr std::array kUsualOfFewer{UsualWork{"the_thread_count_changes_nothing", {1.5, 90, 0.7}, {9.3, 150, 0.9}},
                                   UsualWork{"large_tensors_equal_the_reference", {2, 101}, {1.9, 42}},
                                   UsualWork{"a_refused_call_changes_nothing_after_it", {3.4, 4.1}, {10.6, 27}}};

// Statements that are not among them. Those of pairs of sizes compare with the reference.
constexpr UsualWork kOther{"", {0.2, 4}, {1, 36}};
constexpr UsualWork kOtherOfPairs{"", {4, 120}, {15, 400}};

// A random case has at most 2^16 elements, mostly far fewer.
constexpr double kCostOfRandomCase = 0.008;
constexpr int kRandomCasesOfFullSuite = 4000;

// The share of the seconds that corners, covering cases, triples and layers take; the rest are random cases.
// Comparisons with the reference cover pairs, which are most of their cases.
struct Together {
  double of_pairs, of_others;
};
constexpr Together kTogetherQuick{0.95, 0.4}, kTogetherFull{0.92, 0.12};

}  // namespace

std::span<const UsualWork> usual_works() { return kUsual; }

UsualWorks::UsualWorks(const std::vector<const Statement*>& selected, Suite suite, int cases)
    : suite_(suite), cases_(cases), quantizes_(std::ranges::any_of(selected, [](const Statement* s) {
        return s->name == std::string_view("quantize_equals_the_reference");
      })) {}

const UsualWork* UsualWorks::find(const Statement& s) const {
  const auto in = [&](std::span<const UsualWork> works) {
    const auto found = std::ranges::find(works, s.name, &UsualWork::statement);
    return found == works.end() ? nullptr : &*found;
  };
  const UsualWork* const of_fewer = quantizes_ ? nullptr : in(kUsualOfFewer);
  return of_fewer != nullptr ? of_fewer : in(kUsual);
}

const UsualWork::Amount& UsualWorks::of_suite(const Statement& s) const {
  const UsualWork* const found = find(s);
  const UsualWork& work = found != nullptr ? *found : s.covers_pairs ? kOtherOfPairs : kOther;
  return suite_ == Suite::quick ? work.quick : work.full;
}

UsualWork::Amount UsualWorks::of(const Statement& s) const {
  const UsualWork::Amount& amount = of_suite(s);
  double cost = amount.cost;
  if (cases_ > 0 && !s.data.empty()) cost = kCostOfRandomCase * cases_;
  // The exhaustive suite is the full one with ten times the random cases.
  if (cases_ == 0 && suite_ == Suite::exhaustive) cost += 9 * kCostOfRandomCase * kRandomCasesOfFullSuite;
  return {amount.seconds * cost / amount.cost, cost, amount.together};
}

double UsualWorks::together(const Statement& s) const {
  if (s.data.empty()) return 0;
  const Together& shares = suite_ == Suite::quick ? kTogetherQuick : kTogetherFull;
  if (cases_ > 0) return shares.of_others * of(s).seconds;  // pairs are not covered
  const UsualWork::Amount& amount = of_suite(s);            // the exhaustive suite has more random cases alone
  const double share = amount.together >= 0 ? amount.together : s.covers_pairs ? shares.of_pairs : shares.of_others;
  return share * amount.seconds;
}

}  // namespace mxcheck
