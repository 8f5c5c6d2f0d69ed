#pragma once
// Overflow-checked size arithmetic: shapes come from files and command lines.
// Errors: Error{usage} naming the size.

#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "numerics/error.h"

namespace mxcheck {

// The product of two sizes >= 0.
inline std::int64_t checked_product(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw Error(ErrorKind::usage, std::string(what) + ": " + std::to_string(a) + " x " + std::to_string(b) +
                                      " is beyond 2^63 - 1; use smaller dimensions");
  }
  return product;
}

inline std::int64_t checked_sum(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    throw Error(ErrorKind::usage, std::string(what) + ": " + std::to_string(a) + " + " + std::to_string(b) +
                                      " is beyond 2^63 - 1; use smaller dimensions");
  }
  return sum;
}

// n / divisor rounded up, for n >= 0 and divisor > 0; cannot overflow.
constexpr std::int64_t ceil_div(std::int64_t n, std::int64_t divisor) {
  return n / divisor + (n % divisor != 0 ? 1 : 0);
}

inline std::int64_t checked_round_up(std::int64_t n, std::int64_t multiple, std::string_view what) {
  return checked_product(ceil_div(n, multiple), multiple, what);
}

// Sizes the vector, or Error{environment} when the machine has not that much memory.
template <class T>
void resize_or_throw(std::vector<T>& v, std::int64_t size, std::string_view what, T fill = T{}) {
  try {
    v.assign(static_cast<std::size_t>(size), fill);
  } catch (const std::exception&) {  // std::bad_alloc, or std::length_error beyond the vector's own limit
    throw Error(ErrorKind::environment, std::string(what) + ": no memory for " + std::to_string(size) + " values of " +
                                            std::to_string(sizeof(T)) + " bytes");
  }
}

}  // namespace mxcheck
