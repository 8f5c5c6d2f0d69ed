#include "reference/common/matrix.h"

#include <bit>
#include <cstring>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

template <class Bits>
Bits load(const std::byte* at) {
  Bits bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

float load_fp32(const std::byte* at) { return std::bit_cast<float>(load<std::uint32_t>(at)); }
float load_bf16(const std::byte* at) { return std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(at)} << 16); }
float load_fp16(const std::byte* at) {
  return static_cast<float>(decode(Format::fp16, load<std::uint16_t>(at)));  // exact
}

std::int64_t bytes_per_element(Format dtype) { return dtype == Format::fp32 ? 4 : 2; }

const std::byte* address(const MatrixView& m, std::int64_t row, std::int64_t col) {
  return m.data + (row * m.row_stride + col) * bytes_per_element(m.dtype);
}

}  // namespace

float MatrixView::at(std::int64_t row, std::int64_t col) const {
  const std::byte* element = address(*this, row, col);
  if (dtype == Format::fp32) return load_fp32(element);
  return dtype == Format::bf16 ? load_bf16(element) : load_fp16(element);
}

void MatrixView::read_row(std::int64_t row, std::span<float> values) const {
  const std::byte* element = address(*this, row, 0);
  if (dtype == Format::fp32) {
    if (!values.empty()) std::memcpy(values.data(), element, values.size_bytes());
  } else if (dtype == Format::bf16) {
    for (float& v : values) v = load_bf16(element), element += 2;
  } else {
    for (float& v : values) v = load_fp16(element), element += 2;
  }
}

void check_matrix(const MatrixView& m) {
  if (!spec(m.dtype).is_value) {
    refuse_usage("matrix of type " + std::string(spec(m.dtype).name) + ": must be fp32, bf16 or fp16");
  }
  if (m.rows < 0 || m.cols < 0) {
    refuse_usage("matrix of " + std::to_string(m.rows) + " x " + std::to_string(m.cols) + ": sizes must be 0 or more");
  }
  if (m.row_stride < m.cols) {
    refuse_usage("matrix row stride " + std::to_string(m.row_stride) + ": must be at least the " +
                 std::to_string(m.cols) + " columns of a row");
  }
  const std::int64_t elements = checked_product(m.rows, m.cols, "matrix elements");
  if (elements == 0) return;
  const std::int64_t span =
      checked_sum(checked_product(m.rows - 1, m.row_stride, "matrix rows by row stride"), m.cols, "matrix extent");
  checked_product(span, bytes_per_element(m.dtype), "matrix bytes");
  if (m.data == nullptr) {
    refuse_usage("matrix of " + std::to_string(m.rows) + " x " + std::to_string(m.cols) +
                 " without data: must point to it");
  }
}

BlockShape block_shape_named(std::string_view name) { return entry_named(kBlockShapes, "block shape", name).value; }

std::string to_text(BlockShape shape) {
  const std::string_view name = name_in(kBlockShapes, shape);
  return name.empty() ? std::to_string(shape.rows) + "x" + std::to_string(shape.cols) : std::string(name);
}

void check_offsets(std::span<const std::int64_t> offsets, std::int64_t rows) {
  if (offsets.empty()) return;
  if (offsets.front() != 0) refuse_usage("offset 0 is " + std::to_string(offsets.front()) + ": must be 0");
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1]) {
      refuse_usage("offset " + std::to_string(i) + " is " + std::to_string(offsets[i]) +
                   ": must be at least the one before, " + std::to_string(offsets[i - 1]));
    }
  }
  if (offsets.back() != rows) {
    refuse_usage("last offset (offset " + std::to_string(offsets.size() - 1) + ") is " +
                 std::to_string(offsets.back()) + ": must be the number of rows, " + std::to_string(rows));
  }
}

}  // namespace mxcheck
