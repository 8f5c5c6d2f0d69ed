// The gate's quick suite against libraries that are wrong in a narrow part of the domain: from a width on, from the
// ninth expert on, at one address, for one value of a policy's field. Each is found, by the statement that the
// catalogue names; the whole suite is run on each at night.

#include <gtest/gtest.h>

#include <string>

#include "tests/libraries/gate_on.h"

namespace {

using mxcheck::test::WrongLibrary;

class NarrowFaults : public testing::TestWithParam<WrongLibrary> {};

TEST_P(NarrowFaults, are_found) {
  const WrongLibrary& one = GetParam();
  const char* const right = one.value("of", "cpu") == "matmul" ? MXCHECK_HOST_MATMUL : MXCHECK_CPU_LIBRARY;
  const std::string environment = "NARROW=" + one.name + " NARROW_OF=" + right;
  const std::string suite = one.value("suite", "quick");
  expect_found(mxcheck::test::gate_on(MXCHECK_NARROW_LIBRARY, environment,
                                      "--seed 1 --suite " + suite + " --only " + one.found_by + " 2>&1"),
               one, one.found_by);
}

INSTANTIATE_TEST_SUITE_P(All, NarrowFaults, testing::ValuesIn(mxcheck::test::tabled_libraries("narrow")),
                         [](const auto& info) { return info.param.name; });

}  // namespace
