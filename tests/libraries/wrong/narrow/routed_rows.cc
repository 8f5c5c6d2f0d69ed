// Faults of dispatch and combine.

#include <bit>
#include <cmath>

#include "numerics/format/codec.h"
#include "tests/libraries/wrong/narrow/narrow.h"

namespace narrow {
namespace {

// The routes of a call, and where the rows of its slots are.
struct Routes {
  explicit Routes(const View& of) : v(of), p(of.policy<mxcheck_dispatch_policy>()) {
    const int first = of.call.num_inputs - 4;
    rank_tokens = View::values<std::int64_t>(of.in(first));
    expert_rank = View::values<std::int32_t>(of.in(first + 1));
    token_offsets = View::values<std::int64_t>(of.in(first + 2));
    slot_experts = View::values<std::int32_t>(of.in(first + 3));
    slots = of.in(first + 3).shape[0];
    kept.assign(static_cast<std::size_t>(p.experts), 0), wanted = kept;
    for (std::int64_t s = 0; s < slots; ++s) {
      if (slot_experts[s] < 0) continue;
      const auto e = static_cast<std::size_t>(slot_experts[s]);
      ++wanted[e];
      if (p.capacity == 0 || kept[e] < p.capacity) ++kept[e];
    }
    first_row.assign(kept.size(), 0);
    std::int64_t next = 0;
    for (std::int64_t rank = 0; rank < p.ranks; ++rank) {
      for (std::size_t e = 0; e < kept.size(); ++e) {
        if (expert_rank[e] != rank) continue;
        first_row[e] = next;
        next += p.capacity > 0 ? p.capacity : kept[e];
      }
    }
    std::vector<std::int64_t> filled(kept.size());
    slot_row.assign(static_cast<std::size_t>(slots), -1);
    for (std::int64_t s = 0; s < slots; ++s) {
      if (slot_experts[s] < 0) continue;
      const auto e = static_cast<std::size_t>(slot_experts[s]);
      if (filled[e] < kept[e]) slot_row[static_cast<std::size_t>(s)] = first_row[e] + filled[e]++;
    }
  }
  const View& v;
  const mxcheck_dispatch_policy& p;
  const std::int64_t* rank_tokens;
  const std::int32_t* expert_rank;
  const std::int64_t* token_offsets;
  const std::int32_t* slot_experts;
  std::int64_t slots;
  std::vector<std::int64_t> kept, wanted, first_row, slot_row;

  [[nodiscard]] std::int64_t tokens() const { return p.policy.rows; }
  [[nodiscard]] const DLTensor& row_token() const { return v.out(v.call.num_outputs - 3); }
  [[nodiscard]] const DLTensor& slot_rows() const { return v.out(v.call.num_outputs - 2); }
  [[nodiscard]] const DLTensor& counts() const { return v.out(v.call.num_outputs - 1); }
  // The last row of each expert for which it holds.
  template <class Is>
  void spoil_last_rows(const Is& is) const {
    for (std::size_t e = 0; e < kept.size(); ++e) {
      if (kept[e] > 0 && is(kept[e], wanted[e], e)) spoil_row(v.out(0), first_row[e] + kept[e] - 1);
    }
  }
  [[nodiscard]] std::int64_t slots_of(std::int64_t token) const {
    return token_offsets[token + 1] - token_offsets[token];
  }
};

template <std::int64_t kRows>
void last_of_so_many_rows(const View& v) {
  Routes(v).spoil_last_rows([](std::int64_t rows, std::int64_t, std::size_t) { return rows == kRows; });
}

// Counts in a type that ends at the bits.
template <class Count>
void counts_in(const View& v) {
  const Routes r(v);
  auto* counts = View::values<std::int64_t>(r.counts());
  for (std::int64_t i = 0; i < View::count(r.counts()); ++i) counts[i] = static_cast<Count>(counts[i]);
}

std::uint32_t bits_of(float f) { return std::bit_cast<std::uint32_t>(f); }
float flushed(float f) { return (bits_of(f) & 0x7F800000U) == 0 ? std::bit_cast<float>(bits_of(f) & 0x80000000U) : f; }
float of_bf16(std::uint16_t w) { return std::bit_cast<float>(static_cast<std::uint32_t>(w) << 16); }
std::uint16_t to_bf16(float f) {
  if (std::isnan(f)) return 0x7FC0;
  const std::uint32_t b = bits_of(f);
  return static_cast<std::uint16_t>((b + 0x7FFF + (b >> 16 & 1)) >> 16);
}

// combine otherwise: each(term, acc, ...) of a token's rows.
struct Sum {
  float start = 0;
  float (*add)(float acc, float weight, float y, bool weighted, std::int64_t col,
               std::int64_t cols) = [](float acc, float w, float y, bool weighted, std::int64_t, std::int64_t) {
    return weighted ? std::fma(w, y, acc) : acc + y;
  };
  std::uint16_t (*round)(float) = to_bf16;
  bool (*applies)(const Routes&, std::int64_t token) = [](const Routes&, std::int64_t) { return true; };
  // The rows of a token, in the order in which they are added up.
  void (*order)(std::vector<std::int64_t>& slots) = nullptr;
};
void combine_with(const View& v, const Sum& sum) {
  const Routes r(v);
  const bool weighted = r.p.weighted != 0;
  const auto* y = View::values<std::uint16_t>(v.in(0));
  const float* weights = weighted ? View::values<float>(v.in(1)) : nullptr;
  auto* o = View::values<std::uint16_t>(v.out(0));
  const std::int64_t cols = v.p().cols;
  for (std::int64_t t = 0; t < r.tokens(); ++t) {
    if (!sum.applies(r, t)) continue;
    std::vector<std::int64_t> slots;
    for (std::int64_t s = r.token_offsets[t]; s < r.token_offsets[t + 1]; ++s) {
      if (r.slot_row[static_cast<std::size_t>(s)] >= 0) slots.push_back(s);
    }
    if (sum.order != nullptr) sum.order(slots);
    for (std::int64_t j = 0; j < cols; ++j) {
      float acc = slots.empty() ? 0.0F : sum.start;
      for (const std::int64_t s : slots)
        acc = sum.add(acc, weighted ? weights[s] : 1, of_bf16(y[r.slot_row[static_cast<std::size_t>(s)] * cols + j]),
                      weighted, j, cols);
      o[t * cols + j] = sum.round(acc);
    }
  }
}

float usual_add(float acc, float w, float y, bool weighted) { return weighted ? std::fma(w, y, acc) : acc + y; }

constexpr Fault kFaults[] = {
    // dispatch
    {"control", "nothing", nullptr},
    {"dispatch_expert_of_1_row", "dispatch", last_of_so_many_rows<1>},
    {"dispatch_expert_of_64_rows", "dispatch", last_of_so_many_rows<64>},
    {"dispatch_expert_of_128_rows", "dispatch", last_of_so_many_rows<128>},
    {"dispatch_expert_of_129_rows", "dispatch", last_of_so_many_rows<129>},
    {"dispatch_expert_of_256_rows", "dispatch", last_of_so_many_rows<256>},
    {"dispatch_counts_of_15_bits", "dispatch", counts_in<std::int16_t>},
    {"dispatch_counts_of_16_bits", "dispatch", counts_in<std::uint16_t>},
    {"dispatch_expert_beyond_32767_rows", "dispatch",
     [](const View& v) {
       Routes(v).spoil_last_rows([](std::int64_t rows, std::int64_t, std::size_t) { return rows > 32767; });
     }},
    {"dispatch_expert_beyond_65535_rows", "dispatch",
     [](const View& v) {
       Routes(v).spoil_last_rows([](std::int64_t rows, std::int64_t, std::size_t) { return rows > 65535; });
     }},
    {"dispatch_exactly_full", "dispatch",
     [](const View& v) {
       const Routes r(v);
       r.spoil_last_rows([&](std::int64_t, std::int64_t wanted, std::size_t) { return wanted == r.p.capacity; });
     }},
    {"dispatch_one_too_many", "dispatch",
     [](const View& v) {
       const Routes r(v);
       r.spoil_last_rows([&](std::int64_t, std::int64_t wanted, std::size_t) {
         return r.p.capacity > 1 && wanted == r.p.capacity + 1;
       });
     }},
    {"dispatch_capacity_of_a_power_of_two", "dispatch",
     [](const View& v) {
       const Routes r(v);
       if (r.p.capacity >= 64 && (r.p.capacity & (r.p.capacity - 1)) == 0) spoil_last(v.out(0));
     }},
    {"dispatch_capacity_beyond_tokens", "dispatch",
     [](const View& v) {
       const Routes r(v);
       if (r.p.capacity > r.tokens() && r.p.routed > 0) spoil_last(v.out(0));
     }},
    {"dispatch_17th_slot", "dispatch",
     [](const View& v) {
       const Routes r(v);
       for (std::int64_t t = 0; t < r.tokens(); ++t) {
         if (r.slots_of(t) > 16) spoil(r.slot_rows(), 0, r.token_offsets[t] + 16);
       }
     }},
    {"dispatch_33rd_slot", "dispatch",
     [](const View& v) {
       const Routes r(v);
       for (std::int64_t t = 0; t < r.tokens(); ++t) {
         if (r.slots_of(t) > 32) spoil(r.slot_rows(), 0, r.token_offsets[t] + 32);
       }
     }},
    {"dispatch_ranks_beyond_16", "dispatch",
     [](const View& v) {
       for (std::int64_t e = 0; e < Routes(v).p.experts; ++e) spoil(v.out(v.call.num_outputs - 1), 16, e);
     }},
    {"dispatch_ranks_of_32_bits", "dispatch",
     [](const View& v) {
       for (std::int64_t e = 0; e < Routes(v).p.experts; ++e) spoil(v.out(v.call.num_outputs - 1), 32, e);
     }},
    {"dispatch_ranks_of_64_bits", "dispatch",
     [](const View& v) {
       for (std::int64_t e = 0; e < Routes(v).p.experts; ++e) spoil(v.out(v.call.num_outputs - 1), 64, e);
     }},
    {"dispatch_columns_beyond_8192", "dispatch", [](const View& v) { spoil(v.out(0), 0, 8192); }},
    {"dispatch_7168_columns", "dispatch", [](const View& v) { spoil_if(v.p().cols == 7168, v.out(0), 0, 7000); }},
    {"dispatch_2880_columns", "dispatch", [](const View& v) { spoil_if(v.p().cols == 2880, v.out(0), 0, 2879); }},
    {"dispatch_5120_columns", "dispatch", [](const View& v) { spoil_if(v.p().cols == 5120, v.out(0), 0, 5119); }},
    {"dispatch_384_experts", "dispatch", [](const View& v) { spoil_last_if(Routes(v).p.experts == 384, v.out(0)); }},
    {"dispatch_8_of_256", "dispatch",
     [](const View& v) {
       const Routes r(v);
       if (r.p.experts == 256 && r.tokens() > 0 && r.slots_of(0) == 8) spoil_last(v.out(0));
     }},
    {"dispatch_same_routes", "dispatch",
     [](const View& v) {
       const Routes r(v);
       for (std::int64_t t = 1; t < r.tokens(); ++t) {
         const std::int64_t n = r.slots_of(t);
         if (n < 2 || n != r.slots_of(t - 1)) continue;
         if (std::equal(r.slot_experts + r.token_offsets[t], r.slot_experts + r.token_offsets[t + 1],
                        r.slot_experts + r.token_offsets[t - 1]))
           spoil(r.slot_rows(), 0, r.token_offsets[t]);
       }
     }},
    {"dispatch_same_experts_in_another_order", "dispatch",
     [](const View& v) {
       const Routes r(v);
       for (std::int64_t t = 1; t < r.tokens(); ++t) {
         const std::int64_t n = r.slots_of(t);
         if (n < 3 || n != r.slots_of(t - 1)) continue;
         std::vector<std::int32_t> a(r.slot_experts + r.token_offsets[t], r.slot_experts + r.token_offsets[t + 1]);
         std::vector<std::int32_t> b(r.slot_experts + r.token_offsets[t - 1], r.slot_experts + r.token_offsets[t]);
         if (a == b) continue;
         std::sort(a.begin(), a.end()), std::sort(b.begin(), b.end());
         if (a == b && a.front() >= 0) spoil(r.slot_rows(), 0, r.token_offsets[t]);
       }
     }},
    {"dispatch_a_rank_without_experts_has_the_last_tokens", "dispatch",
     [](const View& v) {
       const Routes r(v);
       const std::int64_t last = r.p.ranks - 1;
       if (last < 1 || r.rank_tokens[last] == r.rank_tokens[last + 1]) return;
       for (std::int64_t e = 0; e < r.p.experts; ++e) {
         if (r.expert_rank[e] == last) return;
       }
       spoil(r.counts(), last, r.p.experts - 1);
     }},
    {"dispatch_odd_experts_of_a_rank", "dispatch",
     [](const View& v) {
       const Routes r(v);
       std::vector<int> on(static_cast<std::size_t>(r.p.ranks));
       for (std::int64_t e = 0; e < r.p.experts; ++e) ++on[static_cast<std::size_t>(r.expert_rank[e])];
       r.spoil_last_rows([&](std::int64_t, std::int64_t, std::size_t e) {
         return on[static_cast<std::size_t>(r.expert_rank[e])] == 33;
       });
     }},
    {"dispatch_bf16_negative_zero", "dispatch",
     [](const View& v) {
       if (v.out(0).dtype.bits != 16) return;
       auto* w = View::values<std::uint16_t>(v.out(0));
       for (std::int64_t i = 0; i < View::count(v.out(0)); ++i) w[i] = w[i] == 0x8000 ? 0 : w[i];
     }},
    {"dispatch_bf16_subnormals", "dispatch",
     [](const View& v) {
       if (v.out(0).dtype.bits != 16) return;
       auto* w = View::values<std::uint16_t>(v.out(0));
       for (std::int64_t i = 0; i < View::count(v.out(0)); ++i) w[i] = (w[i] & 0x7F80) == 0 ? w[i] & 0x8000 : w[i];
     }},
    {"dispatch_scale_255", "dispatch",
     [](const View& v) {
       if (v.out(0).dtype.bits != 8) return;
       auto* w = View::values<std::uint8_t>(v.out(1));
       for (std::int64_t i = 0; i < View::count(v.out(1)); ++i) w[i] = w[i] == 255 ? 254 : w[i];
     }},
    {"dispatch_third_call_of_a_size", "dispatch",
     [](const View& v) {
       static std::int64_t rows = -1, times = 0;
       const std::int64_t now = Routes(v).p.routed;
       times = now == rows ? times + 1 : 0, rows = now;
       spoil_last_if(times >= 2 && now > 0, v.out(0));
     }},
    {"dispatch_fewer_rows_than_the_call_before", "dispatch",
     [](const View& v) {
       static std::int64_t before = 0;
       const std::int64_t now = Routes(v).p.routed;
       if (now < before && now > 0) spoil(v.out(0), 0, 0);
       before = now;
     }},
    {"dispatch_refuses_the_last_wrong_expert_alone", "dispatch", nullptr,
     [](Asked& a) {
       auto& p = a.policy<mxcheck_dispatch_policy>();
       const std::span<std::int32_t> experts = a.values<std::int32_t>(a.call().num_inputs - 1);
       for (std::size_t i = 0; i + 1 < experts.size(); ++i) {
         if (experts[i] < -1 || experts[i] >= p.experts) experts[i] = -1;
       }
     }},
    {"dispatch_refuses_the_last_wrong_rank_alone", "dispatch", nullptr,
     [](Asked& a) {
       auto& p = a.policy<mxcheck_dispatch_policy>();
       const std::span<std::int32_t> ranks = a.values<std::int32_t>(a.call().num_inputs - 3);
       for (std::size_t i = 0; i + 1 < ranks.size(); ++i) {
         if (ranks[i] < 0 || ranks[i] >= p.ranks) ranks[i] = 0;
       }
     }},
    {"dispatch_accepts_too_few_rows", "dispatch", nullptr, [](Asked&) {}},
    // combine
    {"combine_control", "combine", [](const View& v) { combine_with(v, {}); }},
    {"combine_starts_with_the_first_row", "combine", [](const View& v) { combine_with(v, {.start = -0.0F}); }},
    {"combine_one_slot_is_copied", "combine",
     [](const View& v) {
       Sum s;
       s.start = -0.0F;
       s.applies = [](const Routes& r, std::int64_t t) { return r.slots_of(t) == 1 && r.p.weighted == 0; };
       combine_with(v, s);
     }},
    {"combine_weights_flushed", "combine",
     [](const View& v) {
       combine_with(v, {.add = [](float acc, float w, float y, bool weighted, std::int64_t, std::int64_t) {
                      return usual_add(acc, flushed(w), y, weighted);
                    }});
     }},
    {"combine_y_flushed", "combine",
     [](const View& v) {
       combine_with(v, {.add = [](float acc, float w, float y, bool weighted, std::int64_t, std::int64_t) {
                      return usual_add(acc, w, flushed(y), weighted);
                    }});
     }},
    {"combine_sums_flushed", "combine",
     [](const View& v) {
       combine_with(v, {.add = [](float acc, float w, float y, bool weighted, std::int64_t, std::int64_t) {
                      return flushed(usual_add(acc, w, y, weighted));
                    }});
     }},
    {"combine_o_flushed", "combine",
     [](const View& v) {
       combine_with(v, {.round = [](float f) {
                      const std::uint16_t w = to_bf16(f);
                      return static_cast<std::uint16_t>((w & 0x7F80) == 0 ? w & 0x8000 : w);
                    }});
     }},
    {"combine_o_saturates", "combine",
     [](const View& v) {
       combine_with(v, {.round = [](float f) {
                      const std::uint16_t w = to_bf16(f);
                      return static_cast<std::uint16_t>((w & 0x7FFF) == 0x7F80 && std::isfinite(f) ? w - 1 : w);
                    }});
     }},
    {"combine_weight_of_zero_skipped", "combine",
     [](const View& v) {
       combine_with(v, {.add = [](float acc, float w, float y, bool weighted, std::int64_t, std::int64_t) {
                      return weighted && w == 0 ? acc : usual_add(acc, w, y, weighted);
                    }});
     }},
    {"combine_rounded_apart_in_the_tail", "combine",
     [](const View& v) {
       combine_with(v, {.add = [](float acc, float w, float y, bool weighted, std::int64_t j, std::int64_t cols) {
                      if (!weighted || j < cols / 8 * 8) return usual_add(acc, w, y, weighted);
                      const volatile float product = w * y;
                      return acc + product;
                    }});
     }},
    {"combine_ties_away_in_one_binade", "combine",
     [](const View& v) {
       combine_with(v, {.round = [](float f) {
                      const std::uint32_t b = bits_of(f);
                      if ((b & 0xFFFF) == 0x8000 && (b >> 23 & 0xFF) == 130)
                        return static_cast<std::uint16_t>((b >> 16) + 1);
                      return to_bf16(f);
                    }});
     }},
    {"combine_nine_slots_in_two_sums", "combine",
     [](const View& v) {
       const Routes r(v);
       Sum s;
       s.applies = [](const Routes& of, std::int64_t t) { return of.slots_of(t) > 8; };
       s.order = [](std::vector<std::int64_t>& slots) {
         if (slots.size() > 8) std::rotate(slots.begin(), slots.begin() + 8, slots.end());
       };
       combine_with(v, s);
     }},
    {"combine_17th_slot_left_out", "combine",
     [](const View& v) {
       Sum s;
       s.order = [](std::vector<std::int64_t>& slots) { slots.resize(std::min<std::size_t>(slots.size(), 16)); };
       combine_with(v, s);
     }},
    {"combine_33rd_slot_left_out", "combine",
     [](const View& v) {
       Sum s;
       s.order = [](std::vector<std::int64_t>& slots) { slots.resize(std::min<std::size_t>(slots.size(), 32)); };
       combine_with(v, s);
     }},
    {"combine_odd_slots_in_pairs", "combine",
     [](const View& v) {
       Sum s;
       s.applies = [](const Routes& of, std::int64_t t) { return of.slots_of(t) == 7; };
       s.order = [](std::vector<std::int64_t>& slots) {
         if (slots.size() == 7) std::swap(slots[5], slots[6]);
       };
       combine_with(v, s);
     }},
    {"combine_7168_columns", "combine", [](const View& v) { spoil_if(v.p().cols == 7168, v.out(0), 0, 7000); }},
    {"combine_2880_columns", "combine", [](const View& v) { spoil_if(v.p().cols == 2880, v.out(0), 0, 2879); }},
    {"combine_columns_beyond_8192", "combine", [](const View& v) { spoil(v.out(0), 0, 8192); }},
    {"combine_expert_beyond_32767_rows", "combine",
     [](const View& v) {
       const Routes r(v);
       if (std::any_of(r.kept.begin(), r.kept.end(), [](std::int64_t n) { return n > 32767; })) spoil_last(v.out(0));
     }},
    {"combine_ranks_of_32_bits", "combine", [](const View& v) { spoil_last_if(Routes(v).p.ranks > 32, v.out(0)); }},
    {"combine_ranks_of_64_bits", "combine", [](const View& v) { spoil_last_if(Routes(v).p.ranks > 64, v.out(0)); }},
    {"combine_second_call", "combine",
     [](const View& v) {
       static int calls = 0;
       spoil_last_if(++calls == 2, v.out(0));
     }},
    {"combine_refuses_the_last_wrong_expert_alone", "combine", nullptr,
     [](Asked& a) {
       auto& p = a.policy<mxcheck_dispatch_policy>();
       const std::span<std::int32_t> experts = a.values<std::int32_t>(a.call().num_inputs - 1);
       for (std::size_t i = 0; i + 1 < experts.size(); ++i) {
         if (experts[i] < -1 || experts[i] >= p.experts) experts[i] = -1;
       }
     }},
};

}  // namespace

std::span<const Fault> faults_of_routed_rows() { return kFaults; }

}  // namespace narrow
