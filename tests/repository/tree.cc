#include "tests/repository/rules.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>

namespace mxcheck::repository {

namespace fs = std::filesystem;

const fs::path& root() {
  static const fs::path path = MXCHECK_SOURCE_DIR;
  return path;
}

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

const std::vector<Source>& sources() {
  static const std::vector<Source> all = [] {
    static const std::set<std::string> kinds{".h", ".cc", ".c", ".cu", ".cuh"};
    std::vector<Source> found;
    for (const char* folder : {"bindings", "numerics", "emulation", "reference", "goldens", "kernels", "properties",
                               "tools", "trainer", "tests", "benchmarks", "examples", "fuzz", "pages"}) {
      for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root() / folder)) {
        if (!entry.is_regular_file() || !kinds.contains(entry.path().extension())) continue;
        found.push_back({fs::relative(entry.path(), root()).generic_string(), contents(entry.path())});
      }
    }
    return found;
  }();
  return all;
}

}  // namespace mxcheck::repository
