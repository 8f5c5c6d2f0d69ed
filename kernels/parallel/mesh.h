#pragma once
// TCP connections of a rank with every other one: what the ranks agree by, and what carries rows where there is no
// NCCL.
//
//   Mesh mesh(place, {.timeout = 30s});
//   const std::vector<std::string> all = mesh.all_gather("counts", mine);     // of rank 0, 1, ...
//   mesh.exchange("dispatch", sends, receives);                               // each pair of ranks, both directions
//
// All ranks call the same functions in the same order with the same names of steps. A rank that is elsewhere, has ended
// or does not arrive within the timeout is named on every other rank (ParallelError), and no call waits longer than
// that. A rank that fails tells the others why.
//
// Does not promise: secrecy. The ports take connections of anyone who knows the greeting; they are on the loopback
// device where rank 0's address is.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/parallel/ranks.h"

namespace mxcheck_kernels::parallel {

// Bytes between this rank and another one, or itself.
struct Transfer {
  int peer = 0;
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};

struct MeshOptions {
  std::chrono::milliseconds timeout{30'000};
  int listener = -1;  // rank 0: a socket that listens at the port already; the mesh closes it
};

class Mesh {
 public:
  Mesh(const RankPlace& place, const MeshOptions& options);
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int ranks() const;

  std::vector<std::string> all_gather(std::string_view step, std::string_view mine);

  // What this rank sends a peer is the concatenation of its transfers to that peer, in their order, and what it
  // receives is cut into those from that peer; both sides have the same sizes. Those of this rank to itself are copied.
  void exchange(std::string_view step, std::span<const Transfer> sends, std::span<const Transfer> receives);

  // Waits for all. Seconds by which each rank arrived after the first one, by rank 0's clock.
  std::vector<double> barrier(std::string_view step);

  // Throws if a peer has failed or ended; does not wait.
  void look(std::string_view step);

  // Tells the peers why this rank ends.
  void fail(std::string_view why) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mxcheck_kernels::parallel
