#include "properties/process/machine.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace mxcheck {
namespace {

TEST(Machine, names_build_processor_system_and_the_device_that_was_used) {
  CandidateInfo candidate;
  const auto pairs = build_and_machine(candidate);
  std::map<std::string, std::string> all(pairs.begin(), pairs.end());
  EXPECT_EQ(all.size(), 5U);
  EXPECT_NE(all["mxcheck"].find(" commit "), std::string::npos) << all["mxcheck"];
  EXPECT_NE(all["compiler"], "");
  EXPECT_NE(all["cpu"].find(" cores"), std::string::npos) << all["cpu"];
  EXPECT_NE(all["system"].find("Linux"), std::string::npos) << all["system"];
  EXPECT_EQ(all["gpu"], "none used");

  candidate.device = {{"device", "Fake GPU"}, {"driver", "CUDA 13.0"}};
  EXPECT_EQ(build_and_machine(candidate).back().second, "Fake GPU, driver CUDA 13.0");
}

}  // namespace
}  // namespace mxcheck
