// Where libraries are looked for.

#include <gtest/gtest.h>

#include <filesystem>

#include "properties/process/candidate_process.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

namespace fs = std::filesystem;

class Installed : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"bin", "lib"}) fs::create_directory(dir_ / folder);
  }
  std::string put(const std::string& name) {
    test::write_file(dir_ / name, "");
    return fs::canonical(dir_ / name).string();
  }
  [[nodiscard]] std::string tool() const { return dir_ / "bin/mxcheck"; }
  test::TemporaryDirectory dir_;
};

TEST_F(Installed, a_name_is_a_library_beside_the_tool_or_in_lib) {
  test::expect_error(ErrorKind::usage, "no candidate named 'mine'; looked for " + tool().substr(0, tool().rfind('/')),
                     [&] { (void)find_candidate_library("mine", tool()); });
  const std::string in_lib = put("lib/libmxcheck_mine.so");
  EXPECT_EQ(find_candidate_library("mine", tool()), in_lib);
  const std::string beside = put("bin/libmxcheck_mine.so");
  EXPECT_EQ(find_candidate_library("mine", tool()), beside);
}

TEST(CandidateLibrary, is_found_by_its_path) {
  EXPECT_EQ(find_candidate_library(MXCHECK_TOY, "/nowhere/mxcheck"), MXCHECK_TOY);
  for (const char* none : {"./none.so", "/tmp"}) {
    test::expect_error(ErrorKind::usage, "does not exist", [&] { (void)find_candidate_library(none, "/bin/x"); });
  }
  test::expect_error(ErrorKind::usage, "no candidate named 'gpu9'; looked for /bin/libmxcheck_gpu9.so",
                     [] { (void)find_candidate_library("gpu9", "/bin/x"); });
}

TEST_F(Installed, the_gpu_model_is_where_it_is_said_to_be_or_nowhere) {
  EXPECT_EQ(find_gpu_model("", tool()).first, "");
  const std::string found = put("lib/libmxcheck_gpu_model.so");
  EXPECT_EQ(find_gpu_model("", tool()), std::pair(found, std::string()));
  const std::string own = put("lib/own.so");
  EXPECT_EQ(find_gpu_model(own, tool()).first, own);
  const auto [path, why] = find_gpu_model("/nowhere/own.so", tool());
  EXPECT_EQ(path, "");  // what is asked for by name is not replaced
  EXPECT_EQ(why, "there is no library of the GPU model; looked for /nowhere/own.so");
}

}  // namespace
}  // namespace mxcheck
