// Rows that explain goldens of routers: the table of properties/operations/router/definitions.h, for their problem.

#include "properties/operations/router/golden.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "properties/operations/router/definitions.h"

namespace mxcheck {
namespace {

std::uint64_t number(const GoldenInfo& info, const char* key, int base = 10) {
  std::string_view text = attribute(info.attributes, key);
  if (base == 16 && text.starts_with("0x")) text.remove_prefix(2);
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n, base);
  if (error == std::errc() && end == text.data() + text.size()) return n;
  throw Error(ErrorKind::golden, std::string("its attribute ") + key + " is no number: '" + std::string(text) + "'");
}

// The variant or rule that a dataset is of: "weights_softmax_topk" is of softmax-topk.
template <class Names>
auto named_in(const std::string& dataset, const Names& names) {
  const std::remove_reference_t<decltype(names[0])>* found = nullptr;
  for (const auto& known : names) {
    std::string ending = "_" + std::string(known.name);
    std::replace(ending.begin(), ending.end(), '-', '_');
    if (dataset.ends_with(ending) && (found == nullptr || known.name.size() < found->name.size())) found = &known;
  }
  return found;
}

// A golden's router and logits. Views into the golden, and the bias into this.
struct GoldenRoutes {
  explicit GoldenRoutes(const GoldenTensors& golden);
  GoldenRoutes(const GoldenRoutes&) = delete;
  GoldenRoutes& operator=(const GoldenRoutes&) = delete;

  MatrixView logits;
  std::vector<float> bias;
  Router router;  // without a variant
};

GoldenRoutes::GoldenRoutes(const GoldenTensors& golden) {
  const Format format = format_of_dataset(golden, "logits");
  const Tensor& all = golden_tensor(golden, "logits", format, {kAnyExtent, kAnyExtent});
  logits = {format, all.data.data(), all.shape[0], all.shape[1], all.shape[1]};
  check_matrix(logits);
  if (golden.info.find("bias") != nullptr)
    bias = values_in<float>(golden_tensor(golden, "bias", Format::fp32, {logits.cols}).data);
  router.bias = bias;
  router.top_k = static_cast<std::int64_t>(number(golden.info, "top_k"));
  router.groups = static_cast<std::int64_t>(number(golden.info, "groups"));
  router.groups_kept = static_cast<std::int64_t>(number(golden.info, "groups_kept"));
  router.nan = attribute(golden.info.attributes, "nan") == "last" ? NanLogits::last : NanLogits::refuse;
  router.scale = std::bit_cast<float>(static_cast<std::uint32_t>(number(golden.info, "scale", 16)));
}

const RouterVariant& variant_of(const GoldenTensors& golden) {
  return router_variant_named(attribute(golden.info.attributes, "variant"));
}

TokenRounding rounding_of(const GoldenInfo& info, TokenRoundingRule rule) {
  TokenRounding rounding;
  rounding.rule = rule;
  const auto count = [&](const char* key, std::int64_t least) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();  // as in a suite
    const std::uint64_t n = number(info, key);
    if (n >= static_cast<std::uint64_t>(least) && n <= kMost) return static_cast<std::int64_t>(n);
    throw Error(ErrorKind::golden, "its attribute " + std::string(key) + " is " + std::to_string(n) + ": must be " +
                                       std::to_string(least) + " to " + std::to_string(kMost));
  };
  rounding.tile = count("tile", 1);
  rounding.capacity = count("capacity", 0);
  rounding.renormalize = attribute(info.attributes, "weights") != "raw";
  rounding.seed = number(info, "seed");
  rounding.layer = static_cast<std::uint32_t>(number(info, "layer"));
  rounding.step = number(info, "step");
  return rounding;
}

// The datasets of each kind, in the order of the operation's outputs.
constexpr std::string_view kChoice[] = {"experts_", "weights_"};
constexpr std::string_view kRows[] = {"chosen",      "offsets_",       "row_token_",
                                      "row_weight_", "token_offsets_", "token_rows_"};

std::optional<std::size_t> output_of(const std::string& dataset, std::span<const std::string_view> names) {
  const auto at = std::ranges::find_if(names, [&](std::string_view name) { return dataset.starts_with(name); });
  if (at == names.end()) return std::nullopt;
  return static_cast<std::size_t>(at - names.begin());
}

constexpr std::string_view kBalance[] = {"balance_loss", "balance_gradient"};
constexpr std::string_view kZ[] = {"z_loss", "z_gradient"};

// A golden's losses, whose gradients are FP32 whatever the logits: these are taken in FP32.
struct GoldenLosses {
  explicit GoldenLosses(const GoldenTensors& golden) : counts(counts_of(golden)) {
    const MatrixView given = GoldenRoutes(golden).logits;
    logits.resize(static_cast<std::size_t>(given.rows * given.cols));
    for (std::int64_t t = 0; t < given.rows; ++t) {
      given.read_row(
          t, std::span(logits).subspan(static_cast<std::size_t>(t * given.cols), static_cast<std::size_t>(given.cols)));
    }
    of.logits = {Format::fp32, std::as_bytes(std::span(logits)).data(), given.rows, given.cols, given.cols};
    of.coefficient = std::bit_cast<float>(static_cast<std::uint32_t>(number(golden.info, "coefficient", 16)));
  }
  GoldenLosses(const GoldenLosses&) = delete;
  GoldenLosses& operator=(const GoldenLosses&) = delete;

  std::vector<float> logits;
  std::vector<std::int32_t> counts;
  RouterLossInputs of;  // without counts

 private:
  static std::vector<std::int32_t> counts_of(const GoldenTensors& golden) {
    const std::int64_t experts = golden_tensor(golden, "logits").shape.at(1);
    return values_in<std::int32_t>(golden_tensor(golden, "counts", Format::fp32, {experts}).data);
  }
};

// A golden's lists by row end with the last row; outputs of the operation have room for more.
Bytes cut_to_rows(const Definition& row, std::size_t output) {
  constexpr std::size_t kOffsets = 1, kTokenOffsets = 4, kWidth = 4;
  const auto offsets = values_in<std::int64_t>(row.bytes(kOffsets));
  Bytes bytes = row.bytes(output);
  if (!offsets.empty() && output > kOffsets && output != kTokenOffsets)
    bytes.resize(static_cast<std::size_t>(offsets.back()) * kWidth);
  return bytes;
}

}  // namespace

Table rows_of_choice(const GoldenTensors& golden, const DatasetInfo& dataset) {
  const auto routes = std::make_shared<GoldenRoutes>(golden);
  const std::optional<std::size_t> output = output_of(dataset.name, kChoice);
  const auto* variant = named_in(dataset.name, all_router_variants());
  if (!output || variant == nullptr) return {};
  routes->router.variant = variant;
  Table rows = owning(choice_definitions(routes->router, routes->logits), routes);
  for (Definition& row : rows) row.bytes = [row = row, n = *output](std::size_t) { return row.bytes(n); };
  return rows;
}

Table rows_of_rounding(const GoldenTensors& golden, const DatasetInfo& dataset) {
  const auto routes = std::make_shared<GoldenRoutes>(golden);
  const std::optional<std::size_t> output = output_of(dataset.name, kRows);
  if (!output) return {};
  const auto* rule = named_in(dataset.name, all_token_rounding_rules());  // none: `chosen`, which no rule changes
  routes->router.variant = &variant_of(golden);
  const TokenRounding rounding = rounding_of(golden.info, rule == nullptr ? TokenRoundingRule::none : rule->rule);
  Table rows = owning(rounding_definitions(routes->router, rounding, routes->logits), routes);
  for (Definition& row : rows) row.bytes = [row = row, n = *output](std::size_t) { return cut_to_rows(row, n); };
  return rows;
}

Table rows_of_losses(const GoldenTensors& golden, const DatasetInfo& dataset) {
  const std::optional<std::size_t> balance = output_of(dataset.name, kBalance);
  const std::optional<std::size_t> output = balance ? balance : output_of(dataset.name, kZ);
  if (!output) return {};
  const auto losses = std::make_shared<GoldenLosses>(golden);
  if (balance) losses->of.counts = losses->counts;
  Table rows = owning(loss_definitions(losses->of), losses);
  for (Definition& row : rows) row.bytes = [row = row, n = *output](std::size_t) { return row.bytes(n); };
  return rows;
}

std::vector<float> logits_gradient_of(const GoldenTensors& golden, std::span<const float> slot_gradient) {
  GoldenRoutes p(golden);
  p.router.variant = &variant_of(golden);
  const Routes routes = route(p.router, p.logits);
  return route_backward(p.router, p.logits, routes.experts, slot_gradient, p.router.top_k);
}

}  // namespace mxcheck
