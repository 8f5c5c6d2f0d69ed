// Faults of block scaling.

#include <cmath>
#include <cstdlib>

#include "numerics/format/codec.h"
#include "tests/narrow/faults.h"

namespace narrow {
namespace {

double value_at(const DLTensor& x, std::int64_t row, std::int64_t col) {
  const std::int64_t stride = x.strides == nullptr ? x.shape[1] : x.strides[0];
  const auto at = static_cast<std::size_t>(row * stride + col);
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

constexpr Fault kFaults[] = {
    {"truncates_from_512_columns", "quantize", truncates_from<512>},
    {"truncates_from_700_columns", "quantize", truncates_from<700>},
    {"truncates_from_1280_columns", "quantize", truncates_from<1280>},
    {"truncates_from_250000_elements_in_other_blocks", "quantize",
     [](const View& v) {
       if (!v.has_block(1, 32) && v.p().block_cols > 1 && v.p().rows * v.p().cols >= 250'000) truncate(v);
     }},
    {"wrong_columns_from_1280_rows", "quantize",
     [](const View& v) {
       if (v.has_block(32, 1) && v.p().rows >= 1280) spoil_row(v.out(0), 1279);
     }},
    {"wrong_in_the_ninth_expert", "quantize", [](const View& v) { spoil_row(v.out(0), v.last_row_of(8)); }},
    {"crashes_where_no_expert_has_a_row", "quantize",
     [](const View& v) {
       if (v.p().rows == 0 && v.experts() > 1) std::abort();
     }},
    {"x_beside_16_bytes", "quantize",
     [](const View& v) {
       if (View::address(v.in(0)) % 16 != 0) spoil(v.out(0), 0, 0);
     }},
    {"codes_beside_4_bytes", "quantize",
     [](const View& v) {
       if (View::address(v.out(0)) % 4 != 0) spoil_last(v.out(0));
     }},
    {"rows_lost_with_more_than_8_threads", "quantize",
     [](const View& v) {
       if (v.p().threads > 8) spoil_row(v.out(0), v.p().rows - 1);
     }},
    {"rows_lost_with_5_to_7_threads", "quantize",
     [](const View& v) {
       if (v.p().threads >= 5 && v.p().threads <= 7) spoil_row(v.out(0), v.p().rows - 1);
     }},
    {"keeps_4_kilobytes_a_call", "quantize",
     [](const View&) {
       volatile char* kept = static_cast<char*>(std::malloc(4096));
       for (int i = 0; i < 4096; i += 512) kept[i] = 1;
     }},
};

}  // namespace

std::span<const Fault> quantize_faults() { return kFaults; }

}  // namespace narrow
