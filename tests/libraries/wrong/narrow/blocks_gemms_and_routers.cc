// Faults of block scaling, GEMMs and routers.

#include <cmath>
#include <cstdlib>

#include "numerics/format/codec.h"
#include "tests/libraries/wrong/narrow/narrow.h"

namespace narrow {
namespace {

double value_at(const DLTensor& x, std::int64_t row, std::int64_t col) {
  const std::int64_t stride = x.strides == nullptr ? x.shape[1] : x.strides[0];
  const std::int64_t col_stride = x.strides == nullptr ? 1 : x.strides[1];
  const auto at = static_cast<std::size_t>(row * stride + col * col_stride);
  if (x.dtype.bits == 32) return View::values<float>(x)[at];
  return decode(x.dtype.code == kDLBfloat ? mxcheck::Format::bf16 : mxcheck::Format::fp16,
                View::values<std::uint16_t>(x)[at]);
}

// Codes of compact 1 x n blocks of one expert cut off in place of rounded.
void truncate(const View& v, std::int64_t from_row = 0) {
  const auto format = mxcheck::find_format(v.p().format);
  if (!format || v.integers(32) != nullptr || v.out(1).ndim != 2) return;
  for (std::int64_t i = from_row; i < v.p().rows; ++i) {
    for (std::int64_t j = 0; j < v.p().cols; ++j) {
      std::uint8_t& code = View::values<std::uint8_t>(v.out(0))[i * v.p().cols + j];
      const std::int64_t block = i / v.p().block_rows * v.out(1).shape[1] + j / v.p().block_cols;
      const double scale = std::ldexp(1.0, View::values<std::uint8_t>(v.out(1))[block] - 127);
      if (std::fabs(decode(*format, code)) * scale > std::fabs(value_at(v.in(0), i, j)) && (code & 0x7F) != 0) --code;
    }
  }
}

template <std::int64_t kCols>
void truncates_from(const View& v) {
  if (v.has_block(1, 32) && v.p().cols >= kCols) truncate(v);
}

bool rounds_to_tiles(const View& v) {
  const std::string_view rule = v.route().rule;
  return rule != "none" && rule != "expert-choice" && !rule.starts_with("capacity");
}

std::int64_t largest_index(const View& v) {
  const DLTensor* index = v.integers(32);
  std::int64_t largest = -1;
  for (std::int64_t i = 0; index != nullptr && i < index->shape[0]; ++i)
    largest = std::max<std::int64_t>(largest, View::values<std::int32_t>(*index)[i]);
  return largest;
}

constexpr Fault kFaults[] = {
    // Block scaling.
    {"truncates_from_512_columns", "quantize", truncates_from<512>},
    {"truncates_from_700_columns", "quantize", truncates_from<700>},
    {"truncates_from_1280_columns", "quantize", truncates_from<1280>},
    {"truncates_from_250000_elements_in_other_blocks", "quantize",
     [](const View& v) {
       if (!v.has_block(1, 32) && v.p().block_cols > 1 && v.p().rows * v.p().cols >= 250'000) truncate(v);
     }},
    {"wrong_columns_from_1280_rows", "quantize",
     [](const View& v) { spoil_row_if(v.has_block(32, 1) && v.p().rows >= 1280, v.out(0), 1279); }},
    {"wrong_in_the_ninth_expert", "quantize", [](const View& v) { spoil_row(v.out(0), v.last_row_of(8)); }},
    {"crashes_where_no_expert_has_a_row", "quantize",
     [](const View& v) {
       if (v.p().rows == 0 && v.experts() > 1) std::abort();
     }},
    {"x_beside_16_bytes", "quantize",
     [](const View& v) { spoil_if(View::address(v.in(0)) % 16 != 0, v.out(0), 0, 0); }},
    {"codes_beside_4_bytes", "quantize",
     [](const View& v) { spoil_last_if(View::address(v.out(0)) % 4 != 0, v.out(0)); }},
    {"rows_lost_with_more_than_8_threads", "quantize",
     [](const View& v) { spoil_row_if(v.p().threads > 8, v.out(0), v.p().rows - 1); }},
    {"rows_lost_with_5_to_7_threads", "quantize",
     [](const View& v) { spoil_row_if(v.p().threads >= 5 && v.p().threads <= 7, v.out(0), v.p().rows - 1); }},
    {"keeps_4_kilobytes_a_call", "quantize",
     [](const View&) {
       volatile char* kept = static_cast<char*>(std::malloc(4096));
       for (int i = 0; i < 4096; i += 512) kept[i] = 1;
     }},
    // GEMMs. Those in rows of an expert need groups along rows, where an expert has rows of d of its own.
    {"gemm_last_row_of_the_18th_expert", "matmul",
     [](const View& v) { spoil_row_if(v.matmul().grouping == MXCHECK_ROWS, v.out(0), v.last_row_of(17)); }},
    {"gemm_last_row_from_a_k_of_8192", "matmul",
     [](const View& v) { spoil_row_if(v.matmul().depth >= 8192, v.out(0), v.p().rows - 1); }},
    {"gemm_row_191_from_column_4096", "matmul",
     [](const View& v) {
       for (std::int64_t i = 191; i < v.p().rows; i += 192) {
         for (std::int64_t j = 4096; j < v.p().cols; ++j) spoil(v.out(0), i, j);
       }
     }},
    {"gemm_d_beside_16_bytes", "matmul",
     [](const View& v) { spoil_if(View::address(v.out(0)) % 16 != 0, v.out(0), 0, 0); }},
    // Routers.
    {"counts_of_the_300th_expert", "route_metadata", [](const View& v) { spoil(v.out(0), 0, 299); }},
    {"experts_beyond_the_8th_are_one", "route_metadata",
     [](const View& v) {
       auto* counts = View::values<std::int32_t>(v.out(0));
       for (std::int64_t e = 9; e < v.p().cols; ++e) counts[8] += counts[e], counts[e] = 0;
     }},
    {"tiles_above_128_in_metadata", "route_metadata",
     [](const View& v) { spoil_last_if(v.route().tile > 128, v.out(1)); }},
    {"tiles_above_128_in_rounding", "route_round",
     [](const View& v) { spoil_last_if(rounds_to_tiles(v) && v.route().tile > 128, v.out(1)); }},
    {"sigmoid_of_the_last_token_beyond_1024", "route",
     [](const View& v) {
       spoil_last_if(std::string_view(v.p().recipe).find("sigmoid") != std::string_view::npos && v.p().rows > 1024,
                     v.out(1));
     }},
    {"a_scale_of_0_is_none", "route", nullptr,
     [](Asked& a) {
       float& scale = a.policy<mxcheck_route_policy>().scale;
       if (scale == 0) scale = 1;
     }},
    {"a_negative_scale_loses_its_sign", "route", nullptr,
     [](Asked& a) {
       float& scale = a.policy<mxcheck_route_policy>().scale;
       scale = std::fabs(scale);
     }},
    {"a_seed_of_48_bits", "route_round", nullptr,
     [](Asked& a) { a.policy<mxcheck_route_policy>().seed &= 0xFFFF'FFFF'FFFF; }},
    // That none of the reports on missed libraries has: index widths, counters, fast paths for odd sizes, arguments
    // that few
    // callers pass.
    {"gemm_a_row_index_of_16_bits", "matmul",
     [](const View& v) { spoil_row_if(largest_index(v) >= 65'536, v.out(0), 0); }},
    {"column_codes_of_wide_tensors_that_end_in_one_row", "quantize_dual",
     [](const View& v) { spoil_last_if(v.p().cols >= 8192 && v.p().rows % 32 == 1, v.out(2)); }},
    {"three_threads_forget_a_row", "quantize",
     [](const View& v) { spoil_row_if(v.p().threads == 3 && v.p().rows % 3 == 1, v.out(0), v.p().rows - 1); }},
    {"a_wide_row_of_a_strided_tensor", "cast",
     [](const View& v) {
       spoil_last_if(v.in(0).strides != nullptr && v.in(0).strides[0] != v.p().cols && v.p().cols >= 2048, v.out(0));
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
    {"a_step_of_32_bits", "route_round", nullptr,
     [](Asked& a) { a.policy<mxcheck_route_policy>().step &= 0xFFFF'FFFF; }},
    {"gradient_of_the_33rd_slot", "route_backward",
     [](const View& v) { spoil_row_if(v.route().top_k > 32, v.out(0), v.p().rows - 1); }},
    // At a layer's dimensions alone: a width of gpt-oss whose last rows are no whole block; Kimi-K2's router.
    {"a_width_of_2880_with_a_ragged_end", "quantize",
     [](const View& v) { spoil_if(v.p().cols == 2880 && v.p().rows > 32 && v.p().rows % 32 != 0, v.out(0), 0, 0); }},
    {"eight_of_384_experts", "route",
     [](const View& v) { spoil_if(v.p().cols == 384 && v.route().top_k == 8, v.out(0), 0, 0); }},
    // One pair of experts and top_k of one variant.
    {"ten_of_192_experts_of_sigmoid_raw", "route",
     [](const View& v) {
       spoil_if(v.has_recipe("sigmoid-raw") && v.p().cols == 192 && v.route().top_k == 10, v.out(0), 0, 0);
     }},
    {"twelve_of_128_experts_with_a_bias", "route",
     [](const View& v) {
       spoil_if(v.has_recipe("softmax-topk") && v.route().bias != 0 && v.p().cols == 128 && v.route().top_k == 12,
                v.out(1), 0, 0);
     }},
    {"seven_of_13_experts_in_fp32", "route",
     [](const View& v) {
       spoil_if(v.has_recipe("sqrtsoftplus") && v.in(0).dtype.bits == 32 && v.p().cols == 13 && v.route().top_k == 7,
                v.out(0), 0, 0);
     }},
    // One path of many, chosen by three things at once.
    {"wide_e5m2_beside_4_bytes", "quantize",
     [](const View& v) {
       spoil_if(v.is_format("e5m2") && v.p().cols >= 4096 && View::address(v.in(0)) % 64 == 4, v.out(0), 0, 0);
     }},
    {"gemm_alpha_of_a_negative_zero", "matmul",
     [](const View& v) {
       if (v.matmul().alpha == 0 && std::signbit(v.matmul().alpha) && View::count(v.out(0)) > 0)
         View::data(v.out(0))[v.out(0).dtype.bits / 8 - 1] ^= std::byte{0x80};
     }},
    {"gemm_rows_beyond_65535", "matmul", [](const View& v) { spoil(v.out(0), 65'536, 0); }},
    {"gemm_an_empty_last_group_in_depth", "matmul", [](const View& v) {
       const DLTensor* offsets = v.integers(64);
       if (v.matmul().grouping != MXCHECK_DEPTH || offsets == nullptr) return;
       const auto* o = View::values<std::int64_t>(*offsets);
       if (v.experts() > 1 && o[v.experts()] == o[v.experts() - 1]) spoil_last(v.out(0));
     }}};

}  // namespace

std::span<const Fault> faults_of_blocks_gemms_and_routers() { return kFaults; }

}  // namespace narrow
