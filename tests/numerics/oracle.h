#pragma once
// The tests' second opinion: formats, roundings and scale rules from exact integers, found by comparison.
//
// Every value is a whole number of units of 2^-1200 (Boost.Multiprecision's cpp_int), so nothing is ever rounded here.
// A code is found by comparing distances to the representable values around the input; a scale byte by comparing amax
// with vmax * 2^e. Of numerics/ only the names (Format, Rounding, Overflow) are used: no table, no conversion.
//
// FloatEncoder is a third form of the same statement: per code the first FP32 pattern that reaches it, computed from
// exact bounds. Looking a pattern up costs a binary search, so that all 2^32 can be asked.

#include <boost/multiprecision/cpp_int.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "numerics/format/codec.h"

namespace mxcheck::oracle {

using Units = boost::multiprecision::cpp_int;  // of 2^-1200

enum class Kind { ieee, nan_above_max, finite, power_of_two, twos_complement };

// The formats once more, from the specifications, as this file needs them.
struct Shape {
  Kind kind;
  int bits;
  int mantissa_bits;
  int smallest_exponent;       // the spacing of the smallest values is 2^smallest_exponent
  std::uint32_t finite_count;  // magnitudes: codes 0 .. finite_count - 1
  std::uint32_t nan_code;
};
Shape shape_of(Format format);

// |x| of a finite x.
Units units(double x);

// The value of magnitude code m; m = finite_count gives what the next value would be, were there one.
Units magnitude(Format format, std::uint32_t m);

// The value of any code: sign and units; nullopt for NaN and infinities.
struct Value {
  bool negative;
  Units units;
};
std::optional<Value> value(Format format, std::uint32_t code);

std::uint32_t encode(Format format, double x, Rounding rounding, Overflow overflow, std::uint32_t random_word = 0);

// How many of the 2^32 random words round x up (away from zero), for x between two finite values.
std::uint64_t words_that_round_up(Format format, double x);

class FloatEncoder {
 public:
  FloatEncoder(Format format, Rounding rounding, Overflow overflow, std::uint32_t random_word = 0);

  std::uint32_t operator()(std::uint32_t pattern) const;  // of an FP32

  // The step of operator() at a pattern: one code for every pattern of [first, end). For sweeps that walk step by step.
  struct Step {
    std::uint64_t end;
    std::uint32_t code;
  };
  [[nodiscard]] Step step_at(std::uint32_t pattern) const;

  // By magnitude code m: the first non-negative pattern (or pattern without its sign) whose magnitude code is >= m.
  [[nodiscard]] const std::vector<std::uint32_t>& first_patterns(bool negative) const {
    return first_[negative ? 1 : 0];
  }

 private:
  [[nodiscard]] std::uint32_t code(std::uint32_t m, bool negative) const;

  Shape shape_;
  std::vector<std::uint32_t> first_[2];
};

// e + 127 within 0 .. 255 for the smallest e with amax <= vmax * 2^e: the rational round-up rule.
int rceil_byte(Format element, float amax);
// The same for floor(log2 amax) - emax and ceil(log2 amax) - emax.
int floor_byte(Format element, float amax);
int ceil_byte(Format element, float amax);

// Per scale byte b the largest finite FP32 pattern (of a non-negative amax) whose rceil_byte is at most b.
std::vector<std::uint32_t> largest_amax_per_byte(Format element);
// The same for floor_byte and ceil_byte.
std::vector<std::uint32_t> largest_amax_per_floor_byte(Format element);
std::vector<std::uint32_t> largest_amax_per_ceil_byte(Format element);

}  // namespace mxcheck::oracle
