#include "properties/records/source_digest.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

constexpr const char* kKernel = R"(
#include <cuda_bf16.h>  // the type
// A comment.
template <int kRows>
__global__ void kernel(float* x) {  /* another
   over two lines */
  const char* text = "// no comment";
  x[0] = kRows > 1'000 ? 1.5e+3F : R"r(/* nor this */)r"[0];
}
)";

TEST(SourceDigest, comments_and_formatting_are_no_part_of_a_source) {
  constexpr const char* kReformatted = R"(#include <cuda_bf16.h>
template <int kRows> __global__ void
kernel( float *x )
{
const char *text = "// no comment";   // moved
x[ 0 ] = kRows>1'000?1.5e+3F:R"r(/* nor this */)r"[0]; }
)";
  EXPECT_EQ(canonical_cpp(kKernel), canonical_cpp(kReformatted));
}

TEST(SourceDigest, everything_else_is) {
  const std::string text = kKernel;
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    const std::size_t at = other.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return other.replace(at, from.size(), to);
  };
  for (const auto& [from, to] : {std::pair{"kRows >", "kRows <"},
                                 {"1.5e+3F", "1.5e-3F"},
                                 {"// no comment", "// No comment"},
                                 {"1'000", "1000"},
                                 {"nor this", "nor  this"},
                                 {"float* x", "floatx"},
                                 {"<cuda_bf16.h>", "<cuda_fp8.h>"},
                                 {"x[0]", "x[00]"}}) {
    EXPECT_NE(canonical_cpp(text), canonical_cpp(changed(from, to))) << to;
  }
}

TEST(SourceDigest, what_compilers_read_differently_differs) {
  EXPECT_NE(canonical_cpp("a++ + b"), canonical_cpp("a + ++b"));
  EXPECT_NE(canonical_cpp("#define A b\nc"), canonical_cpp("#define A b c"));
  EXPECT_NE(canonical_cpp("#define A\n#define B"), canonical_cpp("#define A #define B"));
  EXPECT_EQ(canonical_cpp("#define A \\\n  b\nc"), canonical_cpp("#define A b\nc"));
  EXPECT_NE(canonical_cpp("ab"), canonical_cpp("a b"));
  EXPECT_EQ(canonical_cpp("'\"' // \"\n x"), canonical_cpp("'\"' x"));
  EXPECT_NE(canonical_cpp("\"\\\\\" // a\n"), canonical_cpp("\"\\\\\" b"));
}

TEST(SourceDigest, unfinished_texts_end) {
  for (const char* text : {"\"abc", "'", "R\"x(", "/* ", "//", "\\", "#", "R\"", "1e+"}) {
    EXPECT_FALSE(canonical_cpp(text).size() > 100) << text;
  }
}

TEST(SourceDigest, cmake_has_its_own_comments) {
  EXPECT_EQ(canonical_cmake("set(a \"b # c\")  # d\n# e\n"), canonical_cmake("set(a\n\"b # c\")"));
  EXPECT_NE(canonical_cmake("set(a b)"), canonical_cmake("set(a bc)"));
  EXPECT_NE(canonical_cmake("set(a \"b # c\")"), canonical_cmake("set(a \"b # d\")"));
}

TEST(SourceDigest, changed_missing_and_new_files_are_named) {
  const test::TemporaryDirectory root;
  std::filesystem::create_directories(root / "k");
  for (const char* name : {"k/a.cu", "k/b.h", "k/c.cu"}) test::write_file(root / name, "int x;");
  const std::string manifest = source_manifest(root.path(), {"k/c.cu", "k/a.cu", "k/b.h"});
  EXPECT_EQ(source_changes(root.path(), manifest), std::vector<std::string>{});
  test::write_file(root / "k/a.cu", "int x ; // the same");
  EXPECT_EQ(source_changes(root.path(), manifest), std::vector<std::string>{});
  test::write_file(root / "k/d.cuh", "");
  EXPECT_EQ(source_changes(root.path(), manifest), std::vector<std::string>{});  // nothing includes it
  test::write_file(root / "k/a.cu", "#include \"k/d.cuh\"");
  test::write_file(root / "k/notes.txt", "");
  std::filesystem::remove(root / "k/b.h");
  EXPECT_EQ(source_changes(root.path(), manifest),
            (std::vector<std::string>{"k/a.cu has changed", "k/b.h is missing", "k/d.cuh is new"}));
}

TEST(SourceDigest, a_folder_that_files_are_borrowed_from_may_have_others) {
  const test::TemporaryDirectory root;
  std::filesystem::create_directories(root / "own");
  std::filesystem::create_directories(root / "other");
  for (const char* name : {"own/a.cu", "own/b.h", "other/c.h", "other/d.h", "other/e.cu", "other/f.cu", "other/g.cu"}) {
    test::write_file(root / name, "int x;");
  }
  test::write_file(root / "own/a.cu", "#include \"other/c.h\"");
  test::write_file(root / "own/b.h", "#include <own/b.h>");
  const std::string manifest = source_manifest(root.path(), {"own/a.cu", "own/b.h", "other/c.h", "other/d.h"});
  EXPECT_EQ(source_changes(root.path(), manifest), std::vector<std::string>{});
  test::write_file(root / "other/c.h", "int y;");
  test::write_file(root / "other/d.h", "int y;");                    // nothing includes it
  test::write_file(root / "own/b.h", "#include <own/b.h>  int y;");  // but itself
  test::write_file(root / "own/h.cu", "");
  EXPECT_EQ(source_changes(root.path(), manifest),
            (std::vector<std::string>{"other/c.h has changed", "own/h.cu is new"}));
}

// A header of another library in the same folder, which includes one more.
TEST(SourceDigest, headers_that_no_source_reaches_may_be_new_or_change) {
  const test::TemporaryDirectory root;
  std::filesystem::create_directories(root / "k");
  for (const char* name : {"k/a.cu", "k/b.h", "k/c.h"}) test::write_file(root / name, "int x;");
  test::write_file(root / "k/a.cu", "#include \"k/b.h\"");
  const std::string manifest = source_manifest(root.path(), {"k/a.cu", "k/b.h", "k/c.h"});
  test::write_file(root / "k/d.cuh", "#include \"k/e.cuh\"\n#include \"k/c.h\"");
  test::write_file(root / "k/e.cuh", "#include \"k/d.cuh\"");
  test::write_file(root / "k/c.h", "int y;");
  EXPECT_EQ(source_changes(root.path(), manifest), std::vector<std::string>{});
  test::write_file(root / "k/b.h", "#include \"k/d.cuh\"");
  EXPECT_EQ(source_changes(root.path(), manifest),
            (std::vector<std::string>{"k/b.h has changed", "k/c.h has changed", "k/d.cuh is new", "k/e.cuh is new"}));
}

TEST(SourceDigest, a_folder_of_which_headers_alone_are_listed_may_have_others) {
  const test::TemporaryDirectory root;
  std::filesystem::create_directories(root / "face");
  for (const char* name : {"face/a.h", "face/b.h", "face/c.h"}) test::write_file(root / name, "int x;");
  test::write_file(root / "face/a.h", "#include <face/b.h>");
  const std::string manifest = source_manifest(root.path(), {"face/a.h", "face/b.h"});
  EXPECT_EQ(source_changes(root.path(), manifest), std::vector<std::string>{});
  test::write_file(root / "face/b.h", "int y;");
  EXPECT_EQ(source_changes(root.path(), manifest), (std::vector<std::string>{"face/b.h has changed"}));
}

TEST(SourceDigest, a_path_outside_the_root_is_not_followed) {
  const std::string digest(32, '0');
  EXPECT_EQ(source_changes("/", digest + "  ../etc/passwd\n"),
            std::vector<std::string>{"../etc/passwd is no path inside a repository"});
}

}  // namespace
}  // namespace mxcheck
