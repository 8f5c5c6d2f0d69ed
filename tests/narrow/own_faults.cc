// Faults that none of the reports on missed libraries has: index widths, counters, fast paths for odd sizes, arguments
// that few callers pass.

#include <cmath>
#include <cstring>

#include "tests/narrow/faults.h"

namespace narrow {
namespace {

std::int64_t largest_index(const View& v) {
  const DLTensor* index = v.integers(32);
  std::int64_t largest = -1;
  for (std::int64_t i = 0; index != nullptr && i < index->shape[0]; ++i)
    largest = std::max<std::int64_t>(largest, View::values<std::int32_t>(*index)[i]);
  return largest;
}

constexpr Fault kFaults[] = {
    {"gemm_a_row_index_of_16_bits", "matmul",
     [](const View& v) {
       if (largest_index(v) >= 65'536) spoil_row(v.out(0), 0);
     }},
    {"column_codes_of_wide_tensors_that_end_in_one_row", "quantize_dual",
     [](const View& v) {
       if (v.p().cols >= 8192 && v.p().rows % 32 == 1) spoil_last(v.out(2));
     }},
    {"three_threads_forget_a_row", "quantize",
     [](const View& v) {
       if (v.p().threads == 3 && v.p().rows % 3 == 1) spoil_row(v.out(0), v.p().rows - 1);
     }},
    {"a_wide_row_of_a_strided_tensor", "cast",
     [](const View& v) {
       if (v.in(0).strides != nullptr && v.in(0).strides[0] != v.p().cols && v.p().cols >= 2048) spoil_last(v.out(0));
     }},
    {"scale_254_with_64_experts", "dequantize",
     [](const View& v) {
       const auto* scales = View::values<std::uint8_t>(v.in(1));
       if (v.experts() >= 64 && View::count(v.in(1)) > 0 &&
           std::memchr(scales, 254, static_cast<std::size_t>(View::count(v.in(1)))) != nullptr)
         spoil_last(v.out(0));
     }},
    {"padding_of_many_experts_is_zero", "scale_layout",
     [](const View& v) {
       if (v.experts() < 128 || v.p().pad_byte == 0 || v.p().layout != MXCHECK_TCGEN05) return;
       auto* bytes = View::values<std::uint8_t>(v.out(0));
       const std::int64_t last = View::count(v.out(0)) - 1;
       if (last >= 0 && bytes[last] == v.p().pad_byte) bytes[last] = 0;
     }},
    {"an_expert_of_8_bits", "route",
     [](const View& v) {
       auto* experts = View::values<std::int32_t>(v.out(0));
       for (std::int64_t i = 0; i < View::count(v.out(0)); ++i) experts[i] &= 0xFF;
     }},
    {"a_step_of_32_bits", "route_round", nullptr, [](View&, mxcheck_route_policy& p) { p.step &= 0xFFFF'FFFF; }},
    {"gradient_of_the_33rd_slot", "route_backward",
     [](const View& v) {
       if (v.route().top_k > 32) spoil_row(v.out(0), v.p().rows - 1);
     }},
    // At a layer's dimensions alone: a width of gpt-oss whose last rows are no whole block; Kimi-K2's router.
    {"a_width_of_2880_with_a_ragged_end", "quantize",
     [](const View& v) {
       if (v.p().cols == 2880 && v.p().rows > 32 && v.p().rows % 32 != 0) spoil(v.out(0), 0, 0);
     }},
    {"eight_of_384_experts", "route",
     [](const View& v) {
       if (v.p().cols == 384 && v.route().top_k == 8) spoil(v.out(0), 0, 0);
     }},
    // One path of many, chosen by three things at once.
    {"wide_e5m2_beside_4_bytes", "quantize",
     [](const View& v) {
       if (v.is_format("e5m2") && v.p().cols >= 4096 && View::address(v.in(0)) % 64 == 4) spoil(v.out(0), 0, 0);
     }},
    {"gemm_alpha_of_a_negative_zero", "matmul",
     [](const View& v) {
       if (v.matmul().alpha == 0 && std::signbit(v.matmul().alpha) && View::count(v.out(0)) > 0)
         View::data(v.out(0))[v.out(0).dtype.bits / 8 - 1] ^= std::byte{0x80};
     }},
    {"gemm_rows_beyond_65535", "matmul", [](const View& v) { spoil(v.out(0), 65'536, 0); }},
    {"gemm_an_empty_last_group_in_depth", "matmul",
     [](const View& v) {
       const DLTensor* offsets = v.integers(64);
       if (v.matmul().grouping != MXCHECK_DEPTH || offsets == nullptr) return;
       const auto* o = View::values<std::int64_t>(*offsets);
       if (v.experts() > 1 && o[v.experts()] == o[v.experts() - 1]) spoil_last(v.out(0));
     }},
};

}  // namespace

std::span<const Fault> own_faults() { return kFaults; }

}  // namespace narrow
