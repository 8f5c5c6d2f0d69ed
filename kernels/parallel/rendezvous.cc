#include "kernels/parallel/rendezvous.h"

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <utility>

#include "kernels/parallel/parallel_error.h"

namespace mxcheck_kernels::parallel {
namespace {

constexpr std::array<char, 16> kGreeting{"mxcheck ranks 1"};
constexpr std::uint32_t kMostAnswer = 1U << 20;
constexpr std::chrono::milliseconds kGrace{2000};  // rank 0 says who is missing before others give up

struct Hello {
  std::array<char, 16> greeting = kGreeting;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  std::int32_t port = 0;  // where this rank listens
};

// A rank's place among the others, or why there is no meeting.
struct Answer {
  std::uint32_t is_failure = 0;
  std::uint32_t bytes = 0;
};

void answer_all(const std::vector<Socket>& peers, bool is_failure, const std::string& text, Deadline deadline) {
  const Answer answer{is_failure ? 1U : 0U, static_cast<std::uint32_t>(text.size())};
  for (const Socket& peer : peers) {
    if (!peer.is_open()) continue;
    (void)(send_all(peer, &answer, sizeof(answer), deadline) && send_all(peer, text.data(), text.size(), deadline));
  }
}

std::string missing_text(const RankPlace& place, const std::vector<Socket>& peers, std::chrono::milliseconds timeout) {
  std::vector<int> missing;
  for (int r = 1; r < place.ranks; ++r) {
    if (!peers[static_cast<std::size_t>(r)].is_open()) missing.push_back(r);
  }
  return ranks_text(missing) + " of " + std::to_string(place.ranks) + " did not reach " + place.address + ":" +
         std::to_string(place.port) + " within " + seconds_text(timeout);
}

// Rank 0: everyone's connection, and where everyone listens.
std::vector<Socket> gather(const RankPlace& place, const MeshOptions& options, Deadline deadline) {
  const auto count = static_cast<std::size_t>(place.ranks);
  std::vector<Socket> peers(count);
  std::vector<std::string> places(count);
  std::string problem;
  Socket listener =
      options.listener >= 0 ? Socket(options.listener) : listen_at(is_loopback(place.address), place.port);
  for (std::size_t here = 1; here < count && problem.empty();) {
    Socket peer = accept_until(listener, deadline);
    Hello hello;
    if (!peer.is_open()) {
      problem = missing_text(place, peers, options.timeout);
      break;
    }
    if (!receive_all(peer, &hello, sizeof(hello), deadline) || hello.greeting != kGreeting) continue;  // a stranger
    if (hello.ranks != place.ranks) {
      problem = "rank " + std::to_string(hello.rank) + " knows of " + std::to_string(hello.ranks) +
                " ranks, rank 0 of " + std::to_string(place.ranks) + ": start all with the same number";
    } else if (hello.rank < 1 || hello.rank >= place.ranks || peers[static_cast<std::size_t>(hello.rank)].is_open()) {
      problem = "two processes say that they are rank " + std::to_string(hello.rank);
    } else {
      places[static_cast<std::size_t>(hello.rank)] = peer_address(peer) + " " + std::to_string(hello.port) + "\n";
      ++here;
    }
    if (problem.empty()) {
      peers[static_cast<std::size_t>(hello.rank)] = std::move(peer);
    } else {
      std::vector<Socket> last;
      last.push_back(std::move(peer));
      answer_all(last, true, "rank 0 refused: " + problem, Clock::now() + kGrace);
    }
  }
  std::string text;
  for (const std::string& line : places) text += line.empty() ? "-\n" : line;
  answer_all(peers, !problem.empty(), problem.empty() ? text : "rank 0 stopped: " + problem, Clock::now() + kGrace);
  if (!problem.empty()) {
    const bool differs = problem.find(" within ") == std::string::npos;
    throw ParallelError(differs ? Fault::disagreement : Fault::rank, problem);
  }
  return peers;
}

// What rank 0 answers: a line for each rank, its address and port.
std::vector<std::pair<std::string, int>> places_of(const RankPlace& place, const Socket& first, Deadline deadline) {
  Answer answer;
  std::string text;
  bool arrived = receive_all(first, &answer, sizeof(answer), deadline) && answer.bytes <= kMostAnswer;
  if (arrived) {
    text.resize(answer.bytes);
    arrived = receive_all(first, text.data(), text.size(), deadline);
  }
  if (!arrived) throw ParallelError(Fault::rank, "rank 0 ended while the ranks met");
  if (answer.is_failure != 0) {
    throw ParallelError(text.find(" within ") == std::string::npos ? Fault::disagreement : Fault::rank, text);
  }
  std::vector<std::pair<std::string, int>> places;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    const std::size_t space = line.find(' ');
    places.emplace_back(line.substr(0, space),
                        space == std::string::npos ? 0 : std::atoi(line.c_str() + space));  // NOLINT: our own text
    at = end + 1;
  }
  if (places.size() != static_cast<std::size_t>(place.ranks)) {
    throw ParallelError(Fault::rank, "rank 0 is not of this version: all ranks need the same program");
  }
  return places;
}

std::vector<Socket> join(const RankPlace& place, const MeshOptions& options, Deadline deadline) {
  const Socket listener = listen_at(is_loopback(place.address), 0);
  std::vector<Socket> peers(static_cast<std::size_t>(place.ranks));
  peers[0] = connect_until(place.address, place.port, deadline);
  Hello hello{kGreeting, place.rank, place.ranks, port_of(listener)};
  if (!peers[0].is_open() || !send_all(peers[0], &hello, sizeof(hello), deadline)) {
    throw ParallelError(Fault::rank, "rank 0 is not at " + place.address + ":" + std::to_string(place.port) +
                                         " within " + seconds_text(options.timeout));
  }
  const auto places = places_of(place, peers[0], deadline + kGrace);
  const Deadline then = Clock::now() + options.timeout;
  for (int r = 1; r < place.rank; ++r) {
    const auto& [address, port] = places[static_cast<std::size_t>(r)];
    Socket peer = connect_until(address, port, then);
    if (!peer.is_open() || !send_all(peer, &hello, sizeof(hello), then)) {
      throw ParallelError(Fault::rank, "rank " + std::to_string(r) + " is not at " + address + ":" +
                                           std::to_string(port) + " within " + seconds_text(options.timeout));
    }
    peers[static_cast<std::size_t>(r)] = std::move(peer);
  }
  for (int here = place.rank + 1; here < place.ranks;) {
    Socket peer = accept_until(listener, then);
    Hello from;
    if (!peer.is_open()) {
      throw ParallelError(Fault::rank, "a rank above " + std::to_string(place.rank) + " did not connect within " +
                                           seconds_text(options.timeout));
    }
    if (!receive_all(peer, &from, sizeof(from), then) || from.greeting != kGreeting) continue;
    if (from.rank <= place.rank || from.rank >= place.ranks) continue;
    peers[static_cast<std::size_t>(from.rank)] = std::move(peer);
    ++here;
  }
  return peers;
}

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i != 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

std::string seconds_text(std::chrono::milliseconds time) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g s", static_cast<double>(time.count()) / 1000);
  return text.data();
}

std::vector<Socket> meet(const RankPlace& place, const MeshOptions& options) {
  const Deadline deadline = Clock::now() + options.timeout;
  return place.rank == 0 ? gather(place, options, deadline) : join(place, options, deadline);
}

}  // namespace mxcheck_kernels::parallel
