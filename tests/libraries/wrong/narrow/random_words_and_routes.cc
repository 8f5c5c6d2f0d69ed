// Faults of the random words of NVFP4 and of layers, and of what is looked for in routes and counts.

#include <cstdint>

#include "tests/libraries/wrong/narrow/narrow.h"

namespace narrow {
namespace {

using Nvfp4 = mxcheck_nvfp4_policy;
using Layer = mxcheck_moe_policy;

// Integers of an input that are out of [low, end) become low, but for the last one.
template <class T>
void accept_all_but_the_last(Asked& a, int input, std::int64_t low, std::int64_t end) {
  if (input < 0 || input >= a.call().num_inputs || a.call().inputs[input].dtype.bits != 8 * sizeof(T)) return;
  const std::span<T> values = a.values<T>(input);
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    if (values[i] < low || values[i] >= end) values[i] = static_cast<T>(low);
  }
}

// Tokens of any number of slots: the first slot of those that have more.
template <std::int64_t kSlots>
void ragged_tokens_of_more_slots(const View& v) {
  if (v.route().top_k != 0) return;
  const auto* offsets = View::values<std::int64_t>(v.in(1));
  for (std::int64_t t = 0; t < v.p().rows; ++t) {
    if (offsets[t + 1] - offsets[t] > kSlots) spoil(v.out(5), 0, offsets[t]);
  }
}

// The path of tokens that have as many slots each, of a model's eight.
void each_token_of_8_slots(const View& v) {
  const DLTensor& offsets = v.in(v.call.num_inputs - 2);
  if (v.p().rows < 2 || offsets.shape[0] != v.p().rows + 1) return;
  const std::int64_t* o = View::values<std::int64_t>(offsets);
  for (std::int64_t t = 0; t < v.p().rows; ++t) {
    if (o[t + 1] - o[t] != 8) return;
  }
  spoil_last(v.out(0));
}

constexpr Fault kFaults[] = {
    {"nvfp4_counter_of_8_bits", "quantize_nvfp4", nullptr,
     [](Asked& a) {
       if (a.has<Nvfp4>()) a.policy<Nvfp4>().counter[1] &= 0xFF;
     }},
    {"nvfp4_column_counter_of_16_bits", "quantize_nvfp4", nullptr,
     [](Asked& a) {
       if (a.has<Nvfp4>()) a.policy<Nvfp4>().column_counter[1] &= 0xFFFF;
     }},
    {"nvfp4_seed_0_is_another", "quantize_nvfp4", nullptr,
     [](Asked& a) {
       if (a.has<Nvfp4>() && a.policy<Nvfp4>().seed == 0) a.policy<Nvfp4>().seed = 42;
     }},
    {"nvfp4_carry_beyond_64_bits", "quantize_nvfp4",
     [](const View& v) {
       if (v.p().size < sizeof(Nvfp4) || v.policy<Nvfp4>().rounding != MXCHECK_STOCHASTIC) return;
       const std::uint64_t offset = v.policy<Nvfp4>().offset;
       const auto last = static_cast<std::uint64_t>(v.p().rows * v.p().cols) - 1;
       spoil_last_if(v.p().rows * v.p().cols > 0 && offset + last < offset, v.out(0));
     }},
    {"moe_seed_0_is_another", "moe_backward", nullptr,
     [](Asked& a) {
       if (a.has<Layer>() && a.policy<Layer>().seed == 0) a.policy<Layer>().seed = 42;
     }},
    {"moe_layer_0_is_the_first", "moe_backward", nullptr,
     [](Asked& a) {
       if (a.has<Layer>() && a.policy<Layer>().layer == 0) a.policy<Layer>().layer = 1;
     }},
    {"moe_step_of_64_bits", "moe_backward", nullptr,
     [](Asked& a) {
       if (a.has<Layer>()) a.policy<Layer>().step ^= a.policy<Layer>().step >> 32;
     }},
    {"moe_refuses_the_last_wrong_token_alone", "moe_*", nullptr,
     [](Asked& a) {
       if (a.has<Layer>())
         accept_all_but_the_last<std::int32_t>(a, a.call().num_inputs - 5, 0, a.policy<Layer>().policy.rows);
     }},
    {"moe_refuses_the_last_wrong_slot_alone", "moe_*", nullptr,
     [](Asked& a) {
       if (a.has<Layer>())
         accept_all_but_the_last<std::int32_t>(a, a.call().num_inputs - 2, -1, a.policy<Layer>().routed);
     }},
    {"aggregate_refuses_the_last_wrong_slot_alone", "aggregate", nullptr,
     [](Asked& a) {
       if (a.call().num_inputs > 0 && a.call().inputs[0].shape != nullptr)
         accept_all_but_the_last<std::int32_t>(a, a.call().num_inputs - 1, -1, a.call().inputs[0].shape[0]);
     }},
    {"aggregate_of_8_slots_each", "aggregate", each_token_of_8_slots},
    {"masked_refuses_the_last_wrong_count_alone", "matmul", nullptr,
     [](Asked& a) {
       if (!a.has<mxcheck_matmul_policy>() || a.policy<mxcheck_matmul_policy>().grouping != MXCHECK_MASKED) return;
       const DLTensor& counts = a.call().inputs[a.call().num_inputs - 1];
       if (counts.ndim != 1 || counts.shape == nullptr || counts.shape[0] < 1) return;
       const std::int64_t capacity = a.call().policy->rows / counts.shape[0];
       accept_all_but_the_last<std::int64_t>(a, a.call().num_inputs - 1, 0, capacity + 1);
     }},
    {"metadata_refuses_the_last_wrong_expert_alone", "route_metadata", nullptr,
     [](Asked& a) { accept_all_but_the_last<std::int32_t>(a, 0, -1, a.call().policy->cols); }},
    {"backward_refuses_the_last_wrong_expert_alone", "route_backward", nullptr,
     [](Asked& a) { accept_all_but_the_last<std::int32_t>(a, 1, -1, a.call().policy->cols); }},
    {"metadata_of_ragged_tokens_of_9_slots", "route_metadata", ragged_tokens_of_more_slots<8>},
    {"metadata_of_ragged_tokens_of_33_slots", "route_metadata", ragged_tokens_of_more_slots<32>},
};

}  // namespace

std::span<const Fault> faults_of_random_words_and_routes() { return kFaults; }

}  // namespace narrow
