#include "goldens/make/routes.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "goldens/io/readers.h"
#include "goldens/make/input.h"
#include "goldens/make/logits.h"
#include "numerics/error.h"
#include "reference/router/loss.h"
#include "reference/router/metadata.h"

namespace mxcheck {
namespace {

std::string underscored(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

std::string hex(float value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[std::bit_cast<std::uint32_t>(value) >> shift & 15];
  return text;
}

class Maker {
 public:
  Maker(const GoldenSpec& golden, const std::string& directory, int threads)
      : golden_(golden), route_(golden.route), threads_(threads) {
    table_.info.attributes = common_attributes(golden);
    if (golden.kind != GoldenKind::route_metadata) read_logits(directory);
  }

  Table run() {
    switch (golden_.kind) {
      case GoldenKind::route: choose(); break;
      case GoldenKind::route_round: round(); break;
      case GoldenKind::route_metadata: sort(); break;
      case GoldenKind::route_backward: differentiate(); break;
      case GoldenKind::route_losses: lose(); break;
      default: throw Error(ErrorKind::internal, "a golden that is not about routers");
    }
    return std::move(table_);
  }

 private:
  void attribute(const std::string& key, std::string value) {
    table_.info.attributes.emplace_back(key, std::move(value));
  }

  void add(Role role, const std::string& name, std::string_view format, Dtype dtype, std::vector<std::int64_t> shape,
           std::span<const std::byte> bytes, const std::string& meaning) {
    table_.info.datasets.push_back({name, role, std::string(format), dtype, std::move(shape), {{"meaning", meaning}}});
    table_.data.emplace_back(bytes.begin(), bytes.end());
  }
  template <class T>
  void add(Role role, const std::string& name, std::vector<std::int64_t> shape, std::span<T> values,
           const std::string& meaning) {
    if constexpr (std::is_same_v<std::remove_const_t<T>, float>) {
      add(role, name, "float32", Dtype::u32, std::move(shape), std::as_bytes(values), meaning);
    } else {
      constexpr bool kWide = sizeof(T) == 8;
      add(role, name, kWide ? "int64" : "int32", kWide ? Dtype::i64 : Dtype::i32, std::move(shape),
          std::as_bytes(values), meaning);
    }
  }
  template <class T>
  void list(Role role, const std::string& name, std::span<T> values, const std::string& meaning) {
    add(role, name, {static_cast<std::int64_t>(values.size())}, values, meaning);
  }

  void read_logits(const std::string& directory) {
    const InputRows input = open_input(golden_.input, directory);
    const std::string where = golden_.input.file.empty() ? "input" : golden_.input.file;
    const auto width = static_cast<std::size_t>(input.dtype == Format::fp32 ? 4 : 2);
    logits_.resize(checked_bytes(std::vector<std::int64_t>{input.rows, input.cols}, width, where));
    input.reader->read(logits_);
    view_ = {input.dtype, logits_.data(), input.rows, input.cols, input.cols};
    attribute("source", input.source);
    attribute("source_dtype", std::string(spec(input.dtype).dtype_name));
    attribute("tokens", std::to_string(input.rows));
    attribute("experts", std::to_string(input.cols));
    for (auto& [key, value] : router_attributes(golden_)) attribute(key, std::move(value));
    add(Role::input, "logits", spec(input.dtype).dtype_name, width == 4 ? Dtype::u32 : Dtype::u16,
        {input.rows, input.cols}, logits_, "bits of the router's logits, a row a token");
    if (!route_.bias.empty()) {
      list(Role::input, "bias", std::span(route_.bias), "added to the key of each expert, for choosing alone");
    }
  }

  [[nodiscard]] Router router_of(const RouterVariant& variant) const {
    Router router = route_.router;
    router.variant = &variant;
    router.bias = route_.bias;
    return router;
  }
  [[nodiscard]] std::vector<std::int64_t> by_route() const { return {view_.rows, route_.router.top_k}; }

  void choose() {
    for (const RouterVariant* variant : route_.variants) {
      const Routes routes = route(router_of(*variant), view_, threads_);
      const std::string name = underscored(variant->name);
      const std::string by(variant->name);
      add(Role::output, "experts_" + name, by_route(), std::span(routes.experts), "best first, by " + by);
      add(Role::output, "weights_" + name, by_route(), std::span(routes.weights), "of those experts, by " + by);
    }
  }

  void round() {
    const Router router = router_of(*route_.variants[0]);
    TokenRounding token_rounding = route_.token_rounding;
    attribute("tile", std::to_string(token_rounding.tile));
    attribute("capacity", std::to_string(token_rounding.capacity));
    attribute("weights", token_rounding.renormalize ? "renorm" : "raw");
    attribute("seed", std::to_string(token_rounding.seed));
    attribute("layer", std::to_string(token_rounding.layer));
    attribute("step", std::to_string(token_rounding.step));
    for (const TokenRoundingRule rule : route_.rules) {
      token_rounding.rule = rule;
      const RoundedTokens a = round_tokens(router, token_rounding, view_, threads_);
      if (rule == route_.rules[0]) {
        list(Role::output, "chosen", std::span(a.chosen), "tokens that chose each expert, before any rule");
      }
      const std::string name(to_text(rule)), end = "_" + underscored(name);
      const auto rows = static_cast<std::size_t>(a.offsets.back());
      list(Role::output, "offsets" + end, std::span(a.offsets), "first row of each expert, then all rows, by " + name);
      list(Role::output, "row_token" + end, std::span(a.row_token).first(rows), "ascending within an expert");
      list(Role::output, "row_weight" + end, std::span(a.row_weight).first(rows), "of the token for the expert");
      list(Role::output, "token_offsets" + end, std::span(a.token_offsets), "first entry of token_rows of each token");
      list(Role::output, "token_rows" + end, std::span(a.token_rows).first(rows), "by token, its experts ascending");
    }
  }

  void sort() {
    const RouteMetadata m =
        route_metadata(route_.slots, route_.width, route_.token_offsets, route_.experts, route_.token_rounding.tile);
    attribute("experts", std::to_string(route_.experts));
    attribute("width", std::to_string(route_.width));
    attribute("tile", std::to_string(route_.token_rounding.tile));
    list(Role::input, "slot_experts", std::span(route_.slots), "token after token; -1: dropped");
    if (!route_.token_offsets.empty()) {
      list(Role::input, "token_offsets", std::span(route_.token_offsets), "first slot of each token, then all slots");
    }
    const auto rows = static_cast<std::size_t>(m.offsets.back());
    const std::string padding = "; -1: padding";
    list(Role::output, "counts", std::span(m.counts), "routes of each expert");
    list(Role::output, "offsets", std::span(m.offsets), "first row of each expert, a multiple of the tile; then all");
    list(Role::output, "row_slot", std::span(m.row_slot).first(rows), "the slot that the row is of" + padding);
    list(Role::output, "row_token", std::span(m.row_token).first(rows), "its token" + padding);
    list(Role::output, "row_expert", std::span(m.row_expert).first(rows), "its expert" + padding);
    list(Role::output, "slot_row", std::span(m.slot_row), "the row of each slot; -1: dropped");
  }

  void differentiate() {
    const std::vector<float> gradient = synthetic_gradient(view_.rows * route_.router.top_k);
    add(Role::input, "gradient", by_route(), std::span(gradient), "of the loss by the weights");
    for (const RouterVariant* variant : route_.variants) {
      const Router router = router_of(*variant);
      const Routes routes = route(router, view_, threads_);
      const std::string name = underscored(variant->name);
      add(Role::input, "experts_" + name, by_route(), std::span(routes.experts),
          "whose weights the gradient is of, by " + std::string(variant->name));
      const std::vector<float> out =
          route_backward(router, view_, routes.experts, gradient, route_.router.top_k, threads_);
      add(Role::output, "logits_gradient_" + name, {view_.rows, view_.cols}, std::span(out),
          "of the loss by the logits");
    }
  }

  void lose() {
    const Routes routes = route(router_of(*route_.variants[0]), view_, threads_);
    std::vector<std::int32_t> counts(static_cast<std::size_t>(view_.cols));
    for (const std::int32_t expert : routes.experts) ++counts[static_cast<std::size_t>(expert)];
    attribute("coefficient", hex(route_.coefficient));
    list(Role::input, "counts", std::span(counts), "routes of each expert");
    const auto both = [&](const std::string& name, const RouterLoss& loss) {
      list(Role::output, name + "_loss", std::span(&loss.value, 1), "one number");
      add(Role::output, name + "_gradient", {view_.rows, view_.cols}, std::span(loss.gradient), "by the logits");
    };
    both("balance", load_balancing_loss(view_, counts, route_.coefficient, threads_));
    both("z", router_z_loss(view_, route_.coefficient, threads_));
  }

  const GoldenSpec& golden_;
  const RouteSpec& route_;
  int threads_;
  std::vector<std::byte> logits_;
  MatrixView view_;
  Table table_;
};

}  // namespace

Attributes router_attributes(const GoldenSpec& golden) {
  const Router& router = golden.route.router;
  Attributes a{{"top_k", std::to_string(router.top_k)},
               {"groups", std::to_string(router.groups)},
               {"groups_kept", std::to_string(router.groups_kept)},
               {"nan", router.nan == NanLogits::last ? "last" : "refuse"},
               {"scale", hex(router.scale)}};
  if (golden.kind != GoldenKind::route && golden.kind != GoldenKind::route_backward)
    a.emplace_back("variant", golden.route.variants[0]->name);
  return a;
}

bool is_about_routers(GoldenKind kind) {
  return kind == GoldenKind::route || kind == GoldenKind::route_round || kind == GoldenKind::route_metadata ||
         kind == GoldenKind::route_backward || kind == GoldenKind::route_losses;
}

Table make_routes(const GoldenSpec& golden, const std::string& input_directory, int threads) {
  return Maker(golden, input_directory, threads).run();
}

}  // namespace mxcheck
