#pragma once
// The "input" of a golden's spec: a matrix from a file, from real data, from bits of the spec, or made up.
//
// Untrusted: sizes are bounded. Errors: Error{usage} with the place and what would be right; those of the file's
// reader.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "goldens/io/readers.h"
#include "goldens/json/json.h"
#include "numerics/error.h"
#include "numerics/tensor.h"

namespace mxcheck {

enum class SyntheticLogits : std::uint8_t { none, ties, loads };

struct Planted {
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::uint32_t bits = 0;
};

// Half-open.
struct Range {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

struct InputSpec {
  std::string real, file, patterns;  // exactly one of these, or bits, or synthetic
  std::vector<std::uint32_t> bits;
  bool cycle = false;                   // bits over and over
  std::optional<std::uint32_t> normal;  // the seed
  int exponent = 0;
  SyntheticLogits synthetic = SyntheticLogits::none;
  std::vector<std::int64_t> loads;
  Format dtype = Format::bf16;  // of bits, patterns and synthetic logits
  std::string file_dtype;       // of file: "bf16" or "fp16" for unsigned 16-bit integers
  std::optional<std::int64_t> index;
  std::optional<Range> row_range, col_range;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<Planted> plants;
};

struct InputRows {
  Format dtype = Format::bf16;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::string source;  // for people: "layer0.w1, rows 0 to 70"
  std::unique_ptr<RowReader> reader;
};

InputRows open_input(const InputSpec& input, const std::string& directory);

// The whole of it; Error{usage} with `key` for another type than those named.
struct InputWords {
  std::vector<std::uint16_t> words;
  std::int64_t rows = 0, cols = 0;
  std::string source;
};
InputWords read_bf16(const InputSpec& input, const std::string& directory, const std::string& key);

struct InputFloats {
  std::vector<float> values;  // of BF16 or FP32
  std::int64_t rows = 0, cols = 0;
  std::string source;
};
InputFloats read_floats(const InputSpec& input, const std::string& directory, const std::string& key);

// Logits of 16 values: both zeros and both smallest subnormals, numbers one unit in the last place apart, and a few
// ordinary ones, so that hardly any row is without a tie or a near tie.
Tensor tied_logits(const InputSpec& input);

// [sum of loads, loads]: the largest logit of a row belongs to its expert, and expert e has loads[e] rows, assigned
// round-robin. Rows repeat, so that tokens tie for an expert.
Tensor loaded_logits(const InputSpec& input);

// The gradient of a golden's weights: numbers of 24 bits in [-1, 1).
std::vector<float> synthetic_gradient(std::int64_t count);

// The bits over and over, row after row. Cycles of lengths without a common divisor meet in every pair.
Tensor repeated_bits(const InputSpec& input);

// Twelve uniform numbers added up, less their mean, times 2^exponent, rounded to the nearest: within six standard
// deviations, which are 2^exponent.
Tensor normal_numbers(const InputSpec& input);

// Parts of a suite's text that several kinds share.

inline constexpr std::size_t kMostNumbers = 65'536;  // of a list
inline constexpr std::int64_t kMostExtent = std::int64_t{1} << 40;

// Errors of other libraries get the place in the spec prepended.
template <class Action>
auto at_place(const JsonObject& o, const char* key, Action action) {
  try {
    return action();
  } catch (const Error& e) {
    o.refuse(key, e.what());
  }
}

Format format_named(const JsonObject& o, const std::string& key, const std::string& name, std::span<const Format> of);

// The text, or an empty one where the value is something else.
inline std::string text_in(const Json& value) {
  const auto* text = value.get_if<std::string>();
  return text != nullptr ? *text : std::string();
}

// "3f80": hexadecimal digits of a number of this format.
std::uint32_t parse_bits(const JsonObject& o, const std::string& key, const Json& value, Format format);

// Integers in [low, high].
std::vector<std::int64_t> parse_integers(JsonObject& o, const char* key, std::int64_t low, std::int64_t high);

InputSpec parse_input(const Json& value, const std::string& place);

std::vector<std::int64_t> parse_offsets(JsonObject& o);

}  // namespace mxcheck
