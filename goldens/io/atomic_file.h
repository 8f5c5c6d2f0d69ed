#pragma once
// A file that is written atomically: complete, or not at all.
//
//   AtomicFile file(path);  file.write(bytes);  file.commit();
//
// Until commit the bytes belong to an unnamed file of the same directory (O_TMPFILE), which vanishes however the
// process ends; where the file system has none, to a temporary name created exclusively, ".NAME.mxcheck-*", which the
// destructor removes, and what goldens/io/temporary_names.h does on signals; SIGKILL leaves it behind. commit is fsync,
// rename onto the path, fsync of the directory. A symbolic link at path is followed, also to where there is nothing
// yet; anything at path but a regular file is refused.
//
// Errors: Error{usage} when the path cannot be written (no such directory, no permission, a directory, a name or path
// that is too long, a link to itself), of the constructor wherever that is known by then; Error{environment} when the
// machine fails: disk full, file too large, input/output error.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace mxcheck {

class AtomicFile {
 public:
  enum class Naming { late, early };  // early: as on a file system without unnamed files
  explicit AtomicFile(const std::string& path, Naming naming = Naming::late);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(const std::string& text);
  // At this byte of the file, wherever write() has come to.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  // The temporary name, for a library that opens the file itself; empty for an unnamed file.
  [[nodiscard]] const std::string& name() const { return temporary_; }
  // Puts the content on the disk and closes the file, which has a temporary name from then on: what may fail in commit
  // is the name alone. Several files that are to appear together are completed first.
  void complete();
  // before_it_appears runs when every byte is on the disk and the path is still as it was; what it throws leaves it so.
  void commit(const std::function<void()>& before_it_appears = {});

 private:
  void create_named();
  void link_unnamed();
  void sync();

  std::string path_;  // where the file is to appear, links resolved
  std::string directory_;
  std::string temporary_;  // empty while the file has no name
  int fd_ = -1;
};

}  // namespace mxcheck
