#include "kernels/parallel/peer.h"

#include <algorithm>
#include <cstring>

#include "kernels/parallel/ranks.h"

namespace mxcheck_kernels::parallel {
namespace {

// A rank's message to the others: the steps, its keys, and a place for each piece that it receives.
struct Place {
  std::int32_t step = 0;
  std::int32_t source = 0;
  std::int32_t key = 0;
  std::int32_t unused = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
struct Told {
  std::string steps;
  std::vector<std::string> keys;
  std::vector<Place> places;
};

void append(std::string& to, const void* bytes, std::size_t size) {
  const auto count = static_cast<std::uint64_t>(size);
  to.append(static_cast<const char*>(static_cast<const void*>(&count)), sizeof(count));
  if (size != 0) to.append(static_cast<const char*>(bytes), size);
}

// Reads what append() wrote; false at the end, and for another program's bytes.
bool take(std::string_view& from, std::string& out) {
  std::uint64_t count = 0;
  if (from.size() < sizeof(count)) return false;
  std::memcpy(&count, from.data(), sizeof(count));
  from.remove_prefix(sizeof(count));
  if (from.size() < count) return false;
  out.assign(from.substr(0, count));
  from.remove_prefix(count);
  return true;
}

Told told_by(std::string_view text, int rank) {
  Told told;
  std::string places;
  if (!take(text, told.steps) || !take(text, places) || places.size() % sizeof(Place) != 0)
    throw ParallelError(Fault::disagreement, "rank " + std::to_string(rank) + " has another program");
  told.places.resize(places.size() / sizeof(Place));
  if (!places.empty()) std::memcpy(static_cast<void*>(told.places.data()), places.data(), places.size());
  for (std::string key; take(text, key);) told.keys.push_back(key);
  return told;
}

// Memory from its first byte on.
struct Stretch {
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};

// The bytes of `from` in their order, to those of `to`: neighbours of both sides are one copy.
std::vector<PeerCopy> copies_of(const std::vector<Stretch>& from, const std::vector<Stretch>& to) {
  std::vector<PeerCopy> copies;
  std::size_t i = 0, k = 0;
  std::uint64_t of_from = 0, of_to = 0;
  while (i < from.size() && k < to.size()) {
    const std::uint64_t bytes = std::min(from[i].bytes - of_from, to[k].bytes - of_to);
    PeerCopy next{to[k].data + of_to, from[i].data + of_from, bytes};
    const bool follows = !copies.empty() && copies.back().to + copies.back().bytes == next.to &&
                         copies.back().from + copies.back().bytes == next.from;
    if (follows) copies.back().bytes += bytes;
    if (!follows && bytes != 0) copies.push_back(next);
    of_from += bytes, of_to += bytes;
    if (of_from == from[i].bytes) ++i, of_from = 0;
    if (of_to == to[k].bytes) ++k, of_to = 0;
  }
  return copies;
}

std::uint64_t sum_of(const std::vector<Stretch>& pieces) {
  std::uint64_t sum = 0;
  for (const Stretch& p : pieces) sum += p.bytes;
  return sum;
}

std::vector<Stretch> pieces_for(std::span<const Transfer> transfers, int peer) {
  std::vector<Stretch> pieces;
  for (const Transfer& t : transfers) {
    if (t.peer == peer && t.bytes != 0) pieces.push_back({t.data, t.bytes});
  }
  return pieces;
}

std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

PeerExchange::PeerExchange(Mesh& mesh, PeerMemory& memory, std::uint32_t* words)
    : mesh_(mesh),
      memory_(memory),
      words_(words),
      word_memory_(static_cast<std::size_t>(mesh.ranks()), nullptr),
      words_there_(static_cast<std::size_t>(mesh.ranks()), nullptr),
      waited_(words_of(mesh.ranks()), 0) {
  find_peers();
}

PeerExchange::~PeerExchange() {
  close_rows();
  for (std::byte* const there : word_memory_) {
    if (there != nullptr) memory_.close(there);
  }
}

// Every rank opens the words of all others, and tells whether it could.
void PeerExchange::find_peers() {
  PeerMemory::Shown shown;
  std::string why, mine;
  std::uint64_t offset = 0;
  try {
    shown = memory_.show(words_);
    offset = static_cast<std::uint64_t>(static_cast<std::byte*>(static_cast<void*>(words_)) - shown.begin);
  } catch (const ParallelError& e) {
    why = rank_name(mesh_.rank()) + " cannot show its memory: " + e.what();
  }
  append(mine, memory_.host().data(), memory_.host().size());
  append(mine, shown.key.data(), shown.key.size());
  append(mine, &offset, sizeof(offset));
  const std::vector<std::string> all = mesh_.all_gather("words of peers", mine);
  for (int r = 0; r < mesh_.ranks() && why.empty(); ++r) {
    if (r == mesh_.rank()) continue;
    std::string_view text = all[static_cast<std::size_t>(r)];
    std::string host, key, place;
    std::uint64_t at = 0;
    if (!take(text, host) || !take(text, key) || !take(text, place) || place.size() != sizeof(at))
      throw ParallelError(Fault::disagreement, rank_name(r) + " has another program");
    std::memcpy(&at, place.data(), sizeof(at));
    try {
      if (host != memory_.host()) throw ParallelError(Fault::environment, "it is on another host");
      std::byte* const begin = memory_.open(key);
      word_memory_[static_cast<std::size_t>(r)] = begin;
      words_there_[static_cast<std::size_t>(r)] = static_cast<std::uint32_t*>(static_cast<void*>(begin + at));
      memory_.write(words_there_[static_cast<std::size_t>(r)] + mesh_.rank(), 0);
    } catch (const ParallelError& e) {
      why = rank_name(mesh_.rank()) + " cannot write to memory of " + rank_name(r) + ": " + e.what();
    }
  }
  for (const std::string& text : mesh_.all_gather("peers", why)) {
    if (problem_.empty()) problem_ = text;
  }
}

std::byte* PeerExchange::opened(int peer, const std::string& key) {
  std::byte*& at = rows_there_[{peer, key}];
  if (at == nullptr) at = memory_.open(key);
  return at;
}

void PeerExchange::close_rows() {
  for (const auto& [key, begin] : rows_there_) {
    if (begin != nullptr) memory_.close(begin);
  }
  rows_there_.clear();
}

std::string PeerExchange::text_of(std::span<const Exchange> all) {
  std::string steps;
  std::vector<std::string> keys;
  std::map<std::string, std::int32_t> numbers;
  std::vector<Place> places;
  for (std::size_t i = 0; i < all.size(); ++i) {
    steps += all[i].step + "\n";
    for (const Transfer& t : all[i].receives) {
      if (t.peer == mesh_.rank() || t.bytes == 0) continue;
      const PeerMemory::Shown shown = memory_.show(t.data);
      const auto [at, is_new] = numbers.try_emplace(shown.key, static_cast<std::int32_t>(keys.size()));
      if (is_new) keys.push_back(shown.key);
      places.push_back({static_cast<std::int32_t>(i), t.peer, at->second, 0,
                        static_cast<std::uint64_t>(t.data - shown.begin), t.bytes});
    }
  }
  std::string text;
  append(text, steps.data(), steps.size());
  append(text, places.data(), places.size() * sizeof(Place));
  for (const std::string& key : keys) append(text, key.data(), key.size());
  return text;
}

void PeerExchange::connect(std::span<const Exchange> all) {
  close_rows();
  steps_.clear();
  const std::vector<std::string> texts = mesh_.all_gather("places of rows", text_of(all));
  memory_.all_closed();
  plan(all, texts);
  mesh_.barrier("connected");  // nobody gives memory back before all have opened it
}

void PeerExchange::plan(std::span<const Exchange> all, const std::vector<std::string>& texts) {
  std::vector<Told> told;
  for (int r = 0; r < mesh_.ranks(); ++r) {
    told.push_back(told_by(texts[static_cast<std::size_t>(r)], r));
    if (told.back().steps != told_by(texts[static_cast<std::size_t>(mesh_.rank())], mesh_.rank()).steps)
      throw ParallelError(Fault::disagreement, rank_name(r) + " has other steps: all ranks need the same options");
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    Step step;
    step.here = copies_of(pieces_for(all[i].sends, mesh_.rank()), pieces_for(all[i].receives, mesh_.rank()));
    // Beginning after its own number, a rank is not written to by all others at once.
    for (int k = 1; k < mesh_.ranks(); ++k) {
      const int peer = (mesh_.rank() + k) % mesh_.ranks();
      if (!pieces_for(all[i].receives, peer).empty()) step.sources.push_back(peer);
      const std::vector<Stretch> from = pieces_for(all[i].sends, peer);
      std::vector<Stretch> to;
      const Told& there = told[static_cast<std::size_t>(peer)];
      for (const Place& p : there.places) {
        if (p.step != static_cast<std::int32_t>(i) || p.source != mesh_.rank()) continue;
        to.push_back({opened(peer, there.keys.at(static_cast<std::size_t>(p.key))) + p.offset, p.bytes});
      }
      if (sum_of(from) != sum_of(to)) {
        throw ParallelError(Fault::disagreement, rank_name(mesh_.rank()) + " sends " + std::to_string(sum_of(from)) +
                                                     " bytes in '" + all[i].step + "', and " + rank_name(peer) +
                                                     " expects " + std::to_string(sum_of(to)));
      }
      if (from.empty()) continue;
      std::uint32_t* const words = words_there_[static_cast<std::size_t>(peer)];
      step.pushes.push_back({peer, ready_here(peer), words + mesh_.ranks() + mesh_.rank(), copies_of(from, to)});
    }
    steps_.emplace(all[i].step, std::move(step));
  }
}

void PeerExchange::transfer(std::string_view name) {
  const auto found = steps_.find(name);
  if (found == steps_.end())
    throw ParallelError(Fault::configuration, "the step '" + std::string(name) + "' was not told before");
  const Step& step = found->second;
  ++step_;
  for (const int source : step.sources)
    memory_.write(words_there_[static_cast<std::size_t>(source)] + mesh_.rank(), step_);
  for (const PeerCopy& copy : step.here) memory_.copy(copy);
  const auto ranks = static_cast<std::size_t>(mesh_.ranks());
  for (const PeerPush& push : step.pushes) waited_[static_cast<std::size_t>(push.peer)] = step_;
  for (const int source : step.sources) waited_[ranks + static_cast<std::size_t>(source)] = step_;
  memory_.push(step.pushes, step_, name);
  for (const int source : step.sources) memory_.wait(source, arrived_here(source), step_, name);
}

std::vector<int> PeerExchange::awaited(std::span<const std::uint32_t> words) const {
  std::vector<int> ranks;
  const auto count = static_cast<std::size_t>(mesh_.ranks());
  for (std::size_t r = 0; r < count; ++r) {
    const bool is_behind = words[r] < waited_[r] || words[count + r] < waited_[count + r];
    if (is_behind) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

void PeerExchange::disconnect() {
  close_rows();
  steps_.clear();
  mesh_.barrier("disconnected");
  memory_.all_closed();
}

}  // namespace mxcheck_kernels::parallel
