// Faults at edges: where rows begin and end among 16 bytes, where experts end, grids' limits, warps' multiples, and
// what users put in place of a bias.

#include <cmath>
#include <cstdint>
#include <string_view>

#include "tests/libraries/wrong/narrow/narrow.h"

namespace narrow {
namespace {

constexpr std::uintptr_t kVector = 16;  // bytes

// The last element of the first row, where x of BF16 begins there and has so many elements beyond whole vectors.
template <std::uintptr_t kStart, std::int64_t kTail>
void tail_behind_a_start(const View& v) {
  const DLTensor& x = v.in(0);
  const std::int64_t cols = v.p().cols;
  if (x.dtype.code != kDLBfloat || View::address(x) % kVector != kStart || cols % 8 != kTail || cols < 32) return;
  spoil(v.out(0), 0, cols - 1);
}

// The last row of an expert of one row less than a block of this height has.
template <std::int64_t kRows>
void one_row_less_than_a_block(const View& v) {
  const DLTensor* offsets = v.integers(64);
  if (offsets == nullptr || !v.has_block(kRows, kRows)) return;
  const std::int64_t* o = View::values<std::int64_t>(*offsets);
  for (std::int64_t e = 0; e < v.experts(); ++e) spoil_row_if(o[e + 1] - o[e] == kRows - 1, v.out(0), o[e + 1] - 1);
}

// Rows of block 65,535, which a grid's second dimension has not.
void block_row_65535(const View& v) {
  constexpr std::int64_t kMostOfAGrid = 65'535;
  const std::int64_t height = v.p().block_rows;
  if (height == 32 && v.p().rows > kMostOfAGrid * height) spoil(v.out(0), kMostOfAGrid * height, 0);
}

// The score of a chosen expert is taken as its key without its bias: -Inf less -Inf.
void score_from_the_key(const View& v) {
  if (v.route().bias == 0) return;
  const float* bias = View::values<float>(v.in(1));
  const std::int32_t* experts = View::values<std::int32_t>(v.out(0));
  for (std::int64_t i = 0; i < View::count(v.out(0)); ++i) {
    if (bias[experts[i]] == -HUGE_VALF) View::values<float>(v.out(1))[i] = std::nanf("");
  }
}

constexpr Fault kFaults[] = {
    {"a_tail_of_3_of_rows_that_begin_at_12", "quantize", tail_behind_a_start<12, 3>},
    {"dispatch_a_tail_of_4_of_rows_that_begin_at_8", "dispatch", tail_behind_a_start<8, 4>},
    {"an_expert_of_127_rows_of_128x128", "quantize", one_row_less_than_a_block<128>},
    {"block_row_65535", "quantize", block_row_65535},
    {"sigmoid_of_383_experts", "route",
     [](const View& v) { spoil_last_if(v.has_recipe("sigmoid") && v.p().cols == 383, v.out(1)); }},
    {"a_score_from_a_key_of_minus_infinity", "route", score_from_the_key},
    {"metadata_of_ragged_tokens_of_129_slots", "route_metadata",
     [](const View& v) {
       const DLTensor* offsets = v.integers(64);
       for (std::int64_t t = 0; offsets != nullptr && t < v.p().rows; ++t) {
         const std::int64_t* o = View::values<std::int64_t>(*offsets);
         if (o[t + 1] - o[t] > 128) return spoil_last(v.out(1));
       }
     }},
};

}  // namespace

std::span<const Fault> faults_of_edges() { return kFaults; }

}  // namespace narrow
