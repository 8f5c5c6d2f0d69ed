// The rules on planted violations, then the rules on this repository.

#include "tests/repository/rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <regex>
#include <string>
#include <vector>

namespace mxcheck::repository {
namespace {

TEST(SourceRules, see_code_between_comments_and_literals) {
  EXPECT_EQ(code_only("a /* b */ c // d\ne"), "a         c     \ne");
  EXPECT_EQ(code_only("f(\"exit(1)\", 'x', 1'000)"), "f(\"       \", ' ', 1'000)");
  EXPECT_EQ(code_only(R"(f("a\"b") g)"), R"(f("    ") g)");
  EXPECT_EQ(code_only("#include \"a/b.h\"  // why", true), "#include \"a/b.h\"        ");
}

TEST(SourceRules, find_the_words_that_libraries_do_without) {
  struct Case {
    const char* path;
    const char* line;
    bool allowed;
  };
  constexpr std::array kCases{
      Case{"numerics/a.cc", "printf(\"%d\", 1);", false},
      Case{"numerics/a.cc", "snprintf(buffer, 9, \"%d\", 1);", true},
      Case{"goldens/a.cc", "std::cerr << 1;", false},
      Case{"goldens/a.cc", "fprintf(stderr, \"x\");", false},
      Case{"reference/a.cc", "std::abort();", false},
      Case{"kernels/cpu/a.cc", "exit(1);", false},
      Case{"properties/a.cc", "_exit(1);  // of the child", true},
      Case{"properties/a.cc", "on_exit_code(1);", true},
      Case{"tools/a.cc", "std::exit(1);", true},
      Case{"numerics/a.cc", "float f = *reinterpret_cast<const float*>(&bits);", false},
      Case{"numerics/a.cc", "auto b = reinterpret_cast<std::uint32_t&>(f);", false},
      Case{"numerics/a.cc", "auto b = reinterpret_cast<const char*>(p);", true},
      Case{"tests/a.cc", "rc::gen::arbitrary<float>()", false},
      Case{"tests/a.cc", "rc::gen::arbitrary<std::uint32_t>()", true},
      Case{"tools/a.cc", "using namespace std;", false},
      Case{"properties/a.cc", "std::random_device device;", false},
      Case{"tools/a.cc", "std::random_device device;", true},
      Case{"tools/a.cc", "srand(1);", false},
      Case{"tests/a.cc", "int operand(int);", true},
      Case{"reference/a.cc", "// TODO: later", false},
      Case{"reference/a.cc", "// TODO(#7): later", true},
      Case{"reference/a.cc", "assert(a == b);", false},
      Case{"reference/a.cc", "static_assert(a == b);", true},
      Case{"kernels/sm90/a.cc", "require_success(cudaDeviceSynchronize());", false},
      Case{"kernels/sm90/a.cc", "require_success(cudaStreamSynchronize(stream));", true},
      Case{"reference/a.cc", "f(\"exit(1)\");  // exit(1)", true},
  };
  for (const Case& c : kCases)
    EXPECT_EQ(forbidden_words(c.path, c.line).empty(), c.allowed) << c.path << ": " << c.line;
}

TEST(SourceRules, find_bytes_that_are_not_printable_ascii) {
  EXPECT_TRUE(forbidden_bytes("int a;\n").empty());
  EXPECT_EQ(forbidden_bytes("a\n\xC3\xA9\n"), (std::vector<Finding>{{2, "byte 195 is not printable ASCII"}}));
  EXPECT_EQ(forbidden_bytes("\ta\n").size(), 1U);
  EXPECT_EQ(forbidden_bytes("a\r\n").size(), 1U);
  EXPECT_EQ(forbidden_bytes("a \n").size(), 1U);
  EXPECT_EQ(forbidden_bytes("a").size(), 1U);
}

TEST(Repository, has_sources_to_check) { EXPECT_GT(sources().size(), 20U); }

TEST(Repository, sources_do_without_the_forbidden_words) {
  EXPECT_EQ(report([](const Source& s) {
              // This test's own examples are literals, but for its TODOs.
              return s.path.starts_with("tests/repository/") ? std::vector<Finding>{} : forbidden_words(s.path, s.text);
            }),
            "");
}

TEST(SourceRules, find_names_of_operations_in_shared_code) {
  EXPECT_EQ(operation_names("properties/gate/a.cc", "\nif (v.operation == \"cast\") f();").size(), 1U);
  EXPECT_EQ(operation_names("properties/core/a.cc", "is = text.starts_with(\"matmul:\");").size(), 1U);
  EXPECT_TRUE(operation_names("properties/core/a.cc", "// \"cast\", \"route\"\nf(\"broadcast\");").empty());
  EXPECT_TRUE(operation_names("properties/operations/cast/a.cc", "f(\"cast\");").empty());
}

TEST(Repository, shared_code_of_properties_names_no_operation) {
  EXPECT_EQ(report([](const Source& s) { return operation_names(s.path, s.text); }), "");
}

TEST(Repository, sources_are_printable_ascii) {
  EXPECT_EQ(report([](const Source& s) { return forbidden_bytes(s.text); }), "");
}

TEST(Repository, headers_are_included_once_only) {
  EXPECT_EQ(report([](const Source& s) {
              const bool header = s.path.ends_with(".h") || s.path.ends_with(".cuh");
              // Highway compiles its headers once for each target: their guard is a toggle.
              const bool toggled = s.path.ends_with("_inl.h") && s.text.find("HWY_TARGET_TOGGLE") != std::string::npos;
              const bool guarded = s.text.starts_with("#pragma once\n") || toggled ||
                                   s.path.starts_with("kernels/candidate") || s.path == "kernels/train.h" ||
                                   s.path == "bindings/mxcheck_c.h" || s.path == "bindings/worker/worker_c.h" ||
                                   s.path.ends_with("/candidate_multiply.h");
              return header && !guarded ? std::vector<Finding>{{1, "a header starts with #pragma once"}}
                                        : std::vector<Finding>{};
            }),
            "");
}

TEST(Repository, packages_are_sorted_and_explained) {
  const std::vector<std::string> names = package_names(contents(root() / "packages.txt"));
  EXPECT_GT(names.size(), 10U);
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  // docs/building.md has a section with one row a package, and no row for anything else.
  std::string page = contents(root() / "docs/building.md");
  page.erase(0, page.find("\n## Packages\n"));
  page.erase(page.find("\n## ", 1));
  std::vector<std::string> explained;
  const std::regex row(R"(\n\| `([a-z0-9.+-]+)` \| )");
  for (std::sregex_iterator it(page.begin(), page.end(), row), end; it != end; ++it) explained.push_back((*it)[1]);
  EXPECT_EQ(names, explained);
}

}  // namespace
}  // namespace mxcheck::repository
