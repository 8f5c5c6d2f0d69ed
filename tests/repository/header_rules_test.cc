// The rules on planted violations, then on this repository.

#include "tests/repository/rules.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace mxcheck::repository {
namespace {

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
            (std::vector<Finding>{{1, "the table of header_rules.cc has no std::no_such_name"}}));
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

}  // namespace
}  // namespace mxcheck::repository
