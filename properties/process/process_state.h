#pragma once
// State that the whole process shares, and that a library may not change for the program that calls it: the working
// directory, the umask, the locale, the resource limits, the standard streams. And the resources that a library may
// leave taken: memory, open files, threads, children.

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <memory>
#include <string>

#include "properties/core/call.h"

namespace mxcheck {

class ProcessState {
 public:
  static ProcessState now();
  // Puts back the parts that differ from this, but for the streams; returns the differences in words, empty: none.
  [[nodiscard]] std::string undo_changes() const;

 private:
  std::string directory_;  // a path to it; empty where it has none
  struct File {
    dev_t device = 0;
    ino_t number = 0;  // there
    static File of(int result, const struct stat& is) { return result == 0 ? File{is.st_dev, is.st_ino} : File{}; }
    friend bool operator==(const File&, const File&) = default;
  };
  File folder_;
  static std::array<File, 3> streams_now();
  std::array<File, 3> streams_;
  mode_t umask_ = 0;
  std::string locale_;
  std::array<rlimit, RLIM_NLIMITS> limits_{};
};

// The use of resources, looked at several times without taking any in between.
class ResourceWatch {
 public:
  ResourceWatch();
  [[nodiscard]] MemoryUse now() const;

 private:
  struct Close {
    void operator()(DIR* folder) const { closedir(folder); }
  };
  using Folder = std::unique_ptr<DIR, Close>;
  // Opened before a library may have taken all descriptors.
  Folder files_;
  Folder threads_;
};

// Open files that this process may have.
std::int64_t most_open_files();

}  // namespace mxcheck
