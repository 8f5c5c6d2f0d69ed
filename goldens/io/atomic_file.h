#pragma once
// A file that is written atomically: complete, or not at all.
//
//   AtomicFile file(path);  file.write(bytes);  file.commit();
//
// Until commit the bytes belong to an unnamed file of the same directory (O_TMPFILE), which vanishes however the
// process ends; where the file system has none, to a temporary name created exclusively, ".NAME.mxcheck-*", which the
// destructor removes, and what goldens/io/atomic_file.h does on signals; SIGKILL leaves it behind. commit is fsync,
// rename onto the path, fsync of the directory. A symbolic link at path is followed, also to where there is nothing
// yet; anything at path but a regular file is refused.
//
// Errors: Error{usage} when the path cannot be written (no such directory, no permission, a directory, a name or path
// that is too long, a link to itself), of the constructor wherever that is known by then; Error{environment} when the
// machine fails: disk full, file too large, input/output error.

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

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

// Private to goldens/: bytes that come before their turn. Up to 1 MiB stays in memory; more goes to a file without a
// name.

class SpillBuffer {
 public:
  explicit SpillBuffer(std::string directory) : directory_(std::move(directory)) {}
  ~SpillBuffer();
  SpillBuffer(const SpillBuffer&) = delete;
  SpillBuffer& operator=(const SpillBuffer&) = delete;

  // Error{environment} when the machine fails: disk full and the like.
  void append(std::span<const std::byte> bytes);
  // Hands everything over in order, then is empty.
  void drain(const std::function<void(std::span<const std::byte>)>& take);

 private:
  void write_out();
  [[noreturn]] void fail(const char* what) const;

  std::string directory_;
  std::vector<std::byte> recent_;
  std::uint64_t written_ = 0;
  int fd_ = -1;
};

// Files and directories of this process that are not finished, so that a signal that ends it leaves none of them
// behind.
//
//   remove_temporaries_on_signals();                     once, in a program's main
//   { const SignalBlocker now; open(name); remember_temporary(name); }
//   { const SignalBlocker now; rename(name, path); forget_temporary(name); }
//
// SIGINT, SIGTERM and SIGHUP then remove what is remembered and end the process as they would have. Signals that are
// ignored (nohup) or handled already stay so. Nothing is promised for SIGKILL.
//
// Why it is safe. The list changes only while a SignalBlocker holds its lock, on a thread that has these signals
// blocked: a handler never interrupts the holder, so it can wait for the lock. Under it the handler reads the list and
// calls unlink, rmdir, sigaction and raise, which POSIX allows in handlers. A child that was forked removes nothing.

// While there is one, signals wait, and other threads that want one. One inside another is no other.
class SignalBlocker {
 public:
  SignalBlocker();
  ~SignalBlocker();
  SignalBlocker(const SignalBlocker&) = delete;
  SignalBlocker& operator=(const SignalBlocker&) = delete;

 private:
  sigset_t before_{};
};

// The name of a file, or of a directory: directories go after all files, in the order in which they were remembered,
// those in which something is left not at all.
void remember_temporary(const std::string& name);
void forget_temporary(const std::string& name);

void remove_temporaries_on_signals();

// Tests of whether a path exists or is a folder, with this project's errors in place of std::filesystem's.
//
//   if (path_exists(out)) ...
//
// Links are followed; one to nothing is nothing, and so is a path through what is no folder.
//
// Errors: Error{usage} with the path for what cannot be looked up: a link to itself, a name or a path that is too long,
// a folder that may not be searched.

bool path_exists(const std::string& path);
bool is_folder(const std::string& path);

}  // namespace mxcheck
