// The answer of mxcheck parallel layer, as text and as JSON.

#include <algorithm>
#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "tools/common/output.h"
#include "tools/parallel/parallel.h"

namespace mxcheck {
namespace {

constexpr std::array<std::string_view, 2> kPasses{"forward", "backward"};

RowDigest total_of(const std::vector<RankResult>& ranks, std::size_t output) {
  RowDigest sum;
  for (const RankResult& r : ranks) sum += r.digests[output];
  return sum;
}

std::vector<int> differing_ranks(const ParallelResult& result, std::size_t output) {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < result.expected.size(); ++r) {
    if (!(result.expected[r][output] == result.ranks[r].digests[output])) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

struct PassSummary {
  double together = 0, transfers = 0, compute = 0;  // of the slowest rank
  std::uint64_t sent = 0, most_sent = 0;            // to other ranks: of all, of the one that sends most
  // Bytes a second of the rank that sends most; the share of the shorter part that ran under the longer one.
  [[nodiscard]] double rate() const { return transfers > 0 ? static_cast<double>(most_sent) / transfers : 0; }
  [[nodiscard]] double hidden() const {
    const double shorter = std::min(transfers, compute);
    return shorter > 0 ? std::clamp((transfers + compute - together) / shorter, 0.0, 1.0) : 0;
  }
};

PassSummary summary_of(const ParallelResult& result, std::size_t pass) {
  PassSummary s;
  for (const RankResult& r : result.ranks) {
    s.together = std::max(s.together, r.times[pass].together);
    s.transfers = std::max(s.transfers, r.times[pass].transfers);
    s.compute = std::max(s.compute, r.times[pass].compute);
    s.sent += r.sent[pass];
    s.most_sent = std::max(s.most_sent, r.sent[pass]);
  }
  return s;
}

std::string rank_list(const std::vector<int>& ranks) {
  std::string text;
  for (const int r : ranks) text += (text.empty() ? "" : ", ") + std::to_string(r);
  return text;
}

std::string head_text(const ParallelOptions& o, const ParallelResult& result) {
  std::int64_t rows = 0, dropped = 0;
  for (const RankResult& r : result.ranks) rows += r.rows, dropped += r.dropped;
  std::string text = fmt::format("{} rank{} by {}; {}; {}\n", result.ranks.size(), result.ranks.size() == 1 ? "" : "s",
                                 result.launcher, result.transport, result.libraries);
  text += fmt::format(
      "{} tokens of width {}, {} experts of inner width {}, top {}: {} rows, {} dropped; recipe {}, dispatch in {}, {} "
      "chunk{}\n\n",
      o.tokens, o.width, o.experts, o.inner, o.top_k, rows, dropped, o.recipe, o.dispatch, o.chunks,
      o.chunks == 1 ? "" : "s");
  text += "rank  tokens  experts    rows  bytes sent forward  backward\n";
  for (std::size_t r = 0; r < result.ranks.size(); ++r) {
    const RankResult& of = result.ranks[r];
    text += fmt::format("{:<4}  {:>6}  {:>7}  {:>6}  {:>18}  {:>8}\n", r, of.tokens, of.experts, of.rows, of.sent[0],
                        of.sent[1]);
  }
  return text + "\n";
}

std::string times_text(const ParallelOptions& o, const ParallelResult& result) {
  std::string text;
  if (o.samples > 1) {
    text += "\npass      together ms  transfers  compute  hidden  GB/s out of a rank\n";
    for (std::size_t pass = 0; pass < kPasses.size(); ++pass) {
      const PassSummary s = summary_of(result, pass);
      text +=
          fmt::format("{:<8}  {:>11.3f}  {:>9.3f}  {:>7.3f}  {:>4.0f} %  {:.1f}{}\n", kPasses[pass], 1e3 * s.together,
                      1e3 * s.transfers, 1e3 * s.compute, 100 * s.hidden(), s.rate() / 1e9,
                      o.link > 0 ? fmt::format(", {:.2f} of {} GB/s", s.rate() / 1e9 / o.link, decimal(o.link)) : "");
    }
  }
  if (result.latest.seconds > o.slow) {
    text += fmt::format("\nrank {} is slow: it reached '{}' {:.2f} s after the first rank\n", result.latest.rank,
                        result.latest.step, result.latest.seconds);
  }
  return text;
}

Json json_of(const ParallelOptions& o, const ParallelResult& result, bool equal) {
  Json ranks = Json::array();
  for (const RankResult& r : result.ranks) {
    ranks.push_back({{"tokens", r.tokens},
                     {"experts", r.experts},
                     {"rows", r.rows},
                     {"dropped", r.dropped},
                     {"sent_forward", static_cast<std::int64_t>(r.sent[0])},
                     {"sent_backward", static_cast<std::int64_t>(r.sent[1])}});
  }
  Json outputs = Json::array();
  for (std::size_t i = 0; i < kLayerOutputs.size(); ++i) {
    Json row{{"name", std::string(kLayerOutputs[i])}, {"digest", to_text(total_of(result.ranks, i))}};
    if (result.compared) {
      Json differing = Json::array();
      for (const int r : differing_ranks(result, i)) differing.push_back(r);
      row["differs_on_ranks"] = differing;
    }
    outputs.push_back(row);
  }
  Json passes = Json::array();
  for (std::size_t pass = 0; pass < kPasses.size(); ++pass) {
    const PassSummary s = summary_of(result, pass);
    passes.push_back({{"name", std::string(kPasses[pass])},
                      {"together_seconds", s.together},
                      {"transfers_seconds", s.transfers},
                      {"compute_seconds", s.compute},
                      {"hidden", s.hidden()},
                      {"bytes_per_second", s.rate()},
                      {"sent", static_cast<std::int64_t>(s.sent)}});
  }
  return {{"launcher", result.launcher},
          {"transport", result.transport},
          {"library", result.libraries},
          {"recipe", o.recipe},
          {"dispatch", o.dispatch},
          {"chunks", o.chunks},
          {"ranks", ranks},
          {"outputs", outputs},
          {"passes", passes},
          {"latest_rank", result.latest.rank},
          {"latest_seconds", result.latest.seconds},
          {"compared", result.compared},
          {"equal", equal}};
}

}  // namespace

int report_parallel(const ParallelOptions& o, const ParallelResult& result) {
  bool equal = true;
  std::string text = head_text(o, result);
  text += result.compared ? "output  digest of its rows                in one call\n" : "output  digest of its rows\n";
  for (std::size_t i = 0; i < kLayerOutputs.size(); ++i) {
    const std::vector<int> differing = differing_ranks(result, i);
    equal = equal && differing.empty();
    const std::string verdict = !result.compared    ? ""
                                : differing.empty() ? "  equal"
                                                    : "  DIFFERS on rank " + rank_list(differing);
    text += fmt::format("{:<6}  {}{}\n", kLayerOutputs[i], to_text(total_of(result.ranks, i)), verdict);
  }
  text += times_text(o, result);
  o.json ? print_json(json_of(o, result, equal)) : print(text);
  return equal ? 0 : 1;
}

}  // namespace mxcheck
