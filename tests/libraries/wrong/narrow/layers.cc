// Faults of GEMMs with masked groups and of NVFP4 operands, of whole layers, and of routes.

#include <bit>
#include <cmath>

#include "numerics/format/codec.h"
#include "tests/libraries/wrong/narrow/narrow.h"

namespace narrow {
namespace {

// Counts of masked groups.
struct Groups {
  explicit Groups(const View& v) {
    if (v.matmul().grouping != MXCHECK_MASKED) return;
    const DLTensor* t = v.integers(64);
    if (t == nullptr) return;
    counts.assign(View::values<std::int64_t>(*t), View::values<std::int64_t>(*t) + t->shape[0]);
    capacity = counts.empty() ? 0 : v.p().rows / static_cast<std::int64_t>(counts.size());
  }
  std::vector<std::int64_t> counts;
  std::int64_t capacity = 0;
  [[nodiscard]] std::int64_t number() const { return static_cast<std::int64_t>(counts.size()); }
  [[nodiscard]] std::int64_t last_row(std::int64_t e) const {
    return e * capacity + counts[static_cast<std::size_t>(e)] - 1;
  }
  template <class Is>
  void spoil_rows(const View& v, const Is& is) const {
    for (std::int64_t e = 0; e < number(); ++e) {
      if (counts[static_cast<std::size_t>(e)] > 0 && is(counts[static_cast<std::size_t>(e)], e))
        spoil_row(v.out(0), last_row(e));
    }
  }
};
template <std::int64_t kRows>
void masked_of(const View& v) {
  Groups(v).spoil_rows(v, [](std::int64_t rows, std::int64_t) { return rows == kRows; });
}

const mxcheck_moe_policy& moe(const View& v) { return v.policy<mxcheck_moe_policy>(); }
std::vector<std::int64_t> moe_sizes(const View& v) {
  const DLTensor& t = v.in(v.call.num_inputs - 1);
  const auto* o = View::values<std::int64_t>(t);
  std::vector<std::int64_t> all;
  for (std::int64_t e = 0; e + 1 < t.shape[0]; ++e) all.push_back(o[e + 1] - o[e]);
  return all;
}
bool moe_has(const View& v, std::int64_t size) {
  const auto all = moe_sizes(v);
  return std::find(all.begin(), all.end(), size) != all.end();
}
std::int64_t most_slots(const View& v) {
  const DLTensor& t = v.in(v.call.num_inputs - 3);
  const auto* o = View::values<std::int64_t>(t);
  std::int64_t most = 0;
  for (std::int64_t i = 0; i + 1 < t.shape[0]; ++i) most = std::max(most, o[i + 1] - o[i]);
  return most;
}
std::span<const float> row_weights(const View& v) {
  const DLTensor& t = v.in(v.call.num_inputs - 4);
  return {View::values<float>(t), static_cast<std::size_t>(t.shape[0])};
}

constexpr Fault kFaults[] = {
    // Masked groups
    {"masked_1_row", "matmul", masked_of<1>},
    {"masked_8_rows", "matmul", masked_of<8>},
    {"masked_64_rows", "matmul", masked_of<64>},
    {"masked_128_rows", "matmul", masked_of<128>},
    {"masked_129_rows", "matmul", masked_of<129>},
    {"masked_192_rows", "matmul", masked_of<192>},
    {"masked_256_rows", "matmul", masked_of<256>},
    {"masked_257_rows", "matmul", masked_of<257>},
    {"masked_counts_of_8_bits", "matmul",
     [](const View& v) { Groups(v).spoil_rows(v, [](std::int64_t n, std::int64_t) { return n > 255; }); }},
    {"masked_counts_of_15_bits", "matmul",
     [](const View& v) { Groups(v).spoil_rows(v, [](std::int64_t n, std::int64_t) { return n > 32767; }); }},
    {"masked_counts_of_16_bits", "matmul",
     [](const View& v) { Groups(v).spoil_rows(v, [](std::int64_t n, std::int64_t) { return n > 65535; }); }},
    {"masked_first_group_empty", "matmul",
     [](const View& v) {
       const Groups g(v);
       if (g.number() > 1 && g.counts[0] == 0 && g.counts[1] > 0) spoil_row(v.out(0), g.last_row(1));
     }},
    {"masked_last_of_groups_not_4", "matmul",
     [](const View& v) {
       const Groups g(v);
       if (g.number() % 4 == 3 && g.counts.back() % 64 == 1) spoil_row(v.out(0), g.last_row(g.number() - 1));
     }},
    {"masked_balanced", "matmul",
     [](const View& v) {
       const Groups g(v);
       if (g.number() < 2 || g.counts[0] == 0 || g.counts[0] == g.capacity || g.counts[0] == 1) return;
       for (const auto n : g.counts)
         if (n != g.counts[0]) return;
       spoil_row(v.out(0), g.last_row(0));
     }},
    {"masked_rows_beyond_65535", "matmul",
     [](const View& v) {
       Groups(v).spoil_rows(v, [&](std::int64_t, std::int64_t e) { return e * Groups(v).capacity > 65535; });
     }},
    {"masked_beyond_256_groups", "matmul",
     [](const View& v) { Groups(v).spoil_rows(v, [](std::int64_t, std::int64_t e) { return e >= 256; }); }},
    {"masked_capacity_of_1024", "matmul",
     [](const View& v) {
       Groups(v).spoil_rows(v, [&](std::int64_t, std::int64_t) { return Groups(v).capacity == 1024; });
     }},
    {"masked_capacity_beyond_4096", "matmul",
     [](const View& v) {
       Groups(v).spoil_rows(v, [&](std::int64_t, std::int64_t) { return Groups(v).capacity > 4096; });
     }},
    {"masked_c_of_an_empty_neighbour", "matmul",
     [](const View& v) {
       const Groups g(v);
       if (v.matmul().accumulate == 0) return;
       g.spoil_rows(
           v, [&](std::int64_t, std::int64_t e) { return e > 0 && g.counts[static_cast<std::size_t>(e) - 1] == 0; });
     }},
    {"masked_alpha_and_c", "matmul",
     [](const View& v) {
       Groups(v).spoil_rows(
           v, [&](std::int64_t, std::int64_t) { return v.matmul().accumulate != 0 && v.matmul().alpha == 0.5F; });
     }},
    {"masked_counts_of_the_call_before", "matmul",
     [](const View& v) {
       const Groups g(v);
       if (g.number() == 0) return;
       static std::vector<std::int64_t> before;
       if (before.size() == g.counts.size() && before != g.counts)
         g.spoil_rows(v, [&](std::int64_t n, std::int64_t e) { return before[static_cast<std::size_t>(e)] < n; });
       before = g.counts;
     }},
    {"masked_refuses_the_last_count_alone", "matmul", nullptr,
     [](Asked& a) {
       auto& p = a.policy<mxcheck_matmul_policy>();
       if (!a.has<mxcheck_matmul_policy>() || p.grouping != MXCHECK_MASKED || a.call().num_inputs < 3) return;
       const int at = a.call().num_inputs - 1;
       if (a.call().inputs[at].dtype.bits != 64 || a.call().inputs[at].ndim != 1) return;
       const auto counts = a.values<std::int64_t>(at);
       if (counts.empty()) return;
       const std::int64_t capacity = p.policy.rows / static_cast<std::int64_t>(counts.size());
       for (std::size_t e = 0; e + 1 < counts.size(); ++e) counts[e] = std::clamp<std::int64_t>(counts[e], 0, capacity);
     }},
    {"masked_nvfp4_129_rows", "matmul",
     [](const View& v) {
       Groups(v).spoil_rows(v, [&](std::int64_t n, std::int64_t) { return v.matmul().scale_type == 3 && n == 129; });
     }},
    // GEMMs
    {"gemm_alpha_of_nan", "matmul", [](const View& v) { spoil_last_if(std::isnan(v.matmul().alpha), v.out(0)); }},
    {"gemm_alpha_of_infinity", "matmul", [](const View& v) { spoil_last_if(std::isinf(v.matmul().alpha), v.out(0)); }},
    {"gemm_nvfp4_odd_k_beyond_4096", "matmul",
     [](const View& v) {
       spoil_last_if(v.matmul().scale_type == 3 && v.matmul().depth > 4096 && v.matmul().depth % 2 == 1, v.out(0));
     }},
    {"gemm_nvfp4_scale_columns_not_4", "matmul",
     [](const View& v) {
       spoil_last_if(v.matmul().scale_type == 3 && (v.matmul().depth + 15) / 16 % 4 == 3 && v.matmul().depth > 256,
                     v.out(0));
     }},
    {"gemm_nvfp4_groups_of_depth_of_one_odd", "matmul",
     [](const View& v) {
       if (v.matmul().scale_type != 3 || v.matmul().grouping != MXCHECK_DEPTH) return;
       const auto* o = View::values<std::int64_t>(*v.integers(64));
       for (std::int64_t e = 0; e < v.experts(); ++e)
         if ((o[e + 1] - o[e]) % 2 == 1) spoil_last(v.out(0));
     }},
    {"gemm_nvfp4_row_index", "matmul",
     [](const View& v) {
       spoil_last_if(v.matmul().scale_type == 3 && v.integers(32) != nullptr && v.p().rows > 1, v.out(0));
     }},
    {"gemm_nvfp4_n_beyond_4096", "matmul",
     [](const View& v) {
       if (v.matmul().scale_type == 3) spoil(v.out(0), 0, 4096);
     }},
    {"gemm_nvfp4_k_7168", "matmul",
     [](const View& v) { spoil_last_if(v.matmul().scale_type == 3 && v.matmul().depth == 7168, v.out(0)); }},
    {"gemm_nvfp4_masked_k_7168", "matmul",
     [](const View& v) {
       Groups(v).spoil_rows(
           v, [&](std::int64_t, std::int64_t) { return v.matmul().scale_type == 3 && v.matmul().depth == 7168; });
     }},
    {"gemm_masked_n_4096", "matmul",
     [](const View& v) { Groups(v).spoil_rows(v, [&](std::int64_t, std::int64_t) { return v.p().cols == 4096; }); }},
    {"gemm_masked_k_2048", "matmul",
     [](const View& v) {
       Groups(v).spoil_rows(v, [&](std::int64_t, std::int64_t) { return v.matmul().depth == 2048; });
     }},
    {"gemm_masked_32_groups_k_7168", "matmul",
     [](const View& v) {
       Groups(v).spoil_rows(
           v, [&](std::int64_t, std::int64_t) { return Groups(v).number() > 8 && v.matmul().depth > 4096; });
     }},
    // Whole layers
    {"moe_seed_0", "moe_backward", nullptr,
     [](Asked& a) {
       auto& p = a.policy<mxcheck_moe_policy>();
       p.seed = p.seed == 0 ? 1 : p.seed;
     }},
    {"moe_layer_0", "moe_backward", nullptr,
     [](Asked& a) {
       auto& p = a.policy<mxcheck_moe_policy>();
       p.layer = p.layer == 0 ? 1 : p.layer;
     }},
    {"moe_step_0", "moe_backward", nullptr,
     [](Asked& a) {
       auto& p = a.policy<mxcheck_moe_policy>();
       p.step = p.step == 0 ? 1 : p.step;
     }},
    {"moe_step_of_64_bits", "moe_backward", nullptr,
     [](Asked& a) {
       auto& p = a.policy<mxcheck_moe_policy>();
       p.step ^= p.step >> 32;
     }},
    {"moe_seed_of_32_bits", "moe_backward", nullptr,
     [](Asked& a) {
       auto& p = a.policy<mxcheck_moe_policy>();
       p.seed &= 0xFFFFFFFF;
     }},
    {"moe_layer_of_8_bits", "moe_backward", nullptr,
     [](Asked& a) {
       auto& p = a.policy<mxcheck_moe_policy>();
       p.layer &= 0xFF;
     }},
    {"moe_expert_of_128_rows_dw1", "moe_backward", [](const View& v) { spoil_last_if(moe_has(v, 128), v.out(1)); }},
    {"moe_expert_of_129_rows_nvfp4", "moe_backward",
     [](const View& v) { spoil_last_if(moe_has(v, 129) && v.has_recipe("nvfp4"), v.out(1)); }},
    {"moe_expert_of_128_rows_nvfp4_46", "moe_forward",
     [](const View& v) { spoil_last_if(moe_has(v, 128) && v.has_recipe("nvfp4_46"), v.out(0)); }},
    {"moe_expert_of_1_row_quartet2", "moe_backward",
     [](const View& v) { spoil_last_if(moe_has(v, 1) && v.has_recipe("quartet2"), v.out(2)); }},
    {"moe_nine_slots", "moe_forward", [](const View& v) { spoil_last_if(most_slots(v) > 8, v.out(0)); }},
    {"moe_17_slots", "moe_forward", [](const View& v) { spoil_last_if(most_slots(v) > 16, v.out(0)); }},
    {"moe_ds_of_weight_0", "moe_backward",
     [](const View& v) {
       const auto w = row_weights(v);
       for (std::size_t i = 0; i < w.size(); ++i)
         if (w[i] == 0) spoil(v.out(3), 0, static_cast<std::int64_t>(i));
     }},
    {"moe_ds_of_a_subnormal_weight", "moe_backward",
     [](const View& v) {
       const auto w = row_weights(v);
       for (std::size_t i = 0; i < w.size(); ++i)
         if (w[i] != 0 && std::fabs(w[i]) < 0x1p-126F) spoil(v.out(3), 0, static_cast<std::int64_t>(i));
     }},
    {"moe_equal_widths", "moe_backward",
     [](const View& v) { spoil_last_if(moe(v).inner * 2 == v.p().cols, v.out(1)); }},
    {"moe_d_beyond_1024", "moe_forward", [](const View& v) { spoil(v.out(0), 0, 1024); }},
    {"moe_d_2880", "moe_forward", [](const View& v) { spoil_last_if(v.p().cols == 2880, v.out(0)); }},
    {"moe_d_beyond_2048", "moe_forward", [](const View& v) { spoil(v.out(0), 0, 2048); }},
    {"moe_129_experts", "moe_forward", [](const View& v) { spoil_last_if(moe_sizes(v).size() > 128, v.out(0)); }},
    {"moe_last_expert_has_one_row", "moe_backward",
     [](const View& v) { spoil_last_if(moe_sizes(v).back() == 1 && v.has_recipe("mxfp8_e5m2_grad"), v.out(1)); }},
    {"moe_refuses_the_last_token_alone", "moe_*", nullptr,
     [](Asked& a) {
       if (!a.has<mxcheck_moe_policy>() || a.call().num_inputs < 8) return;
       const auto t = a.values<std::int32_t>(a.call().num_inputs - 5);
       for (std::size_t i = 0; i + 1 < t.size(); ++i)
         if (t[i] < 0 || t[i] >= a.policy<mxcheck_moe_policy>().policy.rows) t[i] = 0;
     }},
    {"moe_refuses_the_last_slot_alone", "moe_*", nullptr,
     [](Asked& a) {
       if (!a.has<mxcheck_moe_policy>() || a.call().num_inputs < 8) return;
       const auto t = a.values<std::int32_t>(a.call().num_inputs - 2);
       for (std::size_t i = 0; i + 1 < t.size(); ++i)
         if (t[i] < -1 || t[i] >= a.policy<mxcheck_moe_policy>().routed) t[i] = -1;
     }},
    // Routes
    {"metadata_counts_of_15_bits", "route_metadata",
     [](const View& v) {
       auto* c = View::values<std::int32_t>(v.out(0));
       for (std::int64_t i = 0; i < View::count(v.out(0)); ++i) c[i] = static_cast<std::int16_t>(c[i]);
     }},
    {"metadata_counts_of_16_bits", "route_metadata",
     [](const View& v) {
       auto* c = View::values<std::int32_t>(v.out(0));
       for (std::int64_t i = 0; i < View::count(v.out(0)); ++i) c[i] = static_cast<std::uint16_t>(c[i]);
     }},
    {"metadata_whole_tile", "route_metadata",
     [](const View& v) {
       const auto* c = View::values<std::int32_t>(v.out(0));
       for (std::int64_t i = 0; i < View::count(v.out(0)); ++i) {
         if (c[i] == v.route().tile && c[i] == 128) return spoil(v.out(1), 0, i + 1);
       }
     }},
    {"metadata_17_slots", "route_metadata",
     [](const View& v) { spoil_last_if(v.route().top_k > 16 && v.route().top_k % 2 == 1, v.out(5)); }},
    {"metadata_ragged_token_of_9_slots", "route_metadata",
     [](const View& v) {
       if (v.route().top_k != 0) return;
       const auto* o = View::values<std::int64_t>(v.in(1));
       for (std::int64_t t = 0; t < v.p().rows; ++t)
         if (o[t + 1] - o[t] > 8) spoil(v.out(5), 0, o[t]);
     }},
    {"metadata_ragged_token_of_33_slots", "route_metadata",
     [](const View& v) {
       if (v.route().top_k != 0) return;
       const auto* o = View::values<std::int64_t>(v.in(1));
       for (std::int64_t t = 0; t < v.p().rows; ++t)
         if (o[t + 1] - o[t] > 32) spoil(v.out(5), 0, o[t]);
     }},
    {"metadata_same_expert_twice", "route_metadata",
     [](const View& v) {
       const std::int64_t k = v.route().top_k;
       const auto* e = View::values<std::int32_t>(v.in(0));
       for (std::int64_t t = 0; k > 1 && t < v.p().rows; ++t)
         if (e[t * k] >= 0 && e[t * k] == e[t * k + 1]) spoil(v.out(5), 0, t * k);
     }},
    {"round_chosen_beyond_32767", "route_round",
     [](const View& v) {
       auto* c = View::values<std::int32_t>(v.out(0));
       for (std::int64_t i = 0; i < View::count(v.out(0)); ++i)
         if (c[i] > 32767) c[i] = 32767;
     }},
    {"round_seed_0", "route_round", nullptr,
     [](Asked& a) {
       auto& p = a.policy<mxcheck_route_policy>();
       p.seed = p.seed == 0 ? 1 : p.seed;
     }},
    {"round_layer_of_16_bits", "route_round", nullptr,
     [](Asked& a) { a.policy<mxcheck_route_policy>().layer &= 0xFFFF; }},
    {"round_capacity_of_15_bits", "route_round", nullptr, nullptr},
    {"round_expert_of_128_rows", "route_round",
     [](const View& v) {
       const auto* o = View::values<std::int64_t>(v.out(1));
       for (std::int64_t e = 0; e < v.p().cols; ++e)
         if (o[e + 1] - o[e] == 128) spoil(v.out(2), 0, o[e]);
     }},
    {"round_expert_of_129_rows", "route_round",
     [](const View& v) {
       const auto* o = View::values<std::int64_t>(v.out(1));
       for (std::int64_t e = 0; e < v.p().cols; ++e)
         if (o[e + 1] - o[e] == 129) spoil(v.out(2), 0, o[e]);
     }},
    {"backward_odd_top_k_beyond_8", "route_backward",
     [](const View& v) {
       spoil_last_if(v.route().top_k > 8 && v.route().top_k % 2 == 1 && v.p().cols == 256, v.out(0));
     }},
    {"backward_subnormal_gradient_flushed", "route_backward",
     [](const View& v) {
       if (v.out(0).dtype.bits == 16) {
         auto* w = View::values<std::uint16_t>(v.out(0));
         for (std::int64_t i = 0; i < View::count(v.out(0)); ++i)
           if ((w[i] & 0x7F80) == 0) w[i] &= 0x8000;
       } else {
         auto* w = View::values<std::uint32_t>(v.out(0));
         for (std::int64_t i = 0; i < View::count(v.out(0)); ++i)
           if ((w[i] & 0x7F800000) == 0) w[i] &= 0x80000000;
       }
     }},
    {"backward_first_slot_dropped", "route_backward",
     [](const View& v) {
       const auto* e = View::values<std::int32_t>(v.in(1));
       const std::int64_t k = v.route().top_k;
       for (std::int64_t t = 0; t < v.p().rows; ++t)
         if (k > 1 && e[t * k] < 0 && e[t * k + k - 1] >= 0) spoil(v.out(0), t, 0);
     }},
    {"backward_every_slot_dropped", "route_backward",
     [](const View& v) {
       const auto* e = View::values<std::int32_t>(v.in(1));
       const std::int64_t k = v.route().top_k;
       for (std::int64_t t = 0; t < v.p().rows; ++t)
         if (std::all_of(e + t * k, e + t * k + k, [](std::int32_t x) { return x < 0; })) spoil(v.out(0), t, 0);
     }},
    {"backward_beyond_65536_tokens", "route_backward", [](const View& v) { spoil_row(v.out(0), 65'536); }},
    {"backward_refuses_the_last_expert_alone", "route_backward", nullptr,
     [](Asked& a) {
       if (!a.has<mxcheck_route_policy>() || a.call().num_inputs < 3) return;
       const auto t = a.values<std::int32_t>(1);
       for (std::size_t i = 0; i + 1 < t.size(); ++i)
         if (t[i] < -1 || t[i] >= a.policy<mxcheck_route_policy>().policy.cols) t[i] = -1;
     }},
    {"metadata_refuses_the_last_expert_alone", "route_metadata", nullptr,
     [](Asked& a) {
       if (!a.has<mxcheck_route_policy>() || a.call().num_inputs < 1) return;
       const auto t = a.values<std::int32_t>(0);
       for (std::size_t i = 0; i + 1 < t.size(); ++i)
         if (t[i] < -1 || t[i] >= a.policy<mxcheck_route_policy>().policy.cols) t[i] = -1;
     }},
};

}  // namespace

std::span<const Fault> faults_of_layers() { return kFaults; }

}  // namespace narrow
