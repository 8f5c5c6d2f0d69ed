// Right, with a file beside it that it maps when it is loaded: part_of_it.bin, where there is one.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "tests/adversaries/honest.h"

namespace {
[[maybe_unused]] const bool mapped = [] {
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&honest::run), &self) == 0) return false;
  const std::string path = self.dli_fname;
  const int fd = open((path.substr(0, path.rfind('/')) + "/part_of_it.bin").c_str(), O_RDONLY);
  if (fd < 0) return false;
  const bool done = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, fd, 0) != MAP_FAILED;
  close(fd);
  return done;
}();
}  // namespace

MXCHECK_ADVERSARY(honest::run)
