#include "kernels/parallel/placement.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>

#include "kernels/parallel/ranks.h"

namespace mxcheck_kernels::parallel {
namespace {

std::uint64_t mixed(std::uint64_t z) {  // SplitMix64
  z += 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

std::vector<int> listed(const std::string& text, std::int64_t experts, int ranks) {
  std::vector<int> out;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    int value = -1;
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + end, value);
    if (error != std::errc() || stop != rest.data() + end || value < 0 || value >= ranks) {
      throw ParallelError(Fault::configuration, "placement '" + text + "': '" + std::string(rest.substr(0, end)) +
                                                    "' is no rank from 0 to " + std::to_string(ranks - 1) +
                                                    "; placements are contiguous, strided, one, seed:N, or the rank " +
                                                    "of each expert as 0,0,1,1");
    }
    out.push_back(value);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (std::ssize(out) == experts) return out;
  throw ParallelError(Fault::configuration, "placement '" + text + "' has " + std::to_string(out.size()) +
                                                " ranks: there are " + std::to_string(experts) + " experts");
}

std::pair<std::int64_t, std::int64_t> part_of(std::int64_t count, int part, int parts) {
  const std::int64_t each = count / parts;
  const std::int64_t larger = count % parts;
  const std::int64_t begin = each * part + std::min<std::int64_t>(part, larger);
  return {begin, begin + each + (part < larger ? 1 : 0)};
}

}  // namespace

std::vector<std::int64_t> Placement::experts_of(int rank) const {
  std::vector<std::int64_t> out;
  for (std::size_t e = 0; e < expert_rank.size(); ++e) {
    if (expert_rank[e] == rank) out.push_back(static_cast<std::int64_t>(e));
  }
  return out;
}

std::vector<int> place_experts(const std::string& how, std::int64_t experts, int ranks) {
  std::vector<int> out(static_cast<std::size_t>(experts));
  if (how == "contiguous") {
    for (int r = 0; r < ranks; ++r) {
      const auto [begin, end] = part_of(experts, r, ranks);
      std::fill(out.begin() + begin, out.begin() + end, r);
    }
    return out;
  }
  if (how == "strided") {
    for (std::size_t e = 0; e < out.size(); ++e) out[e] = static_cast<int>(e % static_cast<std::size_t>(ranks));
    return out;
  }
  if (how == "one") return std::vector<int>(out.size(), ranks - 1);
  constexpr std::string_view kSeed = "seed:";
  if (how.starts_with(kSeed)) {
    std::uint64_t seed = 0;
    const char* const end = how.data() + how.size();
    const auto [stop, error] = std::from_chars(how.data() + kSeed.size(), end, seed);
    if (error != std::errc() || stop != end || how.size() == kSeed.size())
      throw ParallelError(Fault::configuration, "placement '" + how + "': seed:N needs a number from 0 to 2^64 - 1");
    for (std::size_t e = 0; e < out.size(); ++e) {
      out[e] = static_cast<int>(mixed(seed ^ mixed(e)) % static_cast<std::uint64_t>(ranks));
    }
    return out;
  }
  return listed(how, experts, ranks);
}

std::vector<std::int64_t> count_slots(const HomeSlots& slots, std::int64_t experts) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(experts));
  for (const std::int32_t e : slots.experts) {
    if (e >= 0) ++counts[static_cast<std::size_t>(e)];
  }
  return counts;
}

HomeRows home_rows(const HomeSlots& slots, std::int64_t experts, std::int64_t capacity,
                   std::span<const std::int64_t> before) {
  const std::vector<std::int64_t> counts = count_slots(slots, experts);
  HomeRows out;
  out.offsets.assign(static_cast<std::size_t>(experts) + 1, 0);
  std::vector<std::int64_t> kept(counts);
  for (std::size_t e = 0; e < kept.size(); ++e) {
    if (capacity > 0) kept[e] = std::clamp<std::int64_t>(capacity - before[e], 0, counts[e]);
    out.offsets[e + 1] = out.offsets[e] + kept[e];
  }
  const auto rows = static_cast<std::size_t>(out.rows());
  out.row_token.resize(rows), out.row_weight.resize(rows), out.row_slot.resize(rows);
  out.token_rows.assign(slots.experts.size(), -1);
  std::vector<std::int64_t> next(out.offsets.begin(), out.offsets.end() - 1);
  for (std::size_t slot = 0; slot < slots.experts.size(); ++slot) {
    if (slots.experts[slot] < 0) continue;
    const auto e = static_cast<std::size_t>(slots.experts[slot]);
    if (next[e] == out.offsets[e + 1]) continue;  // beyond the capacity
    const auto row = static_cast<std::size_t>(next[e]++);
    out.row_token[row] = static_cast<std::int32_t>(static_cast<std::int64_t>(slot) / slots.width);
    out.row_weight[row] = slots.weights[slot];
    out.row_slot[row] = static_cast<std::int64_t>(slot);
    out.token_rows[slot] = static_cast<std::int32_t>(row);
  }
  const std::int64_t tokens = slots.width == 0 ? 0 : std::ssize(slots.experts) / slots.width;
  for (std::int64_t t = 0; t <= tokens; ++t) out.token_offsets.push_back(t * slots.width);
  return out;
}

Rows::Rows(const Placement& placement, int rank, int chunks, std::vector<std::vector<std::int64_t>> counts)
    : experts_(placement.experts_of(rank)) {
  const auto rows_of = [&](int source, std::int64_t expert) {
    return counts[static_cast<std::size_t>(source)][static_cast<std::size_t>(expert)];
  };
  std::vector<std::int64_t> home_begin(placement.expert_rank.size() + 1, 0);
  for (std::size_t e = 0; e < placement.expert_rank.size(); ++e)
    home_begin[e + 1] = home_begin[e] + rows_of(rank, static_cast<std::int64_t>(e));
  home_.resize(static_cast<std::size_t>(chunks)), expert_.resize(static_cast<std::size_t>(chunks));
  for (int chunk = 0; chunk < chunks; ++chunk) {
    for (int peer = 0; peer < placement.ranks; ++peer) {
      const std::vector<std::int64_t> theirs = placement.experts_of(peer);
      const auto [begin, end] = part_of(std::ssize(theirs), chunk, chunks);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t e = theirs[static_cast<std::size_t>(i)];
        home_[static_cast<std::size_t>(chunk)].push_back(
            {peer, home_begin[static_cast<std::size_t>(e)], rows_of(rank, e)});
      }
    }
    const auto [begin, end] = part_of(std::ssize(experts_), chunk, chunks);
    Chunk c{begin, end, rows_, rows_, {0}};
    for (std::int64_t i = begin; i < end; ++i) {
      for (int source = 0; source < placement.ranks; ++source) {
        const std::int64_t n = rows_of(source, experts_[static_cast<std::size_t>(i)]);
        expert_[static_cast<std::size_t>(chunk)].push_back({source, rows_, n});
        rows_ += n;
      }
      c.last_row = rows_;
      c.offsets.push_back(rows_ - c.first_row);
    }
    chunks_.push_back(std::move(c));
  }
  result_of_home_row_.resize(static_cast<std::size_t>(home_begin.back()));
  number_results(rank, placement.ranks);
}

void Rows::number_results(int rank, int ranks) {
  leaving_.resize(expert_.size()), back_.resize(home_.size());
  result_of_row_.resize(static_cast<std::size_t>(rows_)), row_of_result_.resize(static_cast<std::size_t>(rows_));
  std::vector<std::vector<std::int64_t>> own(expert_.size());  // first results of own pieces
  for (std::size_t chunk = 0; chunk < expert_.size(); ++chunk) {
    const std::int64_t first = chunks_[chunk].first_row;
    std::int64_t next = first;
    std::vector<Piece>& pieces = leaving_[chunk];
    for (int source = 0; source < ranks; ++source) {
      for (const Piece& p : expert_[chunk]) {
        if (p.peer != source) continue;
        pieces.push_back({source, next, p.rows});
        if (source == rank) own[chunk].push_back(next);
        for (std::int64_t row = p.first_row; row < p.first_row + p.rows; ++row, ++next) {
          result_of_row_[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(next - first);
          row_of_result_[static_cast<std::size_t>(next)] = static_cast<std::int32_t>(row - first);
        }
      }
    }
  }
  results_ = rows_;
  for (std::size_t chunk = 0; chunk < home_.size(); ++chunk) {
    std::size_t next_own = 0;
    for (const Piece& p : home_[chunk]) {  // by rank, expert
      const bool stays = p.peer == rank;
      std::int64_t result = stays ? own[chunk].at(next_own++) : results_;
      if (!stays) back_[chunk].push_back({p.peer, results_, p.rows}), results_ += p.rows;
      for (std::int64_t row = p.first_row; row < p.first_row + p.rows; ++row)
        result_of_home_row_[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(result++);
    }
  }
}

namespace {

std::vector<int> chunks_of_experts(const Placement& placement, int chunks) {
  std::vector<int> of(placement.expert_rank.size());
  for (int r = 0; r < placement.ranks; ++r) {
    const std::vector<std::int64_t> experts = placement.experts_of(r);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const auto [begin, end] = part_of(std::ssize(experts), chunk, chunks);
      for (std::int64_t i = begin; i < end; ++i)
        of[static_cast<std::size_t>(experts[static_cast<std::size_t>(i)])] = chunk;
    }
  }
  return of;
}

template <class Visit>
void for_each_row(const Placement& placement, const HomeRows& home, const Visit& visit) {
  for (std::size_t e = 0; e < placement.expert_rank.size(); ++e) {
    for (std::int64_t row = home.offsets[e]; row < home.offsets[e + 1]; ++row) visit(e, static_cast<std::size_t>(row));
  }
}

}  // namespace

SentTokens sent_tokens(const Placement& placement, int rank, int chunks, const HomeRows& home) {
  const std::vector<int> chunk_of = chunks_of_experts(placement, chunks);
  const auto tokens = static_cast<std::size_t>(placement.token_begin(rank + 1) - placement.token_begin(rank));
  const auto ranks = static_cast<std::size_t>(placement.ranks);
  // For each rank and token: the first chunk that needs it there, and its number among those.
  std::vector<int> first(ranks * tokens, chunks);
  for_each_row(placement, home, [&](std::size_t e, std::size_t row) {
    int& at = first[static_cast<std::size_t>(placement.expert_rank[e]) * tokens +
                    static_cast<std::size_t>(home.row_token[row])];
    at = std::min(at, chunk_of[e]);
  });
  SentTokens out;
  std::vector<std::int32_t> order(ranks * tokens, 0);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    for (std::size_t r = 0; r < ranks; ++r) {
      std::int32_t next = 0;
      for (std::size_t t = 0; t < tokens && static_cast<int>(r) != rank; ++t) {
        if (first[r * tokens + t] != chunk) continue;
        order[r * tokens + t] = next++;
        out.tokens.push_back(static_cast<std::int32_t>(t));
      }
      out.counts.push_back(next);
    }
  }
  out.row_order.resize(home.row_token.size()), out.row_chunk.resize(home.row_token.size(), -1);
  for_each_row(placement, home, [&](std::size_t e, std::size_t row) {
    const auto r = static_cast<std::size_t>(placement.expert_rank[e]);
    if (static_cast<int>(r) == rank) return;
    const std::size_t at = r * tokens + static_cast<std::size_t>(home.row_token[row]);
    out.row_order[row] = order[at], out.row_chunk[row] = first[at];
  });
  return out;
}

Arrivals::Arrivals(const Placement& placement, int rank, int chunks, const std::vector<std::vector<std::int64_t>>& sent)
    : own_(placement.token_begin(rank + 1) - placement.token_begin(rank)) {
  std::int64_t next = own_;
  for (int c = 0; c < chunks; ++c) {
    Chunk chunk{next, next, {}};
    for (int source = 0; source < placement.ranks; ++source) {
      const std::int64_t count = sent[static_cast<std::size_t>(source)].at(
          static_cast<std::size_t>(c) * static_cast<std::size_t>(placement.ranks) + static_cast<std::size_t>(rank));
      chunk.pieces.push_back({source, next, count});
      next += count;
    }
    chunk.last = next;
    chunks_.push_back(std::move(chunk));
  }
}

std::int64_t Arrivals::place_of(int source, int chunk) const {
  return chunks_[static_cast<std::size_t>(chunk)].pieces[static_cast<std::size_t>(source)].first_row;
}

std::vector<std::int32_t> places_of_rows(const Placement& placement, int rank, int chunks, const HomeRows& home,
                                         const SentTokens& mine, const std::vector<std::vector<std::int64_t>>& sent) {
  std::vector<Arrivals> arrivals;
  for (int r = 0; r < placement.ranks; ++r) arrivals.emplace_back(placement, r, chunks, sent);
  std::vector<std::int32_t> places(home.row_token.size());
  for_each_row(placement, home, [&](std::size_t e, std::size_t row) {
    places[row] = home.row_token[row];
    if (mine.row_chunk[row] < 0) return;
    const Arrivals& there = arrivals[static_cast<std::size_t>(placement.expert_rank[e])];
    places[row] = static_cast<std::int32_t>(there.place_of(rank, mine.row_chunk[row]) + mine.row_order[row]);
  });
  return places;
}

}  // namespace mxcheck_kernels::parallel
