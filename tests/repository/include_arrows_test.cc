// The arrows on planted violations, then on this repository.

#include "tests/repository/rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string>

namespace mxcheck::repository {
namespace {

struct Case {
  const char* path;
  const char* include;
  bool allowed;
};

void expect(std::span<const Case> cases, std::vector<Finding> (*rule)(std::string_view, std::string_view)) {
  for (const Case& c : cases) {
    const std::vector<Finding> findings = rule(c.path, std::string("// first\n#include ") + c.include + "\n");
    EXPECT_EQ(findings.empty(), c.allowed) << c.path << " includes " << c.include;
    if (!findings.empty()) {
      EXPECT_EQ(findings[0].line, 2U);
    }
  }
}

TEST(IncludeArrows, of_the_design_are_allowed_and_no_others) {
  constexpr std::array kCases{
      Case{"numerics/a.h", "\"numerics/b.h\"", true},
      Case{"numerics/a.h", "<vector>", true},
      Case{"numerics/a.h", "\"reference/b.h\"", false},
      Case{"numerics/a.h", "<reference/b.h>", false},
      Case{"reference/a.cc", "\"numerics/b.h\"", true},
      Case{"reference/a.cc", "\"goldens/b.h\"", false},
      Case{"reference/a.cc", "\"kernels/candidate.h\"", false},
      Case{"reference/a.cc", "\"../kernels/cpu/b.h\"", false},
      Case{"bindings/a.cc", "\"reference/b.h\"", true},
      Case{"bindings/a.cc", "\"kernels/candidate.h\"", false},
      Case{"reference/a.cc", "\"bindings/b.h\"", false},
      Case{"goldens/a.cc", "\"reference/b.h\"", true},
      Case{"goldens/a.cc", "\"properties/b.h\"", false},
      Case{"goldens/a.cc", "\"mxcheck_version.h\"", false},
      Case{"goldens/a.cc", "\"neighbour.h\"", false},
      Case{"properties/a.cc", "\"mxcheck_version.h\"", true},
      Case{"examples/a.cc", "\"kernels/candidate.h\"", true},
      Case{"examples/a.cc", "\"numerics/format/codec.h\"", false},
      Case{"examples/cpp/a.cc", "<mxcheck/mxcheck.h>", true},
      Case{"examples/cpp/a.cc", "\"numerics/error.h\"", false},
      Case{"examples/cpp/a.cc", "\"kernels/candidate.h\"", false},
      Case{"reference/a.cc", "<mxcheck/numerics/error.h>", false},
      Case{"kernels/cpu/a.cc", "\"hwy/highway.h\"", true},
      Case{"properties/a.cc", "\"goldens/b.h\"", true},
      Case{"properties/a.cc", "\"kernels/candidate.h\"", true},
      Case{"properties/a.cc", "\"kernels/cpu/b.h\"", false},
      Case{"properties/a.cc", "\"tools/b.h\"", false},
      Case{"kernels/cpu/a.cc", "\"kernels/cpu/b.h\"", true},
      Case{"kernels/cpu/a.cc", "\"kernels/candidate.h\"", true},
      Case{"kernels/cpu/a.cc", "\"kernels/common/b.h\"", true},
      Case{"kernels/common/a.cc", "\"kernels/cpu/b.h\"", false},
      Case{"kernels/cpu/a.cc", "\"kernels/sm90/b.h\"", false},
      Case{"kernels/cpu/a.cc", "\"numerics/format/codec.h\"", false},
      Case{"kernels/cpu/a.cc", "\"reference/b.h\"", false},
      Case{"kernels/candidate.h", "\"numerics/format/codec.h\"", false},
      Case{"tools/a.cc", "\"properties/b.h\"", true},
      Case{"tests/kernels/a.cc", "\"kernels/cpu/b.h\"", true},
      Case{"fuzz/a.cc", "\"goldens/b.h\"", true},
      Case{"goldens/a.cc", "\"fuzz/b.h\"", false},
  };
  expect(kCases, forbidden_includes);
  EXPECT_TRUE(forbidden_includes("numerics/a.h", "// #include \"reference/b.h\"\n").empty());
}

TEST(IncludeArrows, between_groups_of_properties_are_allowed_as_listed) {
  constexpr std::array kCases{
      Case{"properties/core/a.cc", "\"properties/core/b.h\"", true},
      Case{"properties/core/a.cc", "\"properties/process/b.h\"", false},
      Case{"properties/core/a.cc", "\"properties/operations/router/case.h\"", false},
      Case{"properties/core/a.cc", "\"reference/b.h\"", true},  // not this table's business
      Case{"properties/process/a.cc", "\"properties/core/b.h\"", true},
      Case{"properties/process/a.cc", "\"properties/gpu_model/gpu_model.h\"", true},
      Case{"properties/process/a.cc", "\"properties/statements/b.h\"", false},
      Case{"properties/process/a.cc", "\"properties/records/b.h\"", false},
      Case{"properties/operations/matmul/a.cc", "\"properties/operations/matmul/b.h\"", true},
      Case{"properties/operations/matmul/a.cc", "\"properties/core/b.h\"", true},
      Case{"properties/operations/matmul/a.cc", "\"properties/operations/router/b.h\"", false},
      Case{"properties/operations/matmul/a.cc", "\"properties/operations/registry.h\"", false},
      Case{"properties/operations/matmul/a.cc", "\"properties/gate/b.h\"", false},
      Case{"properties/operations/matmul/a.cc", "\"properties/statements/b.h\"", false},
      Case{"properties/operations/quantize/a.cc", "\"properties/operations/dequantize/problem.h\"", true},
      Case{"properties/operations/dequantize/a.cc", "\"properties/operations/quantize/problem.h\"", false},
      Case{"properties/operations/scaled_blocks/a.cc", "\"properties/operations/quantize/problem.h\"", false},
      Case{"properties/operations/registry.cc", "\"properties/operations/router/b.h\"", true},
      Case{"properties/operations/registry.cc", "\"properties/operations/registry.h\"", true},
      Case{"properties/operations/registry.cc", "\"properties/gate/b.h\"", false},
      Case{"properties/statements/a.cc", "\"properties/core/b.h\"", true},
      Case{"properties/statements/a.cc", "\"properties/operations/router/b.h\"", false},
      Case{"properties/statements/a.cc", "\"properties/gate/b.h\"", false},
      Case{"properties/diagnosis/a.cc", "\"properties/core/b.h\"", true},
      Case{"properties/diagnosis/a.cc", "\"properties/operations/router/b.h\"", false},
      Case{"properties/gate/a.cc", "\"properties/process/b.h\"", true},
      Case{"properties/gate/a.cc", "\"properties/records/b.h\"", true},
      Case{"properties/gate/a.cc", "\"properties/operations/matmul/b.h\"", false},
      Case{"properties/gate/a.cc", "\"properties/report/b.h\"", false},
      Case{"properties/records/a.cc", "\"properties/process/b.h\"", true},
      Case{"properties/records/a.cc", "\"properties/gate/b.h\"", false},
      Case{"properties/report/a.cc", "\"properties/records/b.h\"", true},
      Case{"properties/report/a.cc", "<properties/operations/router/b.h>", false},
      Case{"tools/a.cc", "\"properties/operations/router/b.h\"", true},
      Case{"tests/properties/a.cc", "\"properties/gate/b.h\"", true},
  };
  expect(kCases, forbidden_group_includes);
}

TEST(Repository, includes_follow_the_arrows) {
  EXPECT_EQ(report([](const Source& s) { return forbidden_includes(s.path, s.text); }), "");
}

TEST(Repository, every_group_of_properties_has_an_arrow) {
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(root() / "properties")) {
    if (!entry.is_directory()) continue;
    const std::string group = "properties/" + entry.path().filename().string() + "/";
    EXPECT_TRUE(std::ranges::any_of(property_arrows(), [&](const Arrow& a) { return a.from == group; })) << group;
  }
}

TEST(Repository, groups_of_properties_follow_their_arrows) {
  EXPECT_EQ(report([](const Source& s) { return forbidden_group_includes(s.path, s.text); }), "");
}

}  // namespace
}  // namespace mxcheck::repository
