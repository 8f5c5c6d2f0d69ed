#include "properties/operations/router/problem.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "goldens/data/embedded.h"
#include "kernels/candidate_route.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "properties/core/check.h"
#include "properties/core/input.h"
#include "properties/core/phases.h"
#include "properties/operations/router/operation.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostToMatch = 100'000;  // logits: each row of the table computes an answer

TensorInfo integers(std::string name, int bits, std::int64_t rows, std::int64_t cols) {
  TensorInfo info{std::move(name), Format::fp32, rows, cols, 0, 0, false};
  info.integer_bits = bits;
  return info;
}

// The case that a call poses, without the type of logits.
Case case_of(const Call& call) {
  const auto policy = read<mxcheck_route_policy>(call.policy);
  Case c;
  c.variant.operation = call.operation;
  route_of(c.variant) = {policy.policy.recipe, policy.nan == MXCHECK_NAN_LAST, policy.bias != 0, policy.groups != 0,
                         policy.rule,          policy.renormalize != 0};
  c.rows = policy.policy.rows, c.cols = policy.policy.cols;
  c.threads = policy.policy.threads;
  c.seed = policy.seed;
  route_case(c) = {policy.top_k,    policy.groups, policy.groups_kept, std::max<std::int64_t>(1, policy.tile),
                   policy.capacity, policy.scale,  policy.step,        policy.layer};
  return c;
}

// A call's inputs are the first ones, as many as the operation's problem has.
const CallTensor& input_at(const Call& call, std::size_t at) {
  if (at < call.inputs.size()) return call.inputs[at];
  throw Error(ErrorKind::internal, "a call of a router that no statement makes");
}
template <class T>
std::vector<T> input_values(const Call& call, std::size_t at) {
  const CallTensor& t = input_at(call, at);
  return values_in<T>({t.data, t.bytes});
}

}  // namespace

std::vector<ExpectedTensor> RouterProblem::answer() const {
  std::vector<Bytes> bytes = reference();
  std::vector<ExpectedTensor> answer;
  for (std::size_t i = 0; i < bytes.size(); ++i) answer.push_back({outputs[i], std::move(bytes[i])});
  return answer;
}

void RouterProblem::explain(std::size_t output, Finding& finding) const {
  tell(output, finding);
  finding.element.push_back("expected  " + expected_text(*finding.difference));
  finding.element.push_back("observed  " + observed_text(*finding.difference));
}

Table RouterProblem::definitions(std::span<const Bytes>) const {
  return c.elements() > kMostToMatch ? Table() : table();
}

// Problems that read logits.

LogitsProblem::LogitsProblem(const Case& from) : RouterProblem(from), input(expand_logits(from)) {
  if (route_of(from.variant).bias) bias = expand_bias(from);
}

LogitsProblem::LogitsProblem(const Call& call) : RouterProblem(case_of(call)) {
  const CallTensor& logits = input_at(call, 0);
  c.variant.dtype = logits.dtype;
  input = {{logits.data, logits.data + logits.bytes},
           logits.dtype,
           c.rows,
           c.cols,
           logits.row_stride != 0 ? logits.row_stride : c.cols};
  if (route_of(c.variant).bias) bias = input_values<float>(call, 1);
}

std::vector<ProblemInput> LogitsProblem::inputs() const {
  std::vector<ProblemInput> all{{values_tensor(c.variant.dtype, c.rows, c.cols, input.stride, input.bytes),
                                 values_info("x", c.variant.dtype, c.rows, std::max(c.cols, input.stride))}};
  if (route_of(c.variant).bias) all.push_back(vector_input("bias", bias));
  return all;
}

Router LogitsProblem::router() const {
  const RouteVariant& v = route_of(c.variant);
  const RouteCase& own = route_case(c);
  Router router;
  router.variant = &router_variant_named(v.router);
  router.top_k = own.top_k, router.groups = own.groups, router.groups_kept = own.groups_kept;
  router.nan = v.nan_last ? NanLogits::last : NanLogits::refuse;
  router.scale = own.scale;
  if (v.bias) router.bias = bias;
  return router;
}

// Token choice.

ChoiceProblem::ChoiceProblem(const LogitsProblem& of, const Variant& as) : LogitsProblem(of) {
  c.variant = as;
  describe_outputs();
}

void ChoiceProblem::describe_outputs() {
  const std::int64_t top_k = route_case(c).top_k;
  outputs = {integers("experts", 32, c.rows, top_k), values_info("weights", Format::fp32, c.rows, top_k)};
}

// Token rounding.

void RoundingProblem::describe_outputs() {
  const std::int64_t rows = token_rounding_capacity(router(), token_rounding(), c.rows, c.cols);
  outputs = {integers("chosen", 32, 1, c.cols),
             integers("offsets", 64, 1, c.cols + 1),
             integers("row_token", 32, 1, rows),
             values_info("row_weight", Format::fp32, 1, rows),
             integers("token_offsets", 64, 1, c.rows + 1),
             integers("token_rows", 32, 1, rows)};
  for (TensorInfo& info : outputs) info.is_vector = true;
}

TokenRounding RoundingProblem::token_rounding() const {
  const RouteVariant& v = route_of(c.variant);
  const RouteCase& own = route_case(c);
  return {token_rounding_rule_named(v.rule), own.tile, own.capacity, v.renormalize, c.seed, own.layer, own.step};
}

// Gradients.

GradientProblem::GradientProblem(const Case& from)
    : LogitsProblem(from), routes(expand_chosen_experts(from)), gradient(expand_gradient(from, routes)) {
  describe_outputs();
}

GradientProblem::GradientProblem(const Call& call)
    : LogitsProblem(call), routes(input_values<std::int32_t>(call, 1)), gradient(input_values<float>(call, 2)) {
  describe_outputs();
}

void GradientProblem::describe_outputs() {
  outputs = {values_info("gradient of the logits", c.variant.dtype, c.rows, c.cols)};
}

std::vector<ProblemInput> GradientProblem::inputs() const {
  std::vector<ProblemInput> all = LogitsProblem::inputs();
  for (ProblemInput of_slots : {vector_input("routes", routes), vector_input("gradient", gradient)}) {
    of_slots.tensor.shape = {c.rows, route_case(c).top_k};
    all.push_back(std::move(of_slots));
  }
  return all;
}

std::vector<Bytes> GradientProblem::reference() const {
  return gradient_bytes(c.variant.dtype, route_backward(router(), input.view(), routes, gradient, route_case(c).top_k));
}

// Losses.

LossProblem::LossProblem(const Case& from) : LogitsProblem(from) {
  if (is_balance()) counts = expand_counts(from);
  describe_outputs();
}

LossProblem::LossProblem(const Call& call) : LogitsProblem(call) {
  if (is_balance()) counts = input_values<std::int32_t>(call, 1);
  describe_outputs();
}

void LossProblem::describe_outputs() {
  outputs = {values_info("loss", Format::fp32, 1, 1),
             values_info("gradient of the logits", c.variant.dtype, c.rows, c.cols)};
  outputs[0].is_vector = true;
}

std::vector<ProblemInput> LossProblem::inputs() const {
  std::vector<ProblemInput> all = LogitsProblem::inputs();
  if (is_balance()) all.push_back(vector_input("counts", counts));
  return all;
}

std::vector<Bytes> LossProblem::reference() const { return bytes_of(loss_of(of()), c.variant.dtype); }

// Metadata.

MetadataProblem::MetadataProblem(const Case& from) : RouterProblem(from) {
  const std::int64_t top_k = route_case(from).top_k;
  if (top_k == 0) token_offsets = expand_token_offsets(from);
  routes = expand_slot_experts(from, top_k == 0 ? token_offsets.back() : from.rows * top_k);
  describe_outputs();
}

MetadataProblem::MetadataProblem(const Call& call)
    : RouterProblem(case_of(call)), routes(input_values<std::int32_t>(call, 0)) {
  if (route_case(c).top_k == 0) token_offsets = input_values<std::int64_t>(call, 1);
  describe_outputs();
}

void MetadataProblem::describe_outputs() {
  const auto slots = static_cast<std::int64_t>(routes.size());
  const std::int64_t rows = metadata_capacity(slots, c.cols, route_case(c).tile);
  outputs = {integers("counts", 32, 1, c.cols),   integers("offsets", 64, 1, c.cols + 1),
             integers("row_slot", 32, 1, rows),   integers("row_token", 32, 1, rows),
             integers("row_expert", 32, 1, rows), integers("slot_row", 32, 1, slots)};
  for (TensorInfo& info : outputs) info.is_vector = true;
}

RouteMetadata MetadataProblem::metadata() const {
  return route_metadata(routes, route_case(c).top_k, token_offsets, c.cols, route_case(c).tile);
}

std::vector<ProblemInput> MetadataProblem::inputs() const {
  std::vector<ProblemInput> all{vector_input("routes", routes)};
  if (route_case(c).top_k == 0) all.push_back(vector_input("token_offsets", token_offsets));
  return all;
}

Table MetadataProblem::table() const {
  return metadata_definitions(routes, route_case(c).top_k, token_offsets, c.cols, route_case(c).tile);
}

// Logits, biases, gradients and routes of a case. Element (token, expert) is a pure function of the case and its place.
//
//   zeros       +0: every expert is as good as any other
//   codes       a handful of values around -1, 0 and 1, neighbours and both zeros among them: ties everywhere
//   normal      normal, on popularities of the experts from starved to flooded
//   boundaries  a row within one ulp of one value; in FP32 every second row within its low 12 bits
//   specials    rows of zeros, infinities, NaN, subnormals, the largest values, alone and mixed
//   bits, wide  any pattern; any finite magnitude
//   sparse      +0 but for one in eight
//   slots       loads that are known in advance: expert e gets (seed + e) modulo (2 tile + 2) tokens, as far as there
//               are tokens; the last top_k experts share the rest. Scores distinguish tokens
//   every_word, every_amax, every_row   as in case.h
//   every_bf16  normal, with a bias that leaves every score below -1 or, by the seed, above 1
//   real        a window of the committed router logits of a trained model
// A NaN is drawn only where it comes last, and neither NaN nor infinity where order is packed and for losses. The gap
// after each row of strided logits holds NaN.

namespace {

// Roughly normal.
double bell(std::uint64_t word) { return four_uniforms(word) * 1.75; }

// The bits of the type's number next to value, by so many steps of magnitude.
std::uint32_t beside(Format dtype, double value, int steps) {
  return nearest_bits(dtype, value) + static_cast<std::uint32_t>(steps);
}

bool refuses_infinity(const Variant& v) {
  return kind_of(v).is_loss || router_variant_named(route_of(v).router).packed;
}
bool problem_refuses_nan(const Variant& v) { return !route_of(v).nan_last || refuses_infinity(v); }

// The logit that a router of the variant may be given in place of these bits.
std::uint32_t allowed(const Variant& v, std::uint32_t bits) {
  const std::uint32_t sign = bits & sign_bit(v.dtype);
  const std::uint32_t infinity = spec(v.dtype).max_code + 1;
  std::uint32_t magnitude = bits & (sign_bit(v.dtype) - 1);
  if (magnitude > infinity && problem_refuses_nan(v)) magnitude = infinity;
  if (magnitude == infinity && refuses_infinity(v)) magnitude = infinity - 1;
  return sign | magnitude;
}

class Logits {
 public:
  explicit Logits(const Case& c) : c_(c), own_(route_case(c)), dtype_(c.variant.dtype) {
    if (c.data == Data::slots) plan_loads();
    if (c.data == Data::every_row) alphabet_ = small_alphabet(c.variant);
    if (c.data == Data::real) window_ = RealWindow(real_router_logits(), c.seed, 1);
  }

  [[nodiscard]] std::uint32_t at(std::int64_t i, std::int64_t j) const {
    const auto place = static_cast<std::uint64_t>(i * c_.cols + j);
    const std::uint64_t word = random_word(c_.seed, place);
    switch (c_.data) {
      case Data::zeros: return 0;
      case Data::codes: return code(word);
      case Data::boundaries: return near_tie(i, word);
      case Data::bits: return allowed(c_.variant, static_cast<std::uint32_t>(word) & (sign_bit(dtype_) * 2 - 1));
      case Data::wide: return any_finite(dtype_, word);
      case Data::specials: return allowed(c_.variant, special(i, j, word));
      case Data::sparse: return word % 8 == 0 ? nearest_bits(dtype_, bell(mix64(word))) : 0;
      case Data::slots: return slot(i, j, word);
      case Data::every_word: return given(c_.seed + place);
      case Data::every_amax: return j == 0 ? given(c_.seed + static_cast<std::uint64_t>(i)) : 0;
      case Data::every_row: return digit(c_.seed + static_cast<std::uint64_t>(i), j);
      case Data::real: return window_.bits(dtype_, i, j);
      default: return normal(j, word);
    }
  }

 private:
  [[nodiscard]] std::uint32_t code(std::uint64_t word) const {
    static constexpr double kValues[] = {-1, -1, 1, 1, 1, 2};
    const std::uint64_t kind = word % 10;
    if (kind < 2) return kind == 0 ? 0 : sign_bit(dtype_);
    if (kind < 8) return nearest_bits(dtype_, kValues[kind - 2]);
    return beside(dtype_, (word & 16) != 0 ? 1 : -1, kind == 8 ? 1 : -1);
  }
  [[nodiscard]] std::uint32_t normal(std::int64_t j, std::uint64_t word) const {
    const std::uint64_t expert = random_word(c_.seed ^ 0x9009, static_cast<std::uint64_t>(j)) % 16;
    const double popular = expert == 0 ? -7 : expert == 1 ? 5 : static_cast<double>(expert) / 8 - 1;
    return nearest_bits(dtype_, bell(word) + popular);
  }
  [[nodiscard]] std::uint32_t near_tie(std::int64_t i, std::uint64_t word) const {
    const std::uint64_t row = random_word(c_.seed ^ 0x71E5, static_cast<std::uint64_t>(i));
    const std::uint32_t middle = nearest_bits(dtype_, bell(row) * 3);
    if (dtype_ == Format::fp32 && (row & 1) != 0)
      return (middle & ~0xFFFU) | (static_cast<std::uint32_t>(word) & 0xFFF);
    const std::uint32_t magnitude = std::max<std::uint32_t>(1, middle & (sign_bit(dtype_) - 1));
    return (middle & sign_bit(dtype_)) | (magnitude + static_cast<std::uint32_t>(word % 3) - 1);
  }
  [[nodiscard]] std::uint32_t special(std::int64_t i, std::int64_t j, std::uint64_t word) const {
    const FormatSpec& w = spec(dtype_);
    const std::uint64_t row = random_word(c_.seed ^ 0x59EC, static_cast<std::uint64_t>(i));
    const bool chosen = static_cast<std::uint64_t>(j) == (row >> 20) % static_cast<std::uint64_t>(c_.cols);
    const std::uint32_t sign = word >> 63 != 0 ? sign_bit(dtype_) : 0;
    const std::uint32_t infinity = w.max_code + 1;
    const std::uint32_t mantissa = static_cast<std::uint32_t>(word) & ((std::uint32_t{1} << w.mantissa_bits) - 1);
    const std::uint32_t nan = infinity | std::max<std::uint32_t>(1, mantissa);
    const std::uint32_t ordinary = nearest_bits(dtype_, bell(mix64(word)));
    switch (row % 15) {
      case 0: return 0;
      case 1: return sign_bit(dtype_);
      case 2: return sign;
      case 3: return chosen ? sign | nan : ordinary;
      case 4: return chosen ? infinity : ordinary;
      case 5: return word % 3 == 0 ? infinity : word % 3 == 1 ? sign_bit(dtype_) | infinity : ordinary;
      case 6: return sign | mantissa;
      case 7: return sign | (w.max_code - static_cast<std::uint32_t>(word % 4));
      case 8: return sign | nan;
      case 9: return chosen ? ordinary : sign_bit(dtype_) | infinity;
      case 10: return word % 4 == 0 ? sign | nan : word % 4 == 1 ? sign | infinity : word % 4 == 2 ? sign : ordinary;
      case 11: return sign_bit(dtype_) | infinity;
      case 12:
        return nearest_bits(dtype_, bell(word) * 100);  // softmax has scores of 0, and subnormal ones
      // Scores of sigmoid about and below 1e-20, none of them large.
      case 13: return nearest_bits(dtype_, -28 - static_cast<double>(row >> 8 & 31) - std::abs(bell(word)));
      default: return word % 2 == 0 ? sign | nan : ordinary;
    }
  }

  // Chooses the experts of each token: slots in a row are those of one expert after the other, and of consecutive
  // tokens.
  void plan_loads() {
    const std::int64_t slots = c_.rows * own_.top_k;
    const std::int64_t counted = c_.cols - own_.top_k;
    std::int64_t left = slots;
    for (std::int64_t e = 0; e < c_.cols; ++e) {
      const std::int64_t fillers = c_.cols - e;
      std::int64_t load = (static_cast<std::int64_t>(c_.seed % 1024) + e) % (2 * own_.tile + 2);
      // The slots that are left must fit into the experts after this one, which takes no more than are left.
      if (e < counted)
        load = std::clamp(load, std::max<std::int64_t>(0, left - (fillers - 1) * c_.rows), std::min(left, c_.rows));
      if (e >= counted) load = left / fillers;
      first_slot_.push_back(slots - left);
      left -= load;
    }
    first_slot_.push_back(slots);
  }
  [[nodiscard]] std::uint32_t slot(std::int64_t i, std::int64_t j, std::uint64_t word) const {
    const std::int64_t begin = first_slot_[static_cast<std::size_t>(j)];
    const std::int64_t end = first_slot_[static_cast<std::size_t>(j) + 1];
    const std::int64_t first = c_.rows == 0 ? 0 : begin + ((i - begin) % c_.rows + c_.rows) % c_.rows;
    const double value = 6 + static_cast<double>(word % 16) / 32;
    return nearest_bits(dtype_, first < end ? value : value - 12);
  }

  [[nodiscard]] std::uint32_t given(std::uint64_t pattern) const {
    const auto bits = static_cast<std::uint32_t>(pattern) & (sign_bit(dtype_) * 2 - 1);
    return allowed(c_.variant, bits) == bits ? bits : 0;
  }
  [[nodiscard]] std::uint32_t digit(std::uint64_t number, std::int64_t j) const {
    for (std::int64_t n = 0; n < j && number != 0; ++n) number /= alphabet_.size();
    return alphabet_[number % alphabet_.size()];
  }

  const Case& c_;
  const RouteCase& own_;
  Format dtype_;
  std::vector<std::int64_t> first_slot_;
  std::vector<std::uint32_t> alphabet_;
  RealWindow window_;
};

// FP32 numbers for what goes with logits of this kind.
float companion(Data data, std::uint64_t word) {
  static constexpr float kFew[] = {-1, -0.0F, 0, 1};
  const auto bits = static_cast<std::uint32_t>(word >> 8);
  switch (data) {
    case Data::zeros: return 0;
    case Data::codes:
    case Data::every_row: return kFew[word % 4];
    case Data::bits: return std::bit_cast<float>(bits);
    case Data::wide: return std::bit_cast<float>((bits & 0x807FFFFF) | static_cast<std::uint32_t>(word % 255) << 23);
    case Data::specials:
      if (word % 16 < 4) return std::bit_cast<float>((bits & 0x807FFFFF) | (word % 2 == 0 ? 0x7F800000U : 0U));
      break;
    default: break;
  }
  return static_cast<float>(bell(word));
}

}  // namespace

bool may_mask(const Variant& v) {
  return promises_bits(v) && kind_of(v).chooses && route_of(v).bias && !refuses_infinity(v);
}

std::vector<std::uint32_t> small_alphabet(const Variant& v) {
  const std::uint32_t sign = sign_bit(v.dtype);
  const std::uint32_t one = nearest_bits(v.dtype, 1);
  const std::uint32_t infinity = spec(v.dtype).max_code + 1;
  if (refuses_infinity(v)) return {sign | one, sign, 0, 1, one, one + 1, one + 64};
  if (problem_refuses_nan(v)) return {sign | infinity, sign | one, sign, 0, one, infinity};
  return {sign | infinity, sign | one, sign, 0, one, infinity, spec(v.dtype).nan_code};
}

Input expand_logits(const Case& c) {
  const InPhase drawing(Phase::tensors);
  const Logits logits(c);
  return expand_input(c, [&](std::int64_t i, std::int64_t j) { return logits.at(i, j); });
}

// Below -2 or above 1.5, near those or far from them.
float far_bias(std::uint64_t seed, std::uint64_t word) {
  const float size = 6 * static_cast<float>(word >> 40) * 0x1p-24F * ((seed & 2) != 0 ? 1000.0F : 1.0F);
  return (seed & 1) != 0 ? 1.5F + size : -2.0F - size;
}

std::vector<float> expand_bias(const Case& c) {
  std::vector<float> bias(static_cast<std::size_t>(c.cols));
  for (std::size_t e = 0; e < bias.size(); ++e) {
    const std::uint64_t word = random_word(c.seed ^ 0xB1A5, e);
    float value = c.data == Data::every_bf16 ? far_bias(c.seed, word) : companion(c.data, word);
    if (c.data == Data::slots) value /= 256;  // loads are told in advance
    // Infinities of the two would make a NaN of the key; in packed order a key must be finite too.
    if (problem_refuses_nan(c.variant) && !(std::fabs(value) < 0x1p100F)) value = static_cast<float>(bell(mix64(word)));
    bias[e] = value;
    const std::uint64_t one = random_word(c.seed ^ 0x3A5C, e) % 100;
    if (one < static_cast<std::uint64_t>(route_case(c).masked)) bias[e] = -std::numeric_limits<float>::infinity();
  }
  return bias;
}

std::vector<float> expand_gradient(const Case& c, std::span<const std::int32_t> experts) {
  std::vector<float> gradient(experts.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    // It is not read for a route that is none.
    gradient[i] =
        experts[i] < 0 ? std::bit_cast<float>(0x7FC00000U) : companion(c.data, random_word(c.seed ^ 0x96AD, i));
  }
  return gradient;
}

std::vector<std::int32_t> expand_counts(const Case& c) {
  std::vector<std::int32_t> counts(static_cast<std::size_t>(c.cols));
  const std::size_t one = c.seed % counts.size();
  const auto tokens = static_cast<std::uint64_t>(c.rows);
  for (std::size_t e = 0; e < counts.size(); ++e) {
    const std::uint64_t word = random_word(c.seed ^ 0xC0047, e);
    std::uint64_t count = 0;
    switch (route_case(c).loads) {
      case Loads::equal: count = 1 + c.seed % 1000; break;
      case Loads::one: count = e == one ? tokens : 0; break;
      case Loads::drawn: count = word % 4 == 0 ? 0 : (word >> 2) % (2 * tokens + 1); break;
      case Loads::large: count = std::numeric_limits<std::int32_t>::max() - (word >> 40); break;
    }
    counts[e] = static_cast<std::int32_t>(count);
  }
  // Tokens have a route.
  if (c.rows > 0 && std::ranges::all_of(counts, [](std::int32_t count) { return count == 0; })) counts[one] = 1;
  return counts;
}

std::vector<std::int64_t> expand_token_offsets(const Case& c) {
  std::vector<std::int64_t> offsets{0};
  offsets.reserve(static_cast<std::size_t>(c.rows) + 1);
  const auto most = static_cast<std::uint64_t>(most_ragged_slots(c));
  for (std::int64_t t = 0; t < c.rows; ++t) {
    const std::uint64_t word = random_word(c.seed ^ 0x0FF5, static_cast<std::uint64_t>(t));
    offsets.push_back(offsets.back() + static_cast<std::int64_t>(word % (most + 1)));
  }
  return offsets;
}

std::vector<std::int32_t> expand_slot_experts(const Case& c, std::int64_t slots) {
  std::vector<std::int32_t> experts(static_cast<std::size_t>(slots));
  const auto all = static_cast<std::uint64_t>(c.cols);
  std::uint64_t expert = 0;  // of slots: runs of 0 to 2 * tile + 1
  std::uint64_t left = c.seed % static_cast<std::uint64_t>(2 * route_case(c).tile + 2);
  for (std::size_t i = 0; i < experts.size(); ++i) {
    const std::uint64_t word = random_word(c.seed ^ 0xE4, i);
    std::uint64_t to = (word >> 16) % all;
    switch (c.data) {
      case Data::zeros: to = 0; break;
      case Data::codes: to %= std::min<std::uint64_t>(3, all); break;
      case Data::boundaries: to = word % 2 == 0 ? 0 : all - 1; break;
      case Data::normal: to = std::min(to, (word >> 40) % all); break;
      case Data::slots:
        for (; left == 0; ++expert)
          left = (c.seed + expert + 1) % static_cast<std::uint64_t>(2 * route_case(c).tile + 2);
        to = expert % all, --left;
        break;
      default: break;
    }
    const bool dropped = word % 100 < static_cast<std::uint64_t>(route_case(c).drops);
    experts[i] = dropped ? -1 : static_cast<std::int32_t>(to);
  }
  return experts;
}

std::vector<std::int32_t> expand_chosen_experts(const Case& c) {
  const auto width = static_cast<std::size_t>(route_case(c).top_k);
  std::vector<std::int32_t> chosen(static_cast<std::size_t>(c.rows) * width);
  std::vector<std::int32_t> all(static_cast<std::size_t>(c.cols));
  std::iota(all.begin(), all.end(), 0);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const std::uint64_t word = random_word(c.seed ^ 0xC405E, i);
    const std::size_t slot = i % width;
    std::swap(all[slot], all[slot + word % (all.size() - slot)]);
    const bool dropped = (word >> 32) % 100 < static_cast<std::uint64_t>(route_case(c).drops);
    chosen[i] = dropped ? -1 : all[slot];
  }
  return chosen;
}

}  // namespace mxcheck
