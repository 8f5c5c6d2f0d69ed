#pragma once
// Private to goldens/: a child process in which the HDF5 library reads a file that nobody vouches for. A crash, a
// runaway allocation or an endless loop over a damaged file is an Error{input} about that file and leaves this process
// as it was.
//
//   Hdf5Child child(path, [&](int fd) { return send_message(fd, 'T', head_of(path)); });     the lambda runs in the
//   child std::vector<std::byte> head(child.next_message('T', kMostHead)); child.read(head);
//
// The child sends messages: a status byte, the length of what follows in four bytes, and that. What it throws becomes a
// refusal, which next_message throws here. The parent checks all of it: the child may have been led astray. The pipe is
// small, so that the child is never far ahead of its reader.
//
// Does not promise a sandbox: the child keeps the user's rights. The limits are against accidents and damage. Nor that
// a child comes alive when another thread of this process is inside the HDF5 library at that moment.
//
// Errors: Error{input} for what the child refuses and for its end; Error{environment} for no process or no pipe;
// std::bad_alloc where the child had no memory.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace mxcheck {

inline constexpr std::uint32_t kChildPiece = 1 << 20;  // bytes of a message of data, at most

// In the child. False when the other end is closed.
bool send_message(int fd, char status, std::span<const std::byte> content);

class Hdf5Child {
 public:
  // Starts the child; `work` says whether everything was sent.
  Hdf5Child(const std::string& path, const std::function<bool(int fd)>& work);
  ~Hdf5Child();
  Hdf5Child(const Hdf5Child&) = delete;
  Hdf5Child& operator=(const Hdf5Child&) = delete;

  // The length of the next message, which must be of this status and not empty; a refusal is thrown.
  std::uint32_t next_message(char status, std::uint32_t longest);
  void read(std::span<std::byte> to);  // the message's bytes
  void stop();                         // nothing more is wanted

  [[noreturn]] void damaged(const char* what);
  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }

 private:
  int wait();

  std::string path_;
  std::uint64_t file_bytes_;
  int read_end_ = -1;
  pid_t id_ = -1;
};

}  // namespace mxcheck
