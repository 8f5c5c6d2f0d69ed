#pragma once
// GoogleTest, the parts of the standard library that most tests use, and helpers for every test.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string_view>
#include <utility>

#include "tests/goldens/temporary_directory.h"

namespace mxcheck::test {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

inline void expect_contains(std::string_view text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nexpected: " << part;
}
inline void expect_contains(std::string_view text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) expect_contains(text, part);
}

// The kind and text of what a call throws; text "nothing thrown" when it does not.
struct Thrown {
  ErrorKind kind = ErrorKind::internal;
  std::string text = "nothing thrown";
};
template <class Call>
Thrown thrown_by(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  return {};
}

// The text of the Error of this kind that a call must throw.
template <class Call>
std::string text_thrown(ErrorKind kind, Call call) {
  const Thrown thrown = thrown_by(call);
  EXPECT_EQ(thrown.kind, kind) << thrown.text;
  return thrown.text;
}
template <class Call>
void expect_thrown(ErrorKind kind, const std::string& text, Call call) {
  EXPECT_EQ(text_thrown(kind, call), text);
}

}  // namespace mxcheck::test
