// Copies a family's library once for each fault: `mxcheck_stamp_faults LIBRARY PREFIX NAME...` writes PREFIXNAME.so
// with NAME and its number in the list in the stamps of the copy (stamp.h). A CUDA library has a stamp in its host code
// and one in the device code of each source.

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/libraries/wrong/stamp.h"

namespace {

using mxcheck_faults::kUnstamped, mxcheck_faults::Stamp;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::size_t> stamps_of(const std::string& library) {
  const std::string_view unstamped(reinterpret_cast<const char*>(&kUnstamped), sizeof(Stamp));
  std::vector<std::size_t> at;
  for (std::size_t i = library.find(unstamped); i != library.npos; i = library.find(unstamped, i + sizeof(Stamp)))
    at.push_back(i);
  if (at.empty()) throw std::runtime_error("the library has no stamp");
  return at;
}

Stamp stamp_of(int number, const std::string& name) {
  Stamp stamp = kUnstamped;
  if (name.empty() || name.size() >= sizeof(stamp.name)) throw std::runtime_error("too long for a stamp: " + name);
  stamp.number = number;
  std::memset(stamp.name, 0, sizeof(stamp.name));
  std::memcpy(stamp.name, name.data(), name.size());
  return stamp;
}

// Written beside its place and renamed, for a program that has the old copy loaded.
void write_library(const std::string& path, const std::string& bytes) {
  std::ofstream file(path + ".new", std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
  std::filesystem::permissions(path + ".new", std::filesystem::perms{0755});
  std::filesystem::rename(path + ".new", path);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fputs("usage: mxcheck_stamp_faults LIBRARY PREFIX NAME...\n", stderr);
    return 2;
  }
  try {
    std::string library = bytes_of(argv[1]);
    const std::vector<std::size_t> stamps = stamps_of(library);
    for (int i = 3; i < argc; ++i) {
      const Stamp stamp = stamp_of(i - 3, argv[i]);
      for (const std::size_t at : stamps) std::memcpy(library.data() + at, &stamp, sizeof(stamp));
      write_library(std::string(argv[2]) + argv[i] + ".so", library);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mxcheck_stamp_faults: %s\n", error.what());
    return 1;
  }
}
