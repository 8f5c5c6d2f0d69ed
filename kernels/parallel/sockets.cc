#include "kernels/parallel/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "kernels/parallel/parallel_error.h"

namespace mxcheck_kernels::parallel {
namespace {

constexpr std::chrono::milliseconds kRetry{20};

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000));
}

// False: not by then.
bool ready(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd entry{fd, events, 0};
    if (poll(&entry, 1, milliseconds_until(deadline)) > 0) return true;
    if (Clock::now() >= deadline) return false;
  }
}

void prepare(int fd) {
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

bool must_wait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

template <class Move>
bool all_until(const Socket& socket, std::uint64_t size, short events, Deadline deadline, const Move& move) {
  for (std::uint64_t done = 0; done < size;) {
    const std::int64_t some = move(done);
    if (some < 0) return false;
    done += static_cast<std::uint64_t>(some);
    if (some == 0 && !ready(socket.fd(), events, deadline)) return false;
  }
  return true;
}

}  // namespace

void Socket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool is_loopback(std::string_view address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

Socket listen_at(bool loopback, int port) {
  Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  at.sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY);
  if (!listener.is_open() || bind(listener.fd(), reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0 ||
      listen(listener.fd(), SOMAXCONN) != 0) {
    throw ParallelError(Fault::environment, "rank 0 cannot listen at port " + std::to_string(port) + ": " +
                                                std::strerror(errno) + "; set MASTER_PORT to a free one");
  }
  return listener;
}

int port_of(const Socket& listener) {
  sockaddr_in at{};
  socklen_t size = sizeof(at);
  getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&at), &size);
  return ntohs(at.sin_port);
}

Socket accept_until(const Socket& listener, Deadline deadline) {
  if (!ready(listener.fd(), POLLIN, deadline)) return {};
  Socket peer(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (peer.is_open()) prepare(peer.fd());
  return peer;
}

Socket connect_until(const std::string& address, int port, Deadline deadline) {
  addrinfo hints{};
  hints.ai_family = AF_INET, hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int status = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (status != 0) {
    throw ParallelError(Fault::configuration,
                        "MASTER_ADDR '" + address + "' is not the name of a host: " + gai_strerror(status));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(list, freeaddrinfo);
  do {
    for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
      Socket peer(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (!peer.is_open()) continue;
      prepare(peer.fd());
      if (connect(peer.fd(), at->ai_addr, at->ai_addrlen) == 0) return peer;
      int error = 0;
      socklen_t size = sizeof(error);
      if (errno != EINPROGRESS || !ready(peer.fd(), POLLOUT, deadline)) continue;
      if (getsockopt(peer.fd(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) return peer;
    }
    std::this_thread::sleep_for(kRetry);
  } while (Clock::now() < deadline);
  return {};
}

std::string peer_address(const Socket& socket) {
  sockaddr_in at{};
  socklen_t size = sizeof(at);
  getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&at), &size);
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &at.sin_addr, text.data(), text.size());
  return text.data();
}

std::int64_t send_some(const Socket& socket, const void* bytes, std::uint64_t size) {
  const ssize_t some = send(socket.fd(), bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  return some >= 0 ? some : must_wait() ? 0 : -1;
}

std::int64_t receive_some(const Socket& socket, void* bytes, std::uint64_t size) {
  const ssize_t some = recv(socket.fd(), bytes, size, MSG_DONTWAIT);
  return some > 0 ? some : some < 0 && must_wait() ? 0 : -1;
}

bool send_all(const Socket& socket, const void* bytes, std::uint64_t size, Deadline deadline) {
  return all_until(socket, size, POLLOUT, deadline, [&](std::uint64_t done) {
    return send_some(socket, static_cast<const std::byte*>(bytes) + done, size - done);
  });
}

bool receive_all(const Socket& socket, void* bytes, std::uint64_t size, Deadline deadline) {
  return all_until(socket, size, POLLIN, deadline, [&](std::uint64_t done) {
    return receive_some(socket, static_cast<std::byte*>(bytes) + done, size - done);
  });
}

}  // namespace mxcheck_kernels::parallel
