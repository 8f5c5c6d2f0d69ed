#include "properties/process/loaded_files.h"

#include <array>
#include <fstream>
#include <string_view>

namespace mxcheck {

std::set<std::string> mapped_files() {
  std::set<std::string> files;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t at = line.find('/');  // no other column has one
    if (at == std::string::npos || line.ends_with(" (deleted)")) continue;
    std::string path = line.substr(at);
    if (!path.starts_with("/dev/") && !path.starts_with("/memfd:")) files.insert(std::move(path));
  }
  return files;
}

bool is_of_the_system(const std::string& path) {
  constexpr std::array<std::string_view, 6> kFolders{"/lib/",     "/lib32/",     "/lib64/",
                                                     "/usr/lib/", "/usr/lib32/", "/usr/lib64/"};
  for (const std::string_view folder : kFolders) {
    if (path.starts_with(folder)) return true;
  }
  return false;
}

}  // namespace mxcheck
