// The rules on planted violations, then the rules on this repository.

#include <regex>

#include "tests/repository/rules.h"
#include "tests/testing.h"

namespace mxcheck::repository {
namespace {

TEST(SourceRules, see_code_between_comments_and_literals) {
  EXPECT_EQ(code_only("a /* b */ c // d\ne"), "a         c     \ne");
  EXPECT_EQ(code_only("f(\"exit(1)\", 'x', 1'000)"), "f(\"       \", ' ', 1'000)");
  EXPECT_EQ(code_only(R"(f("a\"b") g)"), R"(f("    ") g)");
  EXPECT_EQ(code_only("#include \"a/b.h\"  // why", true), "#include \"a/b.h\"        ");
}

TEST(SourceRules, find_the_words_that_libraries_do_without) {
  using Case = std::tuple<const char*, const char*, bool>;
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
  for (const auto& [path, line, allowed] : kCases)
    EXPECT_EQ(forbidden_words(path, line).empty(), allowed) << path << ": " << line;
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

// The rules on planted violations, then on this repository.

TEST(HeaderRules, find_a_source_that_does_not_include_its_own_header_first) {
  const std::vector<std::string> headers{"a/b.h", "a/c.h", "a/k.cuh"};
  EXPECT_TRUE(own_header_first("a/b.cc", "// b\n#include \"a/b.h\"\n#include <map>\n", headers).empty());
  EXPECT_EQ(own_header_first("a/b.cc", "\n#include <map>\n#include \"a/b.h\"\n", headers),
            (std::vector<Finding>{{2, "the first include is not a/b.h"}}));
  EXPECT_EQ(own_header_first("a/b.cc", "int b;\n", headers).size(), 1U);
  EXPECT_EQ(own_header_first("a/k.cu", "#include \"a/b.h\"\n", headers).size(), 1U);
  EXPECT_TRUE(own_header_first("a/d.cc", "#include <map>\n", headers).empty());
  EXPECT_TRUE(own_header_first("b.cc", "#include <map>\n", headers).empty());
  EXPECT_TRUE(
      own_header_first("kernels/sm90/b.cu", "#include <map>\n", std::vector<std::string>{"kernels/sm90/b.h"}).empty());
  EXPECT_TRUE(own_header_first("a/b.h", "#include <map>\n", headers).empty());
}

TEST(HeaderRules, find_names_of_std_without_their_header) {
  const HeaderTexts headers{{"a/b.h", "#include \"a/c.h\"\n"}, {"a/c.h", "#include \"a/b.h\"\n#include <string>\n"}};
  const auto missing = [&](std::string_view text) { return missing_std_includes(text, headers); };
  EXPECT_EQ(missing("#include <vector>\n\nstd::vector<std::string> a;\nstd::string b;\n"),
            (std::vector<Finding>{{3, "std::string needs <string>"}}));
  EXPECT_TRUE(missing("#include \"a/b.h\"\nstd::string a;\n").empty()) << "by headers of ours";
  EXPECT_EQ(missing("#include \"a/d.h\"\nstd::string a;\n").size(), 1U);
  EXPECT_EQ(missing("#include \"vector\"\nstd::vector<int> a;\n").size(), 1U);
  EXPECT_EQ(missing("std::size_t a;\n").size(), 1U);
  EXPECT_TRUE(missing("#include <span>\nstd::size_t a;\n").empty());
  EXPECT_TRUE(missing("#include <stdint.h>\nstd::uint8_t a;\n").empty());
  EXPECT_TRUE(missing("// std::map\nconst char* a = \"std::map\"; my::std::map b;\n").empty());
  EXPECT_EQ(missing("std::filesystem::path a;\n"), (std::vector<Finding>{{1, "std::filesystem needs <filesystem>"}}));
  EXPECT_EQ(missing("std::no_such_name a;\n"),
            (std::vector<Finding>{{1, "the table of rules.cc has no std::no_such_name"}}));
}

bool is_header(const Source& source) { return source.path.ends_with(".h") || source.path.ends_with(".cuh"); }

TEST(Repository, sources_include_their_own_header_first) {
  std::vector<std::string> headers;
  for (const Source& source : sources()) {
    if (is_header(source)) headers.push_back(source.path);
  }
  EXPECT_GT(headers.size(), 100U);
  EXPECT_EQ(report([&](const Source& s) { return own_header_first(s.path, s.text, headers); }), "");
}

TEST(Repository, headers_include_what_they_use_of_std) {
  HeaderTexts headers;
  for (const Source& source : sources()) {
    if (is_header(source)) headers.emplace(source.path, source.text);
  }
  EXPECT_EQ(report([&](const Source& s) {
              return is_header(s) ? missing_std_includes(s.text, headers) : std::vector<Finding>{};
            }),
            "");
}

// The arrows on planted violations, then on this repository.

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
      Case{"cost/a.cc", "\"reference/b.h\"", true},
      Case{"cost/a.cc", "\"goldens/b.h\"", false},
      Case{"reference/a.cc", "\"cost/b.h\"", false},
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
