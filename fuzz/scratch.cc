#include "fuzz/scratch.h"

#include <stdlib.h>

#include <filesystem>

#include "fuzz/check.h"

namespace mxcheck::fuzz {

const std::string& scratch() {
  struct Folder {
    std::string path;
    Folder() {
      const std::filesystem::path memory("/dev/shm");
      const auto parent = std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
      path = (parent / "mxcheck-fuzz-XXXXXX").string();
      require(::mkdtemp(path.data()) != nullptr, "there is a place for a folder");
    }
    ~Folder() { std::filesystem::remove_all(path); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
  };
  static const Folder folder;
  return folder.path;
}

}  // namespace mxcheck::fuzz
