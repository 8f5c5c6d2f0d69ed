// mxcheck route: router logits to experts, weights and rows, and what that does to the experts' loads.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <span>

#include "goldens/io/routes_file.h"
#include "goldens/make/embedded.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "reference/router/loss.h"
#include "tools/common/json.h"
#include "tools/common/matrix_input.h"
#include "tools/common/output.h"
#include "tools/common/progress.h"
#include "tools/common/text.h"
#include "tools/route/report.h"
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

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::usage, text); }

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
  if (o.input.ends_with(".npy")) refuse("--name " + o.name + ": " + o.input + " holds one tensor, without a name");
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
  if (o.input.empty()) refuse("LOGITS is needed, or --list");
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

}  // namespace mxcheck
