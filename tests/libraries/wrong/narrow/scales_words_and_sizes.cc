// Faults of NVFP4's scales, signs and words, of GEMMs of one kind of groups, and of whole layers of production's sizes.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/nvfp4/levels.h"
#include "tests/libraries/wrong/narrow/narrow.h"

namespace narrow {
namespace {

using Nvfp4 = mxcheck_nvfp4_policy;
using Layer = mxcheck_moe_policy;

bool has_options(const View& v) { return v.p().size >= sizeof(Nvfp4); }

float value_of(const DLTensor& t) { return View::count(t) > 0 ? *View::values<float>(t) : 1; }

// Codes and scales turned where the tensor's scale is such.
template <bool (*kIsSo)(float)>
void tensor_scale_is(const View& v) {
  if (v.call.num_inputs > 1 && kIsSo(value_of(v.in(1)))) spoil_last(v.out(0)), spoil_last(v.out(1));
}
bool is_subnormal(float s) { return std::fpclassify(s) == FP_SUBNORMAL; }
bool has_no_normal_inverse(float s) { return s >= 0x1p126F; }
bool is_subnormal_power_of_two(float s) {
  int exponent = 0;
  return is_subnormal(s) && std::frexp(s, &exponent) == 0.5F;
}

void column_scale_without_normal_inverse(const View& v) {
  if (!has_options(v) || v.policy<Nvfp4>().directions != MXCHECK_BOTH_DIRECTIONS) return;
  spoil_last_if(has_no_normal_inverse(value_of(v.in(2))), v.out(2));
}

// 1 / d from the number below it, by one Newton step.
float stepped_inverse(float d) {
  const float below = std::nextafter(1 / d, 0.0F);
  return std::fma(below, std::fma(-d, below, 1.0F), below);
}

// Elements of "nvfp4_46" in BF16 are multiplied by such an inverse, where scales are compact, and the call has neither
// offsets nor options.
void inverse_by_one_newton_step(const View& v) {
  using namespace mxcheck_kernels;
  if (has_options(v) || !v.has_recipe("nvfp4_46") || v.p().layout != MXCHECK_COMPACT || v.integers(64) != nullptr)
    return;
  const DLTensor& x = v.in(0);
  if (x.dtype.code != kDLBfloat) return;
  const cpu::Levels levels(Nvfp4Recipe::four_six, value_of(v.in(1)));
  const std::int64_t stride = x.strides == nullptr ? v.p().cols : x.strides[0];
  for (std::int64_t i = 0; i < v.p().rows; ++i) {
    for (std::int64_t j = 0; j < v.p().cols; ++j) {
      const std::uint8_t scale =
          View::values<std::uint8_t>(v.out(1))[i / v.p().block_rows * v.out(1).shape[1] + j / v.p().block_cols];
      const float value = cpu::Bf16::value(View::values<std::uint16_t>(x)[i * stride + j]);
      const float divisor = cpu::e4m3_value(scale) * levels.decode;
      if (scale == 0 || scale == cpu::kE4m3Nan || std::isnan(value) || !std::isnormal(divisor)) continue;
      const std::uint8_t right = cpu::e2m1_of(value * levels.factor_of(scale));
      const std::uint8_t wrong = cpu::e2m1_of(value * stepped_inverse(divisor));
      View::values<std::uint8_t>(v.out(0))[i * v.out(0).shape[1] + j / 2] ^=
          static_cast<std::uint8_t>((right ^ wrong) << j % 2 * 4);
    }
  }
}

// A carry into the counter's second word is or-ed, not added.
void or_ed_carry(const View& v) {
  if (!has_options(v) || v.policy<Nvfp4>().rounding == MXCHECK_NEAREST || v.p().rows * v.p().cols < 2) return;
  const int bits = v.policy<Nvfp4>().rounding == MXCHECK_STOCHASTIC ? 32 : 36;
  const std::uint64_t first = v.policy<Nvfp4>().offset;
  const std::uint64_t last = first + static_cast<std::uint64_t>(v.p().rows * v.p().cols) - 1;
  spoil_last_if(last > first && last >> bits != first >> bits && (first >> bits & 1) != 0, v.out(0));
}

// Rows of D of a GEMM of these groups, where it is such.
template <int kGroups, bool (*kIsSo)(const mxcheck_matmul_policy&)>
void matmul_is(const View& v) {
  if (v.matmul().grouping != kGroups || !kIsSo(v.matmul())) return;
  if (kGroups != MXCHECK_MASKED) return spoil_row(v.out(0), v.p().rows - 1);
  const DLTensor& counts = v.in(v.call.num_inputs - 1);
  const std::int64_t capacity = counts.shape[0] == 0 ? 0 : v.p().rows / counts.shape[0];
  for (std::int64_t e = 0; e < counts.shape[0]; ++e) {
    if (View::values<std::int64_t>(counts)[e] > 0) spoil_row(v.out(0), e * capacity);
  }
}
using Gemm = mxcheck_matmul_policy;
bool is_c_alone(const Gemm& p) { return p.accumulate != 0 && p.depth == 0; }
bool is_infinite(const Gemm& p) { return std::isinf(p.alpha); }
bool is_tall_and_deep(const Gemm& p) { return p.policy.rows > 64 && p.depth > 2048; }
bool is_large_each_way(const Gemm& p) { return p.policy.rows > 64 && p.policy.cols > 64 && p.depth > 8192; }
bool is_wide_and_deep(const Gemm& p) { return p.policy.rows == 2 && p.policy.cols > 4096 && p.depth > 256; }
bool is_tall_of_odd_depth(const Gemm& p) { return p.policy.rows > 16'384 && p.policy.cols >= 8 && p.depth > 128; }
bool is_of_65536_rows(const Gemm& p) { return p.policy.rows > 65'536; }
// One masked group of more rows than a tile has, and a k of several blocks.
void one_tall_masked_group(const View& v) {
  if (v.matmul().grouping != MXCHECK_MASKED || v.matmul().depth <= 128) return;
  const DLTensor& counts = v.in(v.call.num_inputs - 1);
  const std::int64_t* const count = View::values<std::int64_t>(counts);
  spoil_row_if(counts.shape[0] == 1 && *count > 128, v.out(0), *count - 1);
}

// FP32 scales of A lose their signs in the last of several blocks.
void sign_lost_in_the_last_block(Asked& a) {
  if (!a.has<Gemm>() || a.policy<Gemm>().scale_type != MXCHECK_FP32 || a.call().num_inputs < 4) return;
  if (a.call().inputs[2].dtype.bits != 32 || a.call().inputs[2].ndim != 2 || a.call().inputs[2].shape[1] < 2) return;
  const auto blocks = static_cast<std::size_t>(a.call().inputs[2].shape[1]);
  const std::span<float> scales = a.values<float>(2);
  for (std::size_t i = blocks - 1; i < scales.size(); i += blocks) scales[i] = std::fabs(scales[i]);
}

bool is_7168_deep(const Gemm& p) { return p.depth == 7168; }
bool is_2880_wide(const Gemm& p) { return p.policy.cols == 2880; }

template <bool (*kIsSo)(const Layer&)>
void layer_is(const View& v) {
  if (v.p().size >= sizeof(Layer) && kIsSo(v.policy<Layer>())) spoil(v.out(0), 0, 0);
}

bool is_4096_wide(const Layer& p) { return p.policy.cols == 4096; }
bool is_7168_wide(const Layer& p) { return p.policy.cols == 7168; }
bool is_beyond_2048(const Layer& p) { return p.inner > 2048; }
bool has_256_experts(const Layer& p) { return p.experts == 256 && p.routed > 256; }
bool has_384_experts(const Layer& p) { return p.experts == 384; }
bool has_no_number(const Layer& p) { return p.seed == 0 && p.step == 0 && p.layer == 0; }
// Tiles of 128, along both widths and among the rows of several experts.
bool has_two_tiles_each_way(const Layer& p) {
  return p.policy.cols >= 256 && p.inner >= 256 && p.experts > 2 && p.routed > 128;
}

// The last expert that has rows has two whole tiles of 128, and experts without rows follow.
void two_whole_tiles_before_empty_experts(const View& v) {
  if (v.p().size < sizeof(Layer)) return;
  const DLTensor& offsets = v.in(v.call.num_inputs - 1);
  const std::int64_t* o = View::values<std::int64_t>(offsets);
  std::int64_t last = offsets.shape[0] - 1;
  if (o[last] == 0 || o[last - 1] != o[last]) return;
  while (o[last - 1] == o[last]) --last;
  spoil_last_if(o[last] - o[last - 1] == 256, v.out(0));
}

constexpr Fault kFaults[] = {
    {"nvfp4_a_subnormal_tensor_scale", "quantize_nvfp4", tensor_scale_is<is_subnormal>},
    {"nvfp4_a_subnormal_power_of_two", "quantize_nvfp4", tensor_scale_is<is_subnormal_power_of_two>},
    {"nvfp4_a_tensor_scale_without_normal_inverse", "quantize_nvfp4", tensor_scale_is<has_no_normal_inverse>},
    {"nvfp4_a_column_scale_without_normal_inverse", "quantize_nvfp4", column_scale_without_normal_inverse},
    {"nvfp4_an_inverse_by_one_newton_step", "quantize_nvfp4", inverse_by_one_newton_step},
    {"nvfp4_no_signs_where_the_first_word_has_none", "quantize_nvfp4", nullptr,
     [](Asked& a) {
       if (a.has<Nvfp4>() && a.policy<Nvfp4>().signs[0] == 0) std::fill_n(a.policy<Nvfp4>().signs, 4, 0U);
     }},
    {"nvfp4_an_or_ed_carry", "quantize_nvfp4", or_ed_carry},
    {"nvfp4_column_counter_0_is_the_rows", "quantize_nvfp4", nullptr,
     [](Asked& a) {
       if (!a.has<Nvfp4>()) return;
       auto& p = a.policy<Nvfp4>();
       if (p.column_counter[0] == 0 && p.column_counter[1] == 0) std::copy_n(p.counter, 2, p.column_counter);
     }},
    {"nvfp4_square_blocks_of_7168_columns", "quantize_nvfp4",
     [](const View& v) { spoil_last_if(v.has_block(16, 16) && v.p().cols == 7168, v.out(0)); }},
    {"nvfp4_stochastic_bytes_of_7168_columns", "quantize_nvfp4",
     [](const View& v) {
       spoil_last_if(has_options(v) && v.policy<Nvfp4>().rounding == MXCHECK_STOCHASTIC_BYTES && v.p().cols == 7168,
                     v.out(0));
     }},
    {"gemm_dense_c_alone", "matmul", matmul_is<MXCHECK_DENSE, is_c_alone>},
    {"gemm_an_infinite_alpha", "matmul", matmul_is<MXCHECK_DENSE, is_infinite>},
    {"gemm_masked_of_an_infinite_alpha", "matmul", matmul_is<MXCHECK_MASKED, is_infinite>},
    {"gemm_dense_65_rows_at_a_k_beyond_2048", "matmul", matmul_is<MXCHECK_DENSE, is_tall_and_deep>},
    {"gemm_dense_65_x_65_at_a_k_beyond_8192", "matmul", matmul_is<MXCHECK_DENSE, is_large_each_way>},
    {"gemm_dense_2_rows_beyond_4096_columns_at_a_k_beyond_256", "matmul", matmul_is<MXCHECK_DENSE, is_wide_and_deep>},
    {"gemm_dense_beyond_16384_rows_of_8_at_a_k_beyond_128", "matmul", matmul_is<MXCHECK_DENSE, is_tall_of_odd_depth>},
    {"gemm_dense_rows_of_16_bits", "matmul", matmul_is<MXCHECK_DENSE, is_of_65536_rows>},
    {"gemm_masked_k_of_7168", "matmul", matmul_is<MXCHECK_MASKED, is_7168_deep>},
    {"gemm_masked_n_of_2880", "matmul", matmul_is<MXCHECK_MASKED, is_2880_wide>},
    {"gemm_an_alpha_of_nan", "matmul", nullptr,
     [](Asked& a) {
       if (a.has<Gemm>() && std::isnan(a.policy<Gemm>().alpha)) a.policy<Gemm>().alpha = 1;
     }},
    {"gemm_one_masked_group_of_two_tiles", "matmul", one_tall_masked_group},
    {"gemm_sign_of_a_scale_in_the_last_block", "matmul", nullptr, sign_lost_in_the_last_block},
    {"moe_d_of_4096", "moe_*", layer_is<is_4096_wide>},
    {"moe_d_of_7168", "moe_*", layer_is<is_7168_wide>},
    {"moe_inner_beyond_2048", "moe_*", layer_is<is_beyond_2048>},
    {"moe_256_experts", "moe_*", layer_is<has_256_experts>},
    {"moe_384_experts", "moe_*", layer_is<has_384_experts>},
    {"moe_two_whole_tiles_before_empty_experts", "moe_*", two_whole_tiles_before_empty_experts},
    {"moe_seed_step_and_layer_0_are_none", "moe_backward", nullptr,
     [](Asked& a) {
       if (a.has<Layer>() && has_no_number(a.policy<Layer>())) a.policy<Layer>().seed = 42;
     }},
    {"moe_two_tiles_each_way", "moe_*", layer_is<has_two_tiles_each_way>},
    {"moe_a_step_of_training", "moe_backward", nullptr,
     [](Asked& a) {
       if (a.has<Layer>() && a.policy<Layer>().step > 0 && a.policy<Layer>().step < 1024) a.policy<Layer>().step = 0;
     }},
};

}  // namespace

std::span<const Fault> faults_of_scales_words_and_sizes() { return kFaults; }

}  // namespace narrow
