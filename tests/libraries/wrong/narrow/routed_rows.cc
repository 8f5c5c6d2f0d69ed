// Faults of dispatch and combine.

#include <bit>
#include <cmath>
#include <cstdint>

#include "tests/libraries/wrong/narrow/narrow.h"

namespace narrow {
namespace {

// The routes of a call, and where the rows of its slots are.
struct Routes {
  explicit Routes(const View& v) : p(v.policy<mxcheck_dispatch_policy>()), call(v.call) {
    const int first = v.call.num_inputs - 4;
    const std::int32_t* expert_rank = View::values<std::int32_t>(v.in(first + 1));
    token_offsets = View::values<std::int64_t>(v.in(first + 2));
    slot_experts = View::values<std::int32_t>(v.in(first + 3));
    const std::int64_t slots = v.in(first + 3).shape[0];
    const auto experts = static_cast<std::size_t>(p.experts);
    kept.assign(experts, 0), first_row = kept;
    std::vector<std::int64_t> place(static_cast<std::size_t>(slots), -1);  // of a slot among its expert's rows
    for (std::size_t s = 0; s < place.size(); ++s) {
      if (slot_experts[s] < 0) continue;
      std::int64_t& rows = kept[static_cast<std::size_t>(slot_experts[s])];
      if (p.capacity == 0 || rows < p.capacity) place[s] = rows++;
    }
    std::int64_t next = 0;
    for (std::int64_t rank = 0; rank < p.ranks; ++rank) {
      for (std::size_t e = 0; e < experts; ++e) {
        if (expert_rank[e] != rank) continue;
        first_row[e] = next;
        next += p.capacity > 0 ? p.capacity : kept[e];
      }
    }
    for (std::size_t s = 0; s < place.size(); ++s)
      slot_row.push_back(place[s] < 0 ? -1 : first_row[static_cast<std::size_t>(slot_experts[s])] + place[s]);
  }

  const mxcheck_dispatch_policy& p;
  const mxcheck_call& call;
  const std::int64_t* token_offsets = nullptr;
  const std::int32_t* slot_experts = nullptr;
  std::vector<std::int64_t> kept, first_row;  // of each expert
  std::vector<std::int64_t> slot_row;

  [[nodiscard]] std::int64_t tokens() const { return p.policy.rows; }
  [[nodiscard]] std::int64_t slots_of(std::int64_t t) const { return token_offsets[t + 1] - token_offsets[t]; }
  [[nodiscard]] const DLTensor& slot_rows() const { return call.outputs[call.num_outputs - 2]; }
  [[nodiscard]] const DLTensor& counts() const { return call.outputs[call.num_outputs - 1]; }
};

template <std::int64_t kRows>
void last_of_so_many_rows(const View& v) {
  const Routes r(v);
  for (std::size_t e = 0; e < r.kept.size(); ++e)
    spoil_row_if(r.kept[e] == kRows, v.out(0), r.first_row[e] + kRows - 1);
}

// Counts of the tokens of this rank, which a mask of so many bits has not.
template <std::int64_t kRank>
void counts_of_rank(const View& v) {
  const Routes r(v);
  for (std::int64_t e = 0; e < r.p.experts; ++e) spoil(r.counts(), kRank, e);
}

template <std::int64_t kSlot>
void slot_of_each_token(const View& v) {
  const Routes r(v);
  for (std::int64_t t = 0; t < r.tokens(); ++t) {
    if (r.slots_of(t) > kSlot) spoil(r.slot_rows(), 0, r.token_offsets[t] + kSlot);
  }
}

template <std::int64_t kCols>
void last_of_so_many_columns(const View& v) {
  spoil_if(v.p().cols == kCols, v.out(0), 0, kCols - 1);
}

std::uint16_t to_bf16(float f) {
  const auto bits = std::bit_cast<std::uint32_t>(f);
  return static_cast<std::uint16_t>(std::isnan(f) ? 0x7FC0 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// Sums of the first 32 slots of a token.
void sums_of_32_slots(const View& v) {
  const Routes r(v);
  const bool weighted = r.p.weighted != 0;
  const auto* y = View::values<std::uint16_t>(v.in(0));
  const float* weights = weighted ? View::values<float>(v.in(1)) : nullptr;
  for (std::int64_t t = 0; t < r.tokens(); ++t) {
    if (r.slots_of(t) <= 32) continue;
    for (std::int64_t j = 0; j < v.p().cols; ++j) {
      float sum = 0;
      for (std::int64_t s = r.token_offsets[t]; s < r.token_offsets[t] + 32; ++s) {
        const std::int64_t row = r.slot_row[static_cast<std::size_t>(s)];
        if (row < 0) continue;
        const auto term = std::bit_cast<float>(static_cast<std::uint32_t>(y[row * v.p().cols + j]) << 16);
        sum = weighted ? std::fma(weights[s], term, sum) : sum + term;
      }
      View::values<std::uint16_t>(v.out(0))[t * v.p().cols + j] = to_bf16(sum);
    }
  }
}

// Integers of an input, counted from the last, that are out of [low, end) become low, but for the last one.
void accept_all_but_the_last(Asked& a, int from_last, std::int32_t low, std::int64_t end) {
  const std::span<std::int32_t> values = a.values<std::int32_t>(a.call().num_inputs - from_last);
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    if (values[i] < low || values[i] >= end) values[i] = low;
  }
}

constexpr Fault kFaults[] = {
    {"dispatch_expert_of_129_rows", "dispatch", last_of_so_many_rows<129>},
    {"dispatch_expert_of_256_rows", "dispatch", last_of_so_many_rows<256>},
    {"dispatch_counts_of_16_bits", "dispatch",
     [](const View& v) {
       const Routes r(v);
       auto* counts = View::values<std::int64_t>(r.counts());
       for (std::int64_t i = 0; i < View::count(r.counts()); ++i) counts[i] &= 0xFFFF;
     }},
    {"dispatch_17th_slot", "dispatch", slot_of_each_token<16>},
    {"dispatch_ranks_of_32_bits", "dispatch", counts_of_rank<32>},
    {"dispatch_ranks_of_64_bits", "dispatch", counts_of_rank<64>},
    {"dispatch_columns_beyond_8192", "dispatch", [](const View& v) { spoil(v.out(0), 0, 8192); }},
    {"dispatch_2880_columns", "dispatch", last_of_so_many_columns<2880>},
    {"dispatch_384_experts", "dispatch", [](const View& v) { spoil_last_if(Routes(v).p.experts == 384, v.out(0)); }},
    {"dispatch_refuses_the_last_wrong_expert_alone", "dispatch", nullptr,
     [](Asked& a) { accept_all_but_the_last(a, 1, -1, a.policy<mxcheck_dispatch_policy>().experts); }},
    {"dispatch_refuses_the_last_wrong_rank_alone", "dispatch", nullptr,
     [](Asked& a) { accept_all_but_the_last(a, 3, 0, a.policy<mxcheck_dispatch_policy>().ranks); }},
    {"combine_33rd_slot_left_out", "combine", sums_of_32_slots},
    {"combine_7168_columns", "combine", last_of_so_many_columns<7168>},
    {"combine_ranks_of_64_bits", "combine", [](const View& v) { spoil_last_if(Routes(v).p.ranks > 64, v.out(0)); }},
};

}  // namespace

std::span<const Fault> faults_of_routed_rows() { return kFaults; }

}  // namespace narrow
