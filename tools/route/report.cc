#include "tools/route/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "numerics/text.h"
#include "tools/common/json.h"
#include "tools/common/text.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostBins = 8;

// Pairs that only one of the two has: both are the experts of one token, sorted.
void count_changes(const std::vector<std::int32_t>& before, const std::vector<std::int32_t>& after, RouteReport& r) {
  std::vector<std::int32_t> only;
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(), std::back_inserter(only));
  r.added += static_cast<std::int64_t>(only.size());
  only.clear();
  std::set_difference(before.begin(), before.end(), after.begin(), after.end(), std::back_inserter(only));
  r.dropped += static_cast<std::int64_t>(only.size());
}

std::string range_text(std::span<const std::int64_t> loads) {
  if (loads.empty()) return "none";
  const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
  const double sum = static_cast<double>(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}));
  const auto none = std::count(loads.begin(), loads.end(), 0);
  return fmt::format("min {}, mean {:.1f}, max {}; {} expert{} without tokens", *least,
                     sum / static_cast<double>(loads.size()), *most, none, none == 1 ? "" : "s");
}

// "127 to 192: 3, 193 to 258: 17, ...": how many experts have so many tokens; "128: 7, 256: 20, ..." of few numbers.
std::string histogram_text(std::span<const std::int64_t> loads) {
  if (loads.empty()) return "none";
  std::map<std::int64_t, std::int64_t> each;
  for (const std::int64_t load : loads) ++each[load];
  if (static_cast<std::int64_t>(each.size()) <= kMostBins) {
    return join(each, ", ", [](const auto& bin) { return fmt::format("{}: {}", bin.first, bin.second); });
  }
  const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
  const std::int64_t width = (*most - *least) / kMostBins + 1;
  std::vector<std::int64_t> bins(static_cast<std::size_t>((*most - *least) / width + 1));
  for (const std::int64_t load : loads) ++bins[static_cast<std::size_t>((load - *least) / width)];
  std::string text;
  for (std::size_t i = 0; i < bins.size(); ++i) {
    const std::int64_t first = *least + static_cast<std::int64_t>(i) * width;
    text += fmt::format("{}{} to {}: {}", i == 0 ? "" : ", ", first, first + width - 1, bins[i]);
  }
  return text;
}

std::string to_text(const Padding& p) {
  const double share = p.rows == 0 ? 0 : 100 * static_cast<double>(p.padding) / static_cast<double>(p.rows);
  return fmt::format("{} of {} rows ({:.1f} %)", p.padding, p.rows, share);
}

Json to_json(const Padding& p) { return {{"rows", p.rows}, {"padding", p.padding}}; }

}  // namespace

RouteReport report_of(const Routes& before, const RoundedTokens& after, std::int64_t tile) {
  RouteReport r;
  r.tokens = after.tokens, r.experts = after.experts, r.top_k = before.top_k, r.tile = tile;
  r.chosen.assign(after.chosen.begin(), after.chosen.end());
  std::vector<std::int32_t> expert_of_row(static_cast<std::size_t>(after.offsets.back()));
  for (std::size_t e = 0; e < r.chosen.size(); ++e) {
    r.kept.push_back(after.offsets[e + 1] - after.offsets[e]);
    std::fill(expert_of_row.begin() + after.offsets[e], expert_of_row.begin() + after.offsets[e + 1],
              static_cast<std::int32_t>(e));
  }
  std::vector<std::int32_t> chosen, kept;
  for (std::int64_t t = 0; t < r.tokens; ++t) {
    const auto at = static_cast<std::size_t>(t);
    const auto* const first = before.experts.data() + t * before.top_k;
    chosen.assign(first, first + before.top_k);
    std::sort(chosen.begin(), chosen.end());
    kept.clear();
    for (std::int64_t i = after.token_offsets[at]; i < after.token_offsets[at + 1]; ++i) {
      kept.push_back(expert_of_row[static_cast<std::size_t>(after.token_rows[static_cast<std::size_t>(i)])]);
    }
    count_changes(chosen, kept, r);
    r.without_expert += kept.empty() ? 1 : 0;
    r.most_experts = std::max(r.most_experts, static_cast<std::int64_t>(kept.size()));
  }
  return r;
}

Padding padding_of(std::span<const std::int64_t> loads, std::int64_t tile) {
  Padding p;
  for (const std::int64_t load : loads) {
    const std::int64_t rest = load % tile;
    const std::int64_t padding = rest == 0 ? 0 : tile - rest;
    p.rows += load + padding;
    p.padding += padding;
  }
  return p;
}

std::string to_text(const RouteReport& r, bool loads) {
  std::string text = fmt::format("chosen    {}\n", range_text(r.chosen));
  const bool same = r.added == 0 && r.dropped == 0;
  if (!same) text += fmt::format("kept      {}\n", range_text(r.kept));
  if (loads) {
    text += fmt::format("{:>8}{:>10}{:>10}{:>10}\n", "expert", "chosen", "kept", "padding");
    for (std::size_t e = 0; e < r.kept.size(); ++e) {
      text += fmt::format("{:>8}{:>10}{:>10}{:>10}\n", e, r.chosen[e], r.kept[e],
                          padding_of(std::span(r.kept).subspan(e, 1), r.tile).padding);
    }
  } else {
    text += fmt::format("experts   by tokens kept: {}\n", histogram_text(r.kept));
  }
  text += fmt::format("padding   to tiles of {}: {} before, {} after\n", r.tile, to_text(padding_of(r.chosen, r.tile)),
                      to_text(padding_of(r.kept, r.tile)));
  text += fmt::format("changed   pairs added {}, dropped {}; tokens without an expert {}, most experts of a token {}\n",
                      r.added, r.dropped, r.without_expert, r.most_experts);
  if (r.balance_loss) {
    text += fmt::format("losses    load balancing {} ({}: even), z {}, each with a coefficient of {}\n",
                        decimal(*r.balance_loss), decimal(r.coefficient), decimal(*r.z_loss), decimal(r.coefficient));
  }
  return text;
}

Json to_json(const RouteReport& r) {
  Json json{{"tokens", r.tokens},
            {"experts", r.experts},
            {"top_k", r.top_k},
            {"tile", r.tile},
            {"chosen", r.chosen},
            {"kept", r.kept},
            {"before", to_json(padding_of(r.chosen, r.tile))},
            {"after", to_json(padding_of(r.kept, r.tile))},
            {"added", r.added},
            {"dropped", r.dropped},
            {"tokens_without_expert", r.without_expert},
            {"most_experts_of_a_token", r.most_experts}};
  if (r.balance_loss) {
    json["balance_loss"] = json_number(*r.balance_loss), json["z_loss"] = json_number(*r.z_loss);
    json["coefficient"] = json_number(r.coefficient);
  }
  return json;
}

}  // namespace mxcheck
