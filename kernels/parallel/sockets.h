#pragma once
// TCP sockets of mesh.h, with deadlines: connections, bytes in and out, and the first meeting of the ranks.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/parallel/mesh.h"

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

// The bytes that went without waiting: 0 for none now, -1 where the other end is gone.
std::int64_t send_some(const Socket& socket, const void* bytes, std::uint64_t size);
std::int64_t receive_some(const Socket& socket, void* bytes, std::uint64_t size);

// ---- The first meeting
//
// All ranks come to rank 0, which tells each where the others are; then each pair connects.

// One connection a rank, none to this one itself.
std::vector<Socket> meet(const RankPlace& place, const MeshOptions& options);

// "rank 3", "ranks 1, 2 and 5"
std::string ranks_text(const std::vector<int>& ranks);
std::string seconds_text(std::chrono::milliseconds time);

}  // namespace mxcheck_kernels::parallel
