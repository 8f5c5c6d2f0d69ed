#pragma once
// Two tensors of the same shape, by bits: where they differ, how much, and what the differences have in common.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "numerics/format/format.h"

namespace mxcheck {

struct TensorInfo {
  std::string name;              // "codes", "scales", "row codes", "y"
  Format format = Format::e4m3;  // of an element: e4m3 (codes), e8m0 (scale bytes), fp32, bf16 (values)
  std::int64_t rows = 1;
  std::int64_t cols = 0;
  std::int64_t block_rows = 0;  // for pattern hints: elements of one block; 0 where there are none
  std::int64_t block_cols = 0;
  bool any_nan_is_equal = false;  // values: IEEE 754 leaves a NaN's payload open
  int integer_bits = 0;           // 32 or 64: signed integers, and format counts for nothing
  bool is_vector = false;         // of one dimension, cols
};

// The ways in which an element can differ. A case may show several.
enum class DifferenceKind : std::uint8_t { value, nan, sign_of_zero, unwritten };
inline constexpr DifferenceKind kDifferenceKinds[] = {DifferenceKind::value, DifferenceKind::nan,
                                                      DifferenceKind::sign_of_zero, DifferenceKind::unwritten};
const char* to_text(DifferenceKind kind);

struct Difference {
  TensorInfo tensor;
  std::int64_t count = 0;
  std::int64_t total = 0;
  struct Element {
    std::int64_t row = 0;
    std::int64_t col = 0;
    std::uint32_t expected = 0;
    std::uint32_t observed = 0;
    std::int64_t ulps = 0;              // -1: one of the two is NaN
    std::int64_t expected_integer = 0;  // of integers, in place of the words
    std::int64_t observed_integer = 0;
  };
  Element first;
  Element last;
  Element worst;
  bool first_alone = false;  // only the first and their number are known, of outputs that never left the device
  std::set<DifferenceKind> kinds;
  std::map<std::string, std::int64_t> histogram;  // "1 ulp", "2 to 3 ulp", ..., "NaN"
  std::string neighbours;                         // of the first: "(3, 31) right, (3, 33) wrong"
  std::string pattern;  // "only column 31", "every 32nd column", "all NaN", ...; empty if nothing stands out
};

// The kind of an element that was written; an integer differs by its value.
DifferenceKind kind_of(const TensorInfo& info, const Difference::Element& element);

// One element's value as a report shows it.
std::string expected_text(const Difference& d);  // of the first
std::string observed_text(const Difference& d);
std::size_t bytes_of_element(const TensorInfo& info);

// The bits of an element: of `width` bytes, at most 8; or of a format of at most 32 bits.
inline std::uint64_t word_at(std::span<const std::byte> bytes, std::size_t width, std::size_t index) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + index * width, width);
  return word;
}
inline std::uint32_t word_at(std::span<const std::byte> bytes, Format format, std::size_t index) {
  return static_cast<std::uint32_t>(word_at(bytes, size_of(format), index));
}

// Nothing when equal. poison: what the observed tensor held before it was written.
std::optional<Difference> compare(const TensorInfo& info, std::span<const std::byte> expected,
                                  std::span<const std::byte> observed, std::uint8_t poison);

// Every NaN of these values (FP32 or BF16; nothing happens to others) made the same one.
void make_nans_equal(std::vector<std::byte>& values, Format dtype);

}  // namespace mxcheck
