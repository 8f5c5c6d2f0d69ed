#pragma once
// TCP sockets of mesh.h, with deadlines: connections that greet, and bytes in and out.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace mxcheck_kernels::parallel {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

// A descriptor that closes itself.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

bool is_loopback(std::string_view address);

// Listens at this port, or at any if it is 0. ParallelError{environment} for a port that is taken.
Socket listen_at(bool loopback, int port);
int port_of(const Socket& listener);

// No socket when nobody has come by then.
Socket accept_until(const Socket& listener, Deadline deadline);
// Tries again until somebody listens there. No socket when nobody has by then; ParallelError{configuration} for a name
// that is no host's.
Socket connect_until(const std::string& address, int port, Deadline deadline);
std::string peer_address(const Socket& socket);

// All of it, or false: by then it was not done, or the other end is gone.
bool send_all(const Socket& socket, const void* bytes, std::uint64_t size, Deadline deadline);
bool receive_all(const Socket& socket, void* bytes, std::uint64_t size, Deadline deadline);

// As many as can be without waiting: 0 for none now, -1 where the other end is gone.
std::int64_t send_some(const Socket& socket, const void* bytes, std::uint64_t size);
std::int64_t receive_some(const Socket& socket, void* bytes, std::uint64_t size);

}  // namespace mxcheck_kernels::parallel
