#include "kernels/cpu/layer/codes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/cpu/quantize/scalar_block.h"

namespace mxcheck_kernels::cpu {
namespace {

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

std::uint32_t amax_of(const Line& line) {
  std::uint32_t amax = 0;
  for (std::int64_t i = 0; i < line.count; ++i)
    amax = std::max(amax, bits_of(line.x[i * line.x_step]) & kFp32Magnitude);
  return amax;
}

// E8M0: an infinite amax and a NaN make the scale NaN and every code too.
template <class F>
void encode_e8m0(CodeScale rule, const Line& line, std::uint8_t& scale) {
  const std::uint32_t amax = amax_of(line);
  const bool poisoned = amax >= kFp32Infinity;
  scale = poisoned ? 255 : scale_byte<F>(rule == CodeScale::floor ? ScaleRule::floor : ScaleRule::rceil, amax);
  for (std::int64_t i = 0; i < line.count; ++i) {
    line.codes[i * line.code_step] =
        poisoned ? F::kNanCode : encode_element<F>(bits_of(line.x[i * line.x_step]), scale);
  }
}

template <class F>
void encode_fp32(float largest, const Line& line, float& scale) {
  const std::uint32_t amax = amax_of(line);
  const bool poisoned = amax >= kFp32Infinity;
  scale = poisoned ? std::numeric_limits<float>::quiet_NaN() : std::bit_cast<float>(amax) / largest;
  if (scale == 0) scale = 1;  // of zeros, and of amax below half of the smallest subnormal times the largest value
  for (std::int64_t i = 0; i < line.count; ++i) {
    line.codes[i * line.code_step] =
        poisoned ? F::kNanCode : encode_element<F>(bits_of(line.x[i * line.x_step] / scale), 127);
  }
}

std::int64_t scale_bytes(const Coding& coding) { return coding.scale == CodeScale::fp32 ? 4 : 1; }

}  // namespace

void encode_block(const Coding& coding, const Line& line, void* scale) {
  const bool e4m3 = coding.element == Element::e4m3;
  if (coding.scale == CodeScale::fp32) {
    float& to = *static_cast<float*>(scale);
    return e4m3 ? encode_fp32<E4m3>(448, line, to) : encode_fp32<E5m2>(57344, line, to);
  }
  std::uint8_t& to = *static_cast<std::uint8_t*>(scale);
  return e4m3 ? encode_e8m0<E4m3>(coding.scale, line, to) : encode_e8m0<E5m2>(coding.scale, line, to);
}

void encode_rows(const Coding& coding, const Values& values, std::uint8_t* codes, void* scales) {
  const std::int64_t blocks = (values.cols + coding.block - 1) / coding.block;
  for (std::int64_t row = 0; row < values.rows; ++row) {
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t first = row * values.cols + block * coding.block;
      const std::int64_t count = std::min<std::int64_t>(coding.block, values.cols - block * coding.block);
      encode_block(coding, {values.x + first, 1, codes + first, 1, count},
                   static_cast<std::uint8_t*>(scales) + (row * blocks + block) * scale_bytes(coding));
    }
  }
}

void encode_columns(const Coding& coding, const Values& values, std::uint8_t* codes, std::int64_t code_stride,
                    void* scales, std::int64_t scale_stride) {
  for (std::int64_t j = 0; j < values.cols; ++j) {
    encode_block(coding, {values.x + j, values.cols, codes + j * code_stride, 1, values.rows},
                 static_cast<std::uint8_t*>(scales) + j * scale_stride * scale_bytes(coding));
  }
}

namespace {

void add_bands(std::vector<Band>& bands, std::int64_t begin, std::int64_t end, std::int64_t height) {
  for (std::int64_t first = begin; first < end; first += height)
    bands.push_back({first, std::min(height, end - first)});
}

}  // namespace

std::vector<Band> bands_of(const Checked& offsets, std::int64_t rows, std::int64_t height) {
  std::vector<Band> bands;
  if (offsets.cols == 0) {
    add_bands(bands, 0, rows, height);
    return bands;
  }
  const auto* const at = static_cast<const std::int64_t*>(offsets.data);
  if (at[0] != 0) invalid("offsets[0] is " + std::to_string(at[0]) + ": must be 0");
  for (std::int64_t e = 1; e < offsets.cols; ++e) {
    if (at[e] < at[e - 1] || at[e] > rows) {
      invalid("offsets[" + std::to_string(e) + "] is " + std::to_string(at[e]) + ": must be " +
              std::to_string(at[e - 1]) + " to " + std::to_string(rows));
    }
    add_bands(bands, at[e - 1], at[e], height);
  }
  if (at[offsets.cols - 1] != rows) {
    invalid("the last of the offsets is " + std::to_string(at[offsets.cols - 1]) + ": must be the number of rows, " +
            std::to_string(rows));
  }
  return bands;
}

void require_bands(const char* name, const CodeTensors& tensors, const std::vector<Band>& bands) {
  const auto count = static_cast<std::int64_t>(bands.size());
  if (tensors.scales.cols == count) return;
  invalid(std::string(name) + " have " + std::to_string(tensors.scales.cols) + " columns: must have " +
          std::to_string(count) + ", the blocks of all experts");
}

}  // namespace mxcheck_kernels::cpu
