// mxcheck route: router logits to experts, weights and rows, and what that does to the experts' loads.

#include "numerics/names.h"
#include "tools/route/report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "goldens/data/embedded.h"
#include "goldens/io/routes_file.h"
#include "goldens/io/tensor_file.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "reference/router/loss.h"
#include "tools/common/output.h"
#include "tools/common/panels.h"
#include "tools/common/progress.h"
#include "tools/route/router_options.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

struct Options {
  std::string input, name, output;
  RouterOptions router;
  std::optional<std::int64_t> index;
  std::string dtype;
  int threads = 0;
  float coefficient = 1;
  bool padded = false, losses = false, loads = false, json = false, list = false;
};

int print_list(bool json) {
  if (json) {
    Json all{{"variants", Json::array()}, {"rules", Json::array()}};
    for (const RouterVariant& v : all_router_variants()) {
      all["variants"].push_back({{"name", v.name}, {"meaning", v.meaning}});
    }
    for (const TokenRoundingRuleSpec& r : all_token_rounding_rules()) {
      all["rules"].push_back({{"name", r.name}, {"meaning", r.meaning}});
    }
    print_json(all);
    return 0;
  }
  print("variants\n");
  for (const RouterVariant& v : all_router_variants()) print(fmt::format("  {:<22}{}\n", v.name, v.meaning));
  print("rules\n");
  for (const TokenRoundingRuleSpec& r : all_token_rounding_rules())
    print(fmt::format("  {:<22}{}\n", r.name, r.meaning));
  return 0;
}

std::string location_of(const Options& o) {
  if (o.name.empty()) return o.input;
  if (o.input.ends_with(".npy"))
    refuse_usage("--name " + o.name + ": " + o.input + " holds one tensor, without a name");
  const bool hdf5 = o.input.ends_with(".h5") || o.input.ends_with(".hdf5");
  return o.input + (hdf5 && o.name[0] != '/' ? ":/" : ":") + o.name;
}

std::string what_was_done(const RoutesFile& f, const MatrixView& logits) {
  std::string text = fmt::format("{} tokens, {} experts, top {} by {}", logits.rows, logits.cols, f.router.top_k,
                                 f.router.variant->name);
  if (f.router.groups > 0) text += fmt::format(" in {} of {} groups", f.router.groups_kept, f.router.groups);
  const TokenRoundingRule rule = f.token_rounding.rule;
  if (rule == TokenRoundingRule::none) return text;
  text += fmt::format(", then {}", to_text(rule));
  if (takes_capacity(rule)) return text + fmt::format(" with capacity {}", f.token_rounding.capacity);
  return text + fmt::format(" to tiles of {}", f.token_rounding.tile);
}

// The rows of the experts in slots of the tokens, experts ascending.
RouteMetadata padded_rows(const RoundedTokens& rounded, std::int64_t tile) {
  std::vector<std::int32_t> expert_of_row(static_cast<std::size_t>(rounded.offsets.back()));
  for (std::size_t e = 0; e + 1 < rounded.offsets.size(); ++e) {
    std::fill(expert_of_row.begin() + rounded.offsets[e], expert_of_row.begin() + rounded.offsets[e + 1],
              static_cast<std::int32_t>(e));
  }
  std::vector<std::int32_t> slots;
  for (const std::int32_t row : std::span(rounded.token_rows).first(expert_of_row.size())) {
    slots.push_back(expert_of_row[static_cast<std::size_t>(row)]);
  }
  return route_metadata(slots, 0, rounded.token_offsets, rounded.experts, tile);
}

RouteReport compute(const Options& o, const MatrixView& logits, RoutesFile& file) {
  file.routes = route(file.router, logits, o.threads);
  file.rounded = round_tokens(file.router, file.token_rounding, logits, o.threads);
  const bool none = file.token_rounding.rule == TokenRoundingRule::none;
  const auto token_choice = [&](std::int64_t tile) {
    return route_metadata(file.routes.experts, file.router.top_k, {}, logits.cols, tile);
  };
  if (none) file.metadata = token_choice(1);
  if (o.padded) file.padded = none ? token_choice(o.router.tile) : padded_rows(file.rounded, o.router.tile);
  RouteReport report = report_of(file.routes, file.rounded, o.router.tile);
  if (o.losses) {
    report.coefficient = o.coefficient;
    report.balance_loss = load_balancing_loss(logits, file.rounded.chosen, o.coefficient, o.threads).value;
    report.z_loss = router_z_loss(logits, o.coefficient, o.threads).value;
  }
  return report;
}

std::string report_text(const Options& o, const std::string& location, const RouteReport& report,
                        const std::string& done) {
  if (!o.json) {
    const std::string place = o.output.empty() ? location : o.output;
    return fmt::format("{}: {}\n{}", place, done, to_text(report, o.loads));
  }
  Json json{{"input", location}, {"output", o.output}, {"variant", o.router.variant}, {"rule", o.router.round}};
  json.update(to_json(report));
  return to_text(json) + "\n";
}

int run(const Options& o) {
  if (o.list) return print_list(o.json);
  if (o.input.empty()) refuse_usage("LOGITS is needed, or --list");
  const std::string location = location_of(o);
  RoutesFile file;
  file.router = router_of(o.router);
  file.token_rounding = token_rounding_of(o.router);
  if (!o.output.empty()) check_output(o.output, OutputKinds::safetensors_or_hdf5, {location, o.router.bias});

  std::optional<Progress> progress(std::in_place, "reading " + location);
  const Tensor tensor = tensor_at(location);
  const MatrixView logits = matrix_of({location, o.index, o.dtype}, tensor);
  const std::vector<float> bias = bias_at(o.router.bias, file.router, logits.cols);
  file.router.bias = bias;
  file.source = logits.dtype;
  set_capacity(o.router, file.token_rounding, logits);
  progress->now(fmt::format("routing {} tokens", logits.rows));
  RouteReport report;
  in_place(location, [&] { report = compute(o, logits, file); });
  const auto answer = [&] {
    progress.reset();
    print_at_once(report_text(o, location, report, what_was_done(file, logits)));
  };
  if (o.output.empty()) {
    answer();
  } else {
    progress->now("writing " + o.output);
    write_routes(o.output, file, answer);
  }
  return 0;
}

}  // namespace

void add_route(Command& app) {
  auto o = std::make_shared<Options>();
  Command sub = app.subcommand("route", "Router logits to experts, weights and rows, and the experts' loads");
  sub.option("LOGITS", o->input,
             "FILE.npy, FILE.safetensors:TENSOR, FILE.h5:/DATASET or real:NAME; F32, BF16 or F16, [tokens, experts]");
  sub.option("--name", o->name, "The tensor's name, where LOGITS is a file alone").not_empty();
  const auto output =
      sub.option("-o,--output", o->output, "OUT.safetensors or OUT.h5; without it the numbers are printed alone")
          .not_empty();
  sub.flag("--padded", o->padded, "Write also the rows with every expert at a multiple of --tile: padded_...")
      .needs(output);
  add_router_options(sub, o->router);
  sub.option("--index", o->index, "Which matrix of a tensor with three dimensions");
  sub.option("--dtype", o->dtype, "Take unsigned 16-bit integers as the bits of this").one_of({"bf16", "fp16"});
  sub.option("--threads", o->threads, "0: all of the machine's; changes nothing but the time")
      .between(0, 4096)
      .shows_default();
  const auto losses = sub.flag("--losses", o->losses, "Load-balancing loss and z loss");
  sub.option("--coefficient", o->coefficient, "Of both losses").finite_fp32().shows_default().needs(losses);
  sub.flag("--loads", o->loads, "One line an expert");
  sub.flag("--json", o->json, "Print the numbers, or the list, as JSON");
  sub.flag("--list", o->list, "List variants and rules");
  sub.footer(
      "OUT holds, of every rule: chosen [experts], offsets [experts + 1], row_token and row_weight [rows], "
      "token_offsets\n"
      "[tokens + 1], token_rows [rows]. Of --round none also experts and weights [tokens, top_k], row_slot [rows] and\n"
      "slot_row [tokens * top_k]; with --padded padded_offsets, padded_row_slot, padded_row_token, padded_row_expert "
      "and\n"
      "padded_slot_row, where padding is -1. Indices are I32, offsets I64, weights F32. docs/router.md defines every "
      "bit of "
      "them.\n\n"
      "Examples:\n"
      "  mxcheck route real:layer0.router_logits --top-k 4 --round nr-f --losses\n"
      "  mxcheck route logits.npy --top-k 8 --variant sigmoid --bias b.npy --groups 8 --groups-kept 4 -o "
      "r.safetensors\n"
      "  mxcheck route acts.h5 --name router_logits --top-k 2 --round expert-choice --capacity-factor 1 -o r.h5");
  sub.runs([o] { return run(*o); });
}

namespace {

constexpr std::int64_t kMostCount = std::numeric_limits<std::int32_t>::max();  // rows are counted in int32

void add_variant_options(Command& sub, RouterOptions& o) {
  sub.option("--variant", o.variant, "What the weights are; route --list names them")
      .completes(names_in(all_router_variants()))
      .shows_default();
  sub.option("--top-k", o.top_k, "Experts of a token").between(1, kMostCount);
  sub.option("--bias", o.bias, "A vector of F32, added to each expert's key for choosing alone").not_empty();
  const auto groups =
      sub.option("--groups", o.groups, "Group-limited choice: runs of experts of equal length").between(1, kMostCount);
  sub.option("--groups-kept", o.groups_kept, "Groups whose experts can be chosen").between(1, kMostCount).needs(groups);
  sub.option("--nan", o.nan, "A NaN is refused, or comes last").one_of({"refuse", "last"}).shows_default();
  sub.option("--scale", o.scale, "Multiplies every weight").finite_fp32().shows_default();
}

void add_rule_options(Command& sub, RouterOptions& o) {
  const std::string group = "Rows (after token choice)";
  sub.option("--round", o.round, "Rule; route --list names them").shows_default().in_group(group);
  sub.option("--tile", o.tile, "Rows that a rule rounds to, and that padding is counted and --padded made for")
      .between(1, kMostCount)
      .shows_default()
      .in_group(group);
  const auto capacity = sub.option("--capacity", o.capacity,
                                   "Tokens an expert takes at most; 0: all that chose it, but of expert-choice none")
                            .between(0, kMostCount)
                            .in_group(group);
  sub.option(
         "--capacity-factor", o.capacity_factor,
         "The same as a multiple of tokens * top_k / experts: the decimal as written, exactly; the product is rounded "
         "up for expert-choice, down for the others")
      .not_empty()
      .excludes(capacity)
      .in_group(group);
  sub.option("--weights", o.weights, "After a rule: over the sum of a token's kept scores, or the scores")
      .one_of({"renorm", "raw"})
      .in_group(group);
  sub.option("--seed", o.seed, "Of sr-f (0)").counter().in_group(group);
  sub.option("--layer", o.layer, "Of sr-f (0)").counter().in_group(group);
  sub.option("--step", o.step, "Of sr-f (0)").counter().in_group(group);
}

}  // namespace

// Checks that the bias fits the logits: the reference's messages would name the logits' file.
std::vector<float> bias_at(const std::string& location, const Router& router, std::int64_t experts) {
  if (location.empty()) return {};
  const Tensor t = read_tensor(location);
  if (t.format != Format::fp32 || t.shape.size() != 1) {
    throw Error(ErrorKind::input, location + ": a bias is one vector of F32, a number an expert");
  }
  std::vector<float> bias = values_in<float>(t.data);
  if (bias.empty()) throw Error(ErrorKind::input, location + ": is empty; a bias has a number an expert");
  Router biased = router;
  biased.bias = bias;
  in_place(location, [&] { check_bias(biased, experts); });
  for (std::size_t e = 0; router.variant->packed && e < bias.size(); ++e) {
    if (std::isfinite(bias[e])) continue;
    throw Error(ErrorKind::input,
                fmt::format("{}: {} in the bias of expert {}: packed order takes finite numbers alone", location,
                            std::isnan(bias[e]) ? "NaN" : "Inf", e));
  }
  return bias;
}

// All of the rule but the capacity, which may depend on the number of tokens.
TokenRounding token_rounding_of(const RouterOptions& o) {
  TokenRounding a;
  a.rule = token_rounding_rule_named(o.round);
  a.tile = o.tile;
  const bool none = a.rule == TokenRoundingRule::none;
  if (none && !o.weights.empty()) refuse_usage("--weights: of --round none they are the variant's");
  a.renormalize = o.weights != "raw";
  const bool random = a.rule == TokenRoundingRule::sr_f;
  if (!random && (o.seed || o.layer || o.step)) refuse_usage("--seed, --layer and --step are for --round sr-f");
  a.seed = o.seed.value_or(0), a.layer = o.layer.value_or(0), a.step = o.step.value_or(0);
  const bool given = o.capacity || !o.capacity_factor.empty();
  if (given && !takes_capacity(a.rule)) {
    refuse_usage("--capacity and --capacity-factor are for --round expert-choice, capacity-order and capacity-score");
  }
  if (!given && takes_capacity(a.rule)) refuse_usage("--round " + o.round + " needs --capacity or --capacity-factor");
  return a;
}

void set_capacity(const RouterOptions& o, TokenRounding& a, const MatrixView& logits) {
  if (o.capacity) a.capacity = *o.capacity;
  if (o.capacity_factor.empty() || logits.cols == 0) return;
  a.capacity = capacity_from_factor(a.rule, o.capacity_factor, logits.rows, *o.top_k, logits.cols);
  if (a.capacity == 0 && logits.rows > 0) {  // which the capacity rules would take for no limit at all
    refuse_usage("capacity factor '" + o.capacity_factor + "': leaves no token for an expert");
  }
}

Router router_of(const RouterOptions& o) {
  if (!o.top_k) refuse_usage("--top-k is needed");
  Router router;
  router.variant = &router_variant_named(o.variant);
  router.top_k = *o.top_k;
  router.groups = o.groups, router.groups_kept = o.groups_kept;
  router.nan = o.nan == "last" ? NanLogits::last : NanLogits::refuse;
  router.scale = o.scale;
  return router;
}

void add_router_options(Command& sub, RouterOptions& o) {
  add_variant_options(sub, o);
  add_rule_options(sub, o);
}

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
