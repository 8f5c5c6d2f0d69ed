#include "kernels/parallel/mesh.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>

#include "kernels/parallel/parallel_error.h"
#include "kernels/parallel/rendezvous.h"
#include "kernels/parallel/sockets.h"

namespace mxcheck_kernels::parallel {
namespace {

constexpr std::uint32_t kData = 0x6D786461;
constexpr std::uint32_t kFailure = 0x6D786661;
constexpr std::uint64_t kMostText = std::uint64_t{1} << 30;
constexpr std::chrono::milliseconds kFarewell{500};

// Before the bytes of each step.
struct Header {
  std::uint32_t kind = kData;
  std::uint32_t step = 0;  // a hash of its number and name
  std::uint64_t bytes = 0;
};

struct Piece {
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};

std::uint32_t hash_of(std::uint64_t number, std::string_view name) {
  std::uint32_t hash = 2166136261U ^ static_cast<std::uint32_t>(number * 2654435761U);
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

// One direction of one peer, in one step.
struct Stream {
  Header header;
  std::vector<Piece> pieces;  // the header first
  std::size_t piece = 0;
  std::uint64_t at = 0;
  bool header_checked = false;

  [[nodiscard]] bool done() const { return piece == pieces.size(); }
  [[nodiscard]] bool begun() const { return piece != 0 || at != 0; }

  // Moves what can be moved; true if something was. -1 of `move`: the other end is gone.
  template <class Move>
  bool advance(const Move& move, bool& gone) {
    bool moved = false;
    while (!done()) {
      const Piece& p = pieces[piece];
      if (at < p.bytes) {
        const std::int64_t some = move(p.data + at, p.bytes - at);
        if (some < 0) gone = true;
        if (some <= 0) return moved;
        at += static_cast<std::uint64_t>(some), moved = true;
      }
      if (at < p.bytes) continue;
      ++piece, at = 0;
      if (piece == 1) return true;  // the header is looked at before the rest
    }
    return moved;
  }
};

struct Flow {
  Stream out, in;
  std::string text;    // what arrives, where its size is not known before
  bool sized = false;  // the receiver knows it
  std::uint64_t expected = 0;
};

}  // namespace

struct Mesh::State {
  RankPlace place;
  MeshOptions options;
  std::vector<Socket> peers;
  std::vector<Flow> flows;
  std::uint64_t steps = 0;
  double clock_offset = 0;  // to rank 0's clock, in seconds
  bool failed = false;

  [[nodiscard]] double now() const {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count() + clock_offset;
  }
  [[noreturn]] void stop(Fault fault, const std::string& text) {
    tell(text);
    throw ParallelError(fault, text);
  }
  void tell(std::string_view why) noexcept;
  void begin(std::string_view step);
  void check_header(int peer, std::string_view step);
  void run(std::string_view step);
  [[noreturn]] void read_failure(int peer);
  bool look_for_failure(int peer, std::string_view step);
  [[noreturn]] void late(std::string_view step);
  void align_clocks();
};

void Mesh::State::tell(std::string_view why) noexcept {
  if (failed) return;
  failed = true;
  const Deadline deadline = Clock::now() + kFarewell;
  const Header header{kFailure, 0, why.size()};
  for (std::size_t r = 0; r < peers.size(); ++r) {
    if (!peers[r].is_open()) continue;
    const bool amid = r < flows.size() && flows[r].out.begun() && !flows[r].out.done();  // the peer sees this one end
    if (!amid && send_all(peers[r], &header, sizeof(header), deadline)) {
      (void)send_all(peers[r], why.data(), why.size(), deadline);
    }
  }
  // A connection that is closed with bytes unread loses what was sent.
  std::byte buffer[4096];
  while (Clock::now() < deadline) {
    bool any = false;
    for (Socket& peer : peers) {
      if (!peer.is_open()) continue;
      const std::int64_t some = receive_some(peer, buffer, sizeof(buffer));
      if (some < 0) peer.close();
      any = any || some >= 0;
    }
    if (!any) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// A peer said why it stops.
void Mesh::State::read_failure(int peer) {
  const Flow& flow = flows[static_cast<std::size_t>(peer)];
  std::string why(std::min(flow.in.header.bytes, std::uint64_t{4096}), '\0');
  if (!receive_all(peers[static_cast<std::size_t>(peer)], why.data(), why.size(), Clock::now() + options.timeout))
    why = "no reason given";
  const std::string prefix = "rank " + std::to_string(peer) + " stopped: ";
  stop(Fault::rank, why.find(" stopped: ") == std::string::npos ? prefix + why : why);
}

void Mesh::State::check_header(int peer, std::string_view step) {
  Flow& flow = flows[static_cast<std::size_t>(peer)];
  flow.in.header_checked = true;
  const Header& header = flow.in.header;
  if (header.kind == kFailure) read_failure(peer);
  const std::string who = "rank " + std::to_string(peer);
  if (header.kind != kData || header.step != flow.out.header.step) {
    stop(Fault::disagreement, who + " is at another step than rank " + std::to_string(place.rank) + ", which is at '" +
                                  std::string(step) + "': all ranks need the same program and options");
  }
  if (flow.sized && header.bytes != flow.expected) {
    stop(Fault::disagreement, who + " sends " + std::to_string(header.bytes) + " bytes in '" + std::string(step) +
                                  "', and rank " + std::to_string(place.rank) + " expects " +
                                  std::to_string(flow.expected));
  }
  if (flow.sized) return;
  if (header.bytes > kMostText) stop(Fault::disagreement, who + " sends more than a text has");
  flow.text.resize(header.bytes);
  flow.in.pieces.push_back({static_cast<std::byte*>(static_cast<void*>(flow.text.data())), header.bytes});
}

void Mesh::State::late(std::string_view step) {
  std::vector<int> missing, slow;
  for (int r = 0; r < place.ranks; ++r) {
    const Flow& flow = flows[static_cast<std::size_t>(r)];
    if (r == place.rank || (flow.in.done() && flow.out.done())) continue;
    (flow.in.begun() ? slow : missing).push_back(r);
  }
  const std::string how = " within " + seconds_text(options.timeout) + " of rank " + std::to_string(place.rank);
  if (!missing.empty()) stop(Fault::rank, ranks_text(missing) + " did not reach '" + std::string(step) + "'" + how);
  stop(Fault::rank, ranks_text(slow) + " did not finish '" + std::string(step) + "'" + how);
}

void Mesh::State::begin(std::string_view step) {
  flows.assign(peers.size(), {});
  const std::uint32_t hash = hash_of(steps++, step);
  for (Flow& flow : flows) flow.out.header.step = hash;
}

// Between steps: false where the peer has ended; throws what it said if it failed.
bool Mesh::State::look_for_failure(int peer, std::string_view step) {
  const Socket& socket = peers[static_cast<std::size_t>(peer)];
  // A header of the next step may be there.
  Header header;
  const auto some = ::recv(socket.fd(), &header, sizeof(header), MSG_PEEK | MSG_DONTWAIT);
  if (some == 0 || (some < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) return false;
  if (some != sizeof(header) || header.kind != kFailure) return true;
  begin(step);
  Header& in = flows[static_cast<std::size_t>(peer)].in.header;
  (void)receive_all(socket, &in, sizeof(in), Clock::now() + kFarewell);
  read_failure(peer);
}

// All flows to their end. Their pieces are those of the bytes; headers come from here.
void Mesh::State::run(std::string_view step) {
  for (Flow& flow : flows) {
    for (const Piece& p : flow.out.pieces) flow.out.header.bytes += p.bytes;
    for (const Piece& p : flow.in.pieces) flow.expected += p.bytes;
    for (Stream* s : {&flow.out, &flow.in}) {
      s->pieces.insert(s->pieces.begin(), {static_cast<std::byte*>(static_cast<void*>(&s->header)), sizeof(Header)});
    }
  }
  Deadline deadline = Clock::now() + options.timeout;
  for (;;) {
    bool moved = false;
    std::vector<pollfd> waits;
    for (int r = 0; r < place.ranks; ++r) {
      if (r == place.rank) continue;
      Flow& flow = flows[static_cast<std::size_t>(r)];
      const Socket& peer = peers[static_cast<std::size_t>(r)];
      bool gone = false;
      moved |= flow.out.advance([&](const void* p, std::uint64_t n) { return send_some(peer, p, n); }, gone);
      bool closed = false;
      moved |= flow.in.advance([&](void* p, std::uint64_t n) { return receive_some(peer, p, n); }, closed);
      if (flow.in.piece >= 1 && !flow.in.header_checked) check_header(r, step);
      if (closed || (gone && flow.in.done())) {
        if (flow.in.done()) look_for_failure(r, step);
        stop(Fault::rank, "rank " + std::to_string(r) + " ended before it had finished '" + std::string(step) + "'");
      }
      const int events = (flow.in.done() ? 0 : POLLIN) | (flow.out.done() ? 0 : POLLOUT);
      if (events != 0) waits.push_back({peer.fd(), static_cast<short>(events), 0});
    }
    if (waits.empty()) return;
    if (moved) {
      deadline = Clock::now() + options.timeout;
    } else if (Clock::now() >= deadline) {
      late(step);
    } else {
      poll(waits.data(), waits.size(), 50);
    }
  }
}

// Each rank asks rank 0 for its time; half of the way there and back is taken off.
void Mesh::State::align_clocks() {
  const Deadline deadline = Clock::now() + options.timeout;
  if (place.rank != 0) {
    const double sent = now();
    double there = 0;
    if (!send_all(peers[0], &sent, sizeof(sent), deadline) || !receive_all(peers[0], &there, sizeof(there), deadline))
      throw ParallelError(Fault::rank, "rank 0 ended while the ranks met");
    // Asked again: rank 0 may have been busy with others.
    const double again = now();
    if (!send_all(peers[0], &again, sizeof(again), deadline) || !receive_all(peers[0], &there, sizeof(there), deadline))
      throw ParallelError(Fault::rank, "rank 0 ended while the ranks met");
    clock_offset += there - (again + now()) / 2;
    return;
  }
  for (int r = 1; r < place.ranks; ++r) {
    for (int round = 0; round < 2; ++round) {
      double asked = 0;
      const Socket& peer = peers[static_cast<std::size_t>(r)];
      const bool came = receive_all(peer, &asked, sizeof(asked), deadline);
      const double here = now();
      if (!came || !send_all(peer, &here, sizeof(here), deadline))
        throw ParallelError(Fault::rank, "rank " + std::to_string(r) + " ended while the ranks met");
    }
  }
}

Mesh::Mesh(const RankPlace& place, const MeshOptions& options) : state_(std::make_unique<State>()) {
  state_->place = place, state_->options = options;
  state_->peers = meet(place, options);
  state_->align_clocks();
}

Mesh::~Mesh() = default;

int Mesh::rank() const { return state_->place.rank; }
int Mesh::ranks() const { return state_->place.ranks; }

std::vector<std::string> Mesh::all_gather(std::string_view step, std::string_view mine) {
  State& s = *state_;
  s.begin(step);
  std::string copy(mine);
  for (Flow& flow : s.flows) {
    flow.out.pieces.push_back({static_cast<std::byte*>(static_cast<void*>(copy.data())), copy.size()});
  }
  s.run(step);
  std::vector<std::string> all;
  for (Flow& flow : s.flows) all.push_back(std::move(flow.text));
  all[static_cast<std::size_t>(rank())] = std::move(copy);
  return all;
}

void Mesh::exchange(std::string_view step, std::span<const Transfer> sends, std::span<const Transfer> receives) {
  State& s = *state_;
  s.begin(step);
  std::vector<Transfer> mine;
  for (const Transfer& t : sends) {
    if (t.peer == rank()) mine.push_back(t);
    if (t.peer != rank() && t.bytes != 0)
      s.flows[static_cast<std::size_t>(t.peer)].out.pieces.push_back({t.data, t.bytes});
  }
  std::size_t next = 0;
  for (const Transfer& t : receives) {
    if (t.peer == rank()) {
      if (next == mine.size() || mine[next].bytes != t.bytes)
        throw ParallelError(Fault::disagreement, "a rank sends itself other bytes than it expects");
      if (t.bytes != 0) std::memcpy(t.data, mine[next].data, t.bytes);
      ++next;
    } else if (t.bytes != 0) {
      s.flows[static_cast<std::size_t>(t.peer)].in.pieces.push_back({t.data, t.bytes});
    }
  }
  for (Flow& flow : s.flows) flow.sized = true;
  s.run(step);
}

std::vector<double> Mesh::barrier(std::string_view step) {
  const double mine = state_->now();
  std::vector<double> at;
  for (const std::string& text :
       all_gather(step, {static_cast<const char*>(static_cast<const void*>(&mine)), sizeof(mine)})) {
    double value = 0;
    if (text.size() == sizeof(value)) std::memcpy(&value, text.data(), sizeof(value));
    at.push_back(value);
  }
  const double first = *std::min_element(at.begin(), at.end());
  for (double& value : at) value -= first;
  return at;
}

void Mesh::look(std::string_view step) {
  State& s = *state_;
  for (int r = 0; r < s.place.ranks; ++r) {
    if (r == s.place.rank) continue;
    if (s.look_for_failure(r, step)) continue;
    s.stop(Fault::rank, "rank " + std::to_string(r) + " ended during '" + std::string(step) + "'");
  }
}

void Mesh::fail(std::string_view why) noexcept { state_->tell(why); }

}  // namespace mxcheck_kernels::parallel
