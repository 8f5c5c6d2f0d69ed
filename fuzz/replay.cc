// Runs a fuzz target over the files of a folder, without libFuzzer: replay_NAME FOLDER.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/check.h"

int main(int count, char** arguments) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  if (count == 2 && fs::is_directory(arguments[1])) {
    for (const auto& entry : fs::directory_iterator(arguments[1])) files.push_back(entry.path());
  }
  if (files.empty()) {
    std::fprintf(stderr, "usage: %s FOLDER, which holds one input a file\n", arguments[0]);
    return 2;
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    std::printf("%s\n", file.c_str());
    std::fflush(stdout);  // so that the last line names the file that ended the program
    std::ifstream in(file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%zu inputs\n", files.size());
}
