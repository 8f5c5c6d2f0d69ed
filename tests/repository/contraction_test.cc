// The build must not contract a * b + c into one rounding: neither the code that this very file is compiled to, nor by
// the flags of any other file.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace mxcheck {
namespace {

// Free to contract, were the build to allow it: the target has the instruction, the expression is one statement.
#if defined(__x86_64__)
__attribute__((noinline, target("fma")))
#else
__attribute__((noinline))
#endif
double
multiply_add(double a, double b, double c) {
  return a * b + c;
}

TEST(Contraction, is_off_in_this_build) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("fma")) GTEST_SKIP() << "this CPU has no FMA, so contraction could not show";
#endif
  // (1 + 2^-30)^2 = 1 + 2^-29 + 2^-60: the last term is lost when the product is rounded, and left when it is not.
  const double a = 1 + 0x1p-30;
  const double c = -(1 + 0x1p-29);
  ASSERT_EQ(std::fma(a, a, c), 0x1p-60);
  EXPECT_EQ(multiply_add(a, a, c), 0.0);
}

TEST(Contraction, is_off_in_the_flags_of_every_source_of_ours) {
  std::ifstream in(MXCHECK_BINARY_DIR "/compile_commands.json");
  ASSERT_TRUE(in.good());
  const nlohmann::json commands = nlohmann::json::parse(in);
  std::size_t seen = 0;
  for (const nlohmann::json& entry : commands) {
    const std::string file = entry.at("file");
    if (!file.ends_with(".cc") && !file.ends_with(".c")) continue;
    if (file.find("/examples/") != std::string::npos) continue;  // a third party's library, built its own way
    ++seen;
    const std::string command = entry.at("command");
    const std::size_t off = command.rfind("-ffp-contract=off");
    EXPECT_NE(off, std::string::npos) << file;
    for (const char* other : {"-ffp-contract=fast", "-ffp-contract=on", "-ffast-math", "-Ofast",
                              "-funsafe-math-optimizations", "-fassociative-math"}) {
      EXPECT_EQ(command.find(other), std::string::npos) << file << ": " << other;
    }
  }
  EXPECT_GT(seen, 10U);
}

}  // namespace
}  // namespace mxcheck
