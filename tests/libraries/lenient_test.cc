// The gate against wrappers of a right library. Those that accept one kind of bad argument each: every kind is found,
// by the statement about bad arguments, and named. And those that are wrong in a narrow part of the domain, from a
// width on, from the ninth expert on, at one address, for one value of a policy's field: each is found by the quick
// suite, by the statement that the catalogue names; the whole suite is run on each at night.

#include "tests/libraries/gate_on.h"

namespace {

using mxcheck::test::ShellAnswer, mxcheck::test::WrongLibrary;

const char* right_of(const WrongLibrary& one) {
  const std::string of = one.value("of", "cpu");
  if (of == "matmul") return MXCHECK_HOST_MATMUL;
  if (of == "layer") return MXCHECK_CPU_LAYER_LIBRARY;
  if (of == "nvfp4") return MXCHECK_CPU_NVFP4_LIBRARY;
  return of == "whole_layers" ? MXCHECK_REFERENCE_CANDIDATE : MXCHECK_CPU_LIBRARY;
}

ShellAnswer gate(const WrongLibrary& one) {
  return mxcheck::test::gate_on(MXCHECK_LENIENT_LIBRARY,
                                std::string("LENIENT_OF=") + right_of(one) +
                                    " LENIENT_OPERATION=" + one.value("operation", "") + " LENIENT=" + one.name,
                                "--only '" + (one.found_by.empty() ? "*" : one.found_by) +
                                    "' --seed 1 --jobs 1 --cases " + one.value("cases", "60") + " 2>&1");
}

class LenientLibraries : public testing::TestWithParam<WrongLibrary> {};

TEST_P(LenientLibraries, are_found_and_named) {
  const ShellAnswer ran = gate(GetParam());
  EXPECT_EQ(ran.code, GetParam().exit_code()) << ran.out;
  EXPECT_TRUE(ran.says(GetParam().says)) << GetParam().says << "\n" << ran.out;
}

INSTANTIATE_TEST_SUITE_P(All, LenientLibraries, testing::ValuesIn(mxcheck::test::tabled_libraries("lenient")),
                         [](const auto& info) { return info.param.name + "_" + info.param.value("operation", ""); });

TEST(LenientLibraries, limits_that_no_shape_has_are_refused_by_name) {
  int limits = 0;
  for (const WrongLibrary& one : mxcheck::test::wrong_libraries("lenient")) {
    if (one.exit != "2") continue;
    ++limits;
    const ShellAnswer ran = gate(one);
    EXPECT_EQ(ran.code, 2) << one.name << ran.out;
    EXPECT_TRUE(ran.says(one.says)) << one.name << ran.out;
  }
  EXPECT_EQ(limits, 6);
}

// The wrapper itself does no harm: with nothing that it lets through, the library is right.
TEST(LenientLibraries, that_accept_nothing_hold) {
  const ShellAnswer ran = gate(mxcheck::test::wrong_library("lenient", "nothing"));
  EXPECT_EQ(ran.code, 0) << ran.out;
}

class NarrowFaults : public testing::TestWithParam<WrongLibrary> {};

TEST_P(NarrowFaults, are_found) {
  const WrongLibrary& one = GetParam();
  // Whole layers: a fifth of the variants, which a minute is enough for.
  const std::string environment =
      "REFERENCE='operations=moe_forward,moe_backward;one_of=5' MATMUL_FORMAT=" + one.value("format", "") +
      " NARROW=" + one.name + " NARROW_OF=" + right_of(one);
  const std::string suite = one.value("suite", "quick");
  expect_found(mxcheck::test::gate_on(MXCHECK_NARROW_LIBRARY, environment,
                                      "--seed 1 --suite " + suite + " --only " + one.found_by + " 2>&1"),
               one, one.found_by);
}

INSTANTIATE_TEST_SUITE_P(All, NarrowFaults, testing::ValuesIn(mxcheck::test::tabled_libraries("narrow")),
                         [](const auto& info) { return info.param.name; });

}  // namespace
