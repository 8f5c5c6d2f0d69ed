#include <sys/wait.h>

#include "tests/tools/command.h"

namespace mxcheck {
namespace {

class SourceDigest : public test::ToolTest {
 protected:
  // The lines that it printed, and its exit code.
  std::pair<std::string, int> digest(const std::string& arguments) {
    const std::string command = "'" MXCHECK_SOURCE_DIGEST "' " + arguments + " > " + (dir / "out") + " 2> /dev/null";
    const int status = std::system(command.c_str());
    return {test::read_file(dir / "out"), WEXITSTATUS(status)};
  }
};

TEST_F(SourceDigest, gives_each_source_a_line_that_follows_its_bytes_alone) {
  test::write_file(dir / "a.cc", "int a;\n");
  test::write_file(dir / "b.cc", "int b;\n");
  const auto [first, code] = digest(dir.path() + " a.cc b.cc");
  EXPECT_EQ(code, 0);
  EXPECT_EQ(std::count(first.begin(), first.end(), '\n'), 2);
  EXPECT_NE(first.find("  a.cc\n"), std::string::npos) << first;
  EXPECT_EQ(digest(dir.path() + " a.cc b.cc").first, first);
  test::write_file(dir / "b.cc", "int c;\n");
  const std::string second = digest(dir.path() + " a.cc b.cc").first;
  EXPECT_NE(second, first);
  EXPECT_EQ(second.substr(0, second.find('\n')), first.substr(0, first.find('\n')));
}

TEST_F(SourceDigest, writes_the_same_as_a_c_source) {
  test::write_file(dir / "a.cc", "int a;\n");
  const std::string line = digest(dir.path() + " a.cc").first;
  EXPECT_EQ(digest("--c " + dir.path() + " a.cc").first,
            "__attribute__((visibility(\"default\"))) const char mxcheck_candidate_sources[] =\n    \"" +
                line.substr(0, line.size() - 1) + "\\n\"\n    ;\n");
}

TEST_F(SourceDigest, refuses_what_it_cannot_read) {
  EXPECT_EQ(digest("").second, 2);
  EXPECT_EQ(digest(dir.path()).second, 2);
  EXPECT_EQ(digest(dir.path() + " none.cc").second, 2);
}

}  // namespace
}  // namespace mxcheck
