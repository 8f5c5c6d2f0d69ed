#pragma once
// A tensor: a format, a shape and the bytes of its elements. Files, quantized matrices, cases of the gate and the
// trainer hold their tensors in it.
//
//   const Tensor x = tensor_of<float>(Format::fp32, {2, 3}, values);
//   x.as<float>()[4]            element (1, 1)
//   x.code(4)                   its bits
//
// Elements are little-endian and row-major, of any shape, empty ones (an extent of 0) and scalars (no extent) included.
// One element a code: a code of fewer than 8 bits has a byte (numerics/format/packing.h packs them), E5M6 two bytes.
//
// Errors: Error{internal} of as() for an element of another width; Error{usage} of make_tensor for a shape with a
// negative extent or of more than 2^63 - 1 elements, Error{environment} without memory. code() and set_code() check
// nothing.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/format.h"

namespace mxcheck {

struct Tensor {
  std::string name;  // in a file; elsewhere empty
  Format format = Format::uint8;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;
  friend bool operator==(const Tensor&, const Tensor&) = default;

  [[nodiscard]] std::size_t size() const { return data.size() / size_of(format); }  // in elements
  [[nodiscard]] bool empty() const { return data.empty(); }
  [[nodiscard]] std::int64_t rows() const { return shape.at(0); }  // of a matrix
  [[nodiscard]] std::int64_t cols() const { return shape.at(1); }

  // The elements as numbers of this type, whose width is the format's.
  template <class T>
  [[nodiscard]] std::span<const T> as() const {
    check_width(sizeof(T));
    static_assert(std::is_trivially_copyable_v<T>);
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
  template <class T>
  [[nodiscard]] std::span<T> as() {
    check_width(sizeof(T));
    static_assert(std::is_trivially_copyable_v<T>);
    return {reinterpret_cast<T*>(data.data()), data.size() / sizeof(T)};
  }

  // The bits of element i, row-major, of a format of at most 32 bits.
  [[nodiscard]] std::uint32_t code(std::size_t i) const {
    switch (size_of(format)) {
      case 1: return static_cast<std::uint8_t>(data[i]);
      case 2: return word<std::uint16_t>(i);
      default: return word<std::uint32_t>(i);
    }
  }
  void set_code(std::size_t i, std::uint32_t code) {
    std::memcpy(data.data() + i * size_of(format), &code, size_of(format));
  }

 private:
  template <class Word>
  [[nodiscard]] Word word(std::size_t i) const {
    Word bits = 0;
    std::memcpy(&bits, data.data() + i * sizeof(Word), sizeof(Word));
    return bits;
  }
  void check_width(std::size_t width) const {
    if (width == size_of(format)) return;
    throw Error(ErrorKind::internal, "elements of " + std::string(spec(format).name) + " have " +
                                         std::to_string(size_of(format)) + " bytes, not " + std::to_string(width));
  }
};

// A tensor of zeros. `what` it is opens the message of an error.
inline Tensor make_tensor(Format format, std::vector<std::int64_t> shape, std::string_view what = "tensor") {
  std::int64_t elements = 1;
  std::int64_t bytes = 0;
  for (const std::int64_t extent : shape) {
    if (extent >= 0 && !__builtin_mul_overflow(elements, extent, &elements)) continue;
    throw Error(ErrorKind::usage, std::string(what) + ": an extent of " + std::to_string(extent) +
                                      ": extents must be 0 or more, and have a product of at most 2^63 - 1");
  }
  Tensor t{"", format, std::move(shape), {}};
  try {
    if (__builtin_mul_overflow(elements, static_cast<std::int64_t>(size_of(format)), &bytes)) throw std::bad_alloc();
    t.data.resize(static_cast<std::size_t>(bytes));
  } catch (const std::exception&) {  // std::bad_alloc, or std::length_error beyond the vector's own limit
    throw Error(ErrorKind::environment, std::string(what) + ": no memory for " + std::to_string(elements) +
                                            " values of " + std::to_string(size_of(format)) + " bytes");
  }
  return t;
}

// A tensor of these elements, each of the format's width; as many as the shape holds.
template <class T>
Tensor tensor_of(Format format, std::vector<std::int64_t> shape, std::span<const T> elements) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {"", format, std::move(shape), to_bytes(elements)};
}
template <class T>
Tensor tensor_of(Format format, std::vector<std::int64_t> shape, const std::vector<T>& elements) {
  return tensor_of(format, std::move(shape), std::span<const T>(elements));
}

// A matrix with its rows and columns exchanged: elements of `width` bytes of a matrix of rows x cols.
inline std::vector<std::byte> transposed(std::span<const std::byte> data, std::size_t width, std::int64_t rows,
                                         std::int64_t cols) {
  std::vector<std::byte> out(data.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      std::memcpy(out.data() + static_cast<std::size_t>(c * rows + r) * width,
                  data.data() + static_cast<std::size_t>(r * cols + c) * width, width);
    }
  }
  return out;
}
inline Tensor transposed(const Tensor& m) {
  return {m.name, m.format, {m.cols(), m.rows()}, transposed(m.data, size_of(m.format), m.rows(), m.cols())};
}

}  // namespace mxcheck
