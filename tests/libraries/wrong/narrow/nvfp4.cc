// Faults of NVFP4: quantize_nvfp4 with and without options, dequantize_nvfp4, GEMMs of NVFP4 operands.

#include <bit>
#include <cmath>

#include "numerics/format/codec.h"
#include "tests/libraries/wrong/narrow/narrow.h"

namespace narrow {
namespace {

using Options = mxcheck_nvfp4_policy;

bool has_options(const View& v) { return v.p().size >= sizeof(Options); }
bool is_stochastic(const View& v, int kind = -1) {
  if (!has_options(v)) return false;
  const auto& o = v.policy<Options>();
  return kind < 0 ? o.rounding != MXCHECK_NEAREST : o.rounding == kind;
}

// Asks for other options where there are any.
template <class Change>
void change(Asked& a, const Change& to) {
  if (a.has<Options>()) to(a.policy<Options>());
}

bool is_subnormal(float f) {
  const std::uint32_t m = std::bit_cast<std::uint32_t>(f) & 0x7FFFFFFF;
  return m != 0 && m < 0x00800000;
}

// The sizes of experts; all rows where there are no offsets.
std::vector<std::int64_t> sizes(const View& v) {
  const DLTensor* offsets = v.integers(64);
  if (offsets == nullptr) return {v.p().rows};
  std::vector<std::int64_t> all;
  const auto* o = View::values<std::int64_t>(*offsets);
  for (std::int64_t e = 0; e + 1 < offsets->shape[0]; ++e) all.push_back(o[e + 1] - o[e]);
  return all;
}
bool has_size(const View& v, std::int64_t size) {
  const std::vector<std::int64_t> all = sizes(v);
  return v.integers(64) != nullptr && std::find(all.begin(), all.end(), size) != all.end();
}

// Values of dequantize_nvfp4, one by one.
template <class Each>
void values_of(const View& v, const Each& each) {
  const std::int64_t n = View::count(v.out(0));
  for (std::int64_t i = 0; i < n; ++i) {
    if (v.out(0).dtype.bits == 32) {
      auto& word = View::values<std::uint32_t>(v.out(0))[i];
      word = each(word, 32);
    } else {
      auto& word = View::values<std::uint16_t>(v.out(0))[i];
      word = static_cast<std::uint16_t>(each(word, 16));
    }
  }
}

constexpr Fault kFaults[] = {
    {"nvfp4_counter_of_8_bits", "quantize_nvfp4", nullptr,
     [](Asked& a) { change(a, [](Options& o) { o.counter[1] &= 0xFF; }); }},
    {"nvfp4_counter_ignored_beyond_4_bits", "quantize_nvfp4", nullptr,
     [](Asked& a) { change(a, [](Options& o) { o.counter[1] &= 0xF; }); }},
    {"nvfp4_column_counter_of_16_bits", "quantize_nvfp4", nullptr,
     [](Asked& a) { change(a, [](Options& o) { o.column_counter[1] &= 0xFFFF; }); }},
    {"nvfp4_first_counter_of_31_bits", "quantize_nvfp4", nullptr,
     [](Asked& a) { change(a, [](Options& o) { o.counter[0] &= 0x7FFFFFFF; }); }},
    {"nvfp4_seed_0_is_another", "quantize_nvfp4", nullptr,
     [](Asked& a) { change(a, [](Options& o) { o.seed = o.seed == 0 ? 42 : o.seed; }); }},
    {"nvfp4_seed_of_63_bits", "quantize_nvfp4", nullptr,
     [](Asked& a) { change(a, [](Options& o) { o.seed &= ~std::uint64_t{0} >> 1; }); }},
    {"nvfp4_offset_of_63_bits", "quantize_nvfp4", nullptr,
     [](Asked& a) { change(a, [](Options& o) { o.offset &= ~std::uint64_t{0} >> 1; }); }},
    {"nvfp4_offset_of_40_bits", "quantize_nvfp4", nullptr,
     [](Asked& a) { change(a, [](Options& o) { o.offset &= (std::uint64_t{1} << 40) - 1; }); }},
    {"nvfp4_carry_beyond_64_bits", "quantize_nvfp4",
     [](const View& v) {
       if (!is_stochastic(v, MXCHECK_STOCHASTIC)) return;
       const auto& o = v.policy<Options>();
       const auto n = static_cast<std::uint64_t>(v.p().rows * v.p().cols);
       if (n > 0 && o.offset + (n - 1) < o.offset) spoil_last(v.out(0));
     }},
    {"nvfp4_byte_carry_beyond_64_bits", "quantize_nvfp4",
     [](const View& v) {
       if (!is_stochastic(v, MXCHECK_STOCHASTIC_BYTES)) return;
       const auto& o = v.policy<Options>();
       const auto n = static_cast<std::uint64_t>(v.p().rows * v.p().cols);
       if (n > 0 && o.offset + (n - 1) < o.offset) spoil_last(v.out(0));
     }},
    {"nvfp4_both_carry_beyond_32_bits_in_columns", "quantize_nvfp4",
     [](const View& v) {
       if (!is_stochastic(v)) return;
       const auto& o = v.policy<Options>();
       const auto n = static_cast<std::uint64_t>(v.p().rows * v.p().cols);
       if (o.directions == 1 && n > 0 && o.offset >> 32 != (o.offset + n - 1) >> 32) spoil_last(v.out(2));
     }},
    {"nvfp4_numbers_begin_again_at_experts", "quantize_nvfp4",
     [](const View& v) { spoil_last_if(is_stochastic(v) && sizes(v).size() > 1, v.out(0)); }},
    {"nvfp4_odd_offset_of_bytes", "quantize_nvfp4",
     [](const View& v) {
       if (!is_stochastic(v, MXCHECK_STOCHASTIC_BYTES)) return;
       spoil_last_if(v.policy<Options>().offset % 16 == 15 && v.p().cols % 2 == 1, v.out(0));
     }},
    {"nvfp4_offset_times_4_beyond_64_bits", "quantize_nvfp4", nullptr,
     [](Asked& a) { change(a, [](Options& o) { o.offset = o.offset >> 62 != 0 ? o.offset << 2 >> 2 : o.offset; }); }},
    {"nvfp4_last_sign_of_128", "quantize_nvfp4", nullptr,
     [](Asked& a) {
       change(a, [](Options& o) {
         if (o.hadamard == 128) o.signs[3] &= 0x7FFFFFFF;
       });
     }},
    {"nvfp4_signs_of_64_repeat", "quantize_nvfp4", nullptr,
     [](Asked& a) {
       change(a, [](Options& o) {
         if (o.hadamard == 64) o.signs[1] = o.signs[0];
       });
     }},
    {"nvfp4_transform_of_128_with_rows_of_128", "quantize_nvfp4",
     [](const View& v) {
       if (has_options(v) && v.policy<Options>().hadamard == 128 && v.p().cols == 128) spoil_last(v.out(0));
     }},
    {"nvfp4_transform_of_64_beyond_2048_columns", "quantize_nvfp4",
     [](const View& v) {
       if (has_options(v) && v.policy<Options>().hadamard == 64 && v.policy<Options>().directions == 0)
         spoil(v.out(0), 0, 1024);
     }},
    {"nvfp4_transform_of_128_in_fp32_and_bytes", "quantize_nvfp4",
     [](const View& v) {
       if (!has_options(v)) return;
       const auto& o = v.policy<Options>();
       spoil_last_if(o.hadamard == 128 && o.rounding == 2 && o.hadamard_result == 1 && v.out(1).ndim == 1, v.out(0));
     }},
    {"nvfp4_both_beyond_4096_rows", "quantize_nvfp4",
     [](const View& v) {
       if (has_options(v) && v.policy<Options>().directions == 1) spoil(v.out(2), 0, 2048);
     }},
    {"nvfp4_both_beyond_4096_columns", "quantize_nvfp4",
     [](const View& v) {
       if (has_options(v) && v.policy<Options>().directions == 1) spoil(v.out(2), 4096, 0);
     }},
    {"nvfp4_both_in_tiles_of_129_columns", "quantize_nvfp4",
     [](const View& v) {
       if (has_options(v) && v.policy<Options>().directions == 1)
         spoil_last_if(v.p().cols % 128 == 1 && v.out(3).ndim == 1, v.out(3));
     }},
    {"nvfp4_both_of_one_row", "quantize_nvfp4",
     [](const View& v) {
       if (has_options(v) && v.policy<Options>().directions == 1) spoil_last_if(v.p().rows == 1, v.out(2));
     }},
    {"nvfp4_expert_of_128_rows_in_tiles", "quantize_nvfp4",
     [](const View& v) { spoil_last_if(has_size(v, 128) && v.out(1).ndim == 1, v.out(1)); }},
    {"nvfp4_expert_of_129_rows_in_tiles", "quantize_nvfp4",
     [](const View& v) { spoil_last_if(has_size(v, 129) && v.out(1).ndim == 1, v.out(1)); }},
    {"nvfp4_expert_of_128_rows", "quantize_nvfp4", [](const View& v) { spoil_last_if(has_size(v, 128), v.out(0)); }},
    {"nvfp4_stochastic_with_a_gap", "quantize_nvfp4",
     [](const View& v) {
       spoil_last_if(
           is_stochastic(v) && v.in(0).strides != nullptr && v.p().rows > 1 && v.in(0).strides[0] != v.p().cols,
           v.out(0));
     }},
    {"nvfp4_square_of_a_cut_expert", "quantize_nvfp4",
     [](const View& v) {
       const auto all = sizes(v);
       spoil_last_if(v.p().block_rows == 16 && all.size() > 1 && all.front() % 16 == 1, v.out(0));
     }},
    {"nvfp4_tensor_scale_flushed", "quantize_nvfp4",
     [](const View& v) { spoil_last_if(is_subnormal(View::values<float>(v.in(1))[0]), v.out(0)); }},
    {"nvfp4_fp32_x_flushed", "quantize_nvfp4",
     [](const View& v) {
       if (v.in(0).dtype.bits != 32 || v.in(0).strides != nullptr) return;
       const float* x = View::values<float>(v.in(0));
       const std::int64_t line = (v.p().cols + 1) / 2;
       for (std::int64_t i = 0; i < v.p().rows * v.p().cols; ++i) {
         if (!is_subnormal(x[i])) continue;
         auto& pair = View::values<std::uint8_t>(v.out(0))[i / v.p().cols * line + i % v.p().cols / 2];
         pair = static_cast<std::uint8_t>(pair & (i % v.p().cols % 2 == 0 ? 0xF0 : 0x0F));
       }
     }},
    {"nvfp4_scale_of_448_from_464", "quantize_nvfp4",
     [](const View& v) {
       if (v.out(1).ndim != 2) return;
       auto* s = View::values<std::uint8_t>(v.out(1));
       bool before = false;
       for (std::int64_t i = 0; i < View::count(v.out(1)); ++i) {
         if (s[i] == 0x7E && before) s[i] = 0x7D;
         before = s[i] == 0x7D;
       }
     }},
    {"nvfp4_65536_rows", "quantize_nvfp4", [](const View& v) { spoil(v.out(0), 65'536, 0); }},
    {"nvfp4_10240_columns", "quantize_nvfp4", [](const View& v) { spoil(v.out(0), 0, 8192); }},
    {"nvfp4_2880_columns_stochastic", "quantize_nvfp4",
     [](const View& v) { spoil_last_if(is_stochastic(v) && v.p().cols == 2880, v.out(0)); }},
    {"nvfp4_7168_columns_with_a_transform", "quantize_nvfp4",
     [](const View& v) {
       spoil_last_if(has_options(v) && v.policy<Options>().hadamard != 0 && v.p().cols == 7168, v.out(0));
     }},
    {"nvfp4_second_call_of_an_option", "quantize_nvfp4",
     [](const View& v) {
       static bool before = false;
       const bool now = is_stochastic(v);
       if (!now && before) spoil(v.out(0), 0, 0);
       before = now;
     }},
    // dequantize_nvfp4
    {"values_subnormal_flushed", "dequantize_nvfp4",
     [](const View& v) {
       values_of(v, [](std::uint32_t w, int bits) {
         const std::uint32_t exponent = bits == 32 ? 0x7F800000 : 0x7F80, sign = bits == 32 ? 0x80000000 : 0x8000;
         return (w & exponent) == 0 ? w & sign : w;
       });
     }},
    {"values_saturate", "dequantize_nvfp4",
     [](const View& v) {
       values_of(v, [](std::uint32_t w, int bits) {
         const std::uint32_t infinity = bits == 32 ? 0x7F800000 : 0x7F80, sign = bits == 32 ? 0x80000000 : 0x8000;
         return (w & ~sign) == infinity ? w - 1 : w;
       });
     }},
    {"values_of_scale_80_are_positive", "dequantize_nvfp4",
     [](const View& v) {
       if (v.in(1).ndim != 2 || v.p().block_rows != 1) return;
       const auto* s = View::values<std::uint8_t>(v.in(1));
       const std::int64_t cols = v.p().cols;
       std::int64_t i = 0;
       values_of(v, [&](std::uint32_t w, int bits) {
         const std::uint32_t sign = bits == 32 ? 0x80000000 : 0x8000;
         const bool is = s[i / cols * v.in(1).shape[1] + i % cols / 16] == 0x80;
         ++i;
         return is && (w & ~sign) == 0 ? 0 : w;
       });
     }},
    {"values_of_an_expert_of_128_rows_in_tiles", "dequantize_nvfp4",
     [](const View& v) { spoil_last_if(has_size(v, 128) && v.in(1).ndim == 1, v.out(0)); }},
    {"values_of_an_expert_of_128_rows", "dequantize_nvfp4",
     [](const View& v) { spoil_last_if(has_size(v, 128), v.out(0)); }},
    {"values_of_65536_rows", "dequantize_nvfp4", [](const View& v) { spoil(v.out(0), 65'536, 0); }},
    {"values_beyond_8192_columns", "dequantize_nvfp4", [](const View& v) { spoil(v.out(0), 0, 8192); }},
    {"values_of_7168_columns", "dequantize_nvfp4", [](const View& v) { spoil_last_if(v.p().cols == 7168, v.out(0)); }},
    {"values_tensor_scale_flushed", "dequantize_nvfp4",
     [](const View& v) { spoil_last_if(is_subnormal(View::values<float>(v.in(2))[0]), v.out(0)); }},
    {"values_in_one_binade_a_step_away", "dequantize_nvfp4",
     [](const View& v) {
       values_of(v, [](std::uint32_t w, int bits) {
         const std::uint32_t exponent = bits == 32 ? w >> 23 & 0xFF : w >> 7 & 0xFF;
         return exponent == 200 ? w ^ 1 : w;
       });
     }},
    {"values_of_the_17th_expert", "dequantize_nvfp4", [](const View& v) { spoil_row(v.out(0), v.last_row_of(16)); }},
};

}  // namespace

std::span<const Fault> faults_of_nvfp4() { return kFaults; }

}  // namespace narrow
