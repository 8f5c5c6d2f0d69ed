#include "benchmarks/sm90/moe/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "numerics/error.h"
#include "reference/common/parallel.h"
#include "reference/router/router.h"

namespace mxcheck::bench {
namespace {

constexpr MoeShape kSmall{24576, 1536, 256, 128, 8};
constexpr MoeShape kWide{32768, 4096, 1024, 128, 8};
constexpr MoeShape kFine{32768, 4096, 512, 256, 16};
constexpr std::array kDefault{kSmall, kWide, kFine};
constexpr std::array kQuick{MoeShape{512, 256, 128, 8, 2}, MoeShape{1000, 384, 256, 16, 4}};

// SonicMoE's own benchmark counts 6 T n d K and 12 T n d K operations as we do; X is 0.2 times normal, weights have a
// standard deviation of 0.02.
constexpr std::array kSonicMoe{SonicMoeRate{kSmall, 315, 422}, SonicMoeRate{kWide, 547, 538},
                               SonicMoeRate{kFine, 517, 508}};

// Beyond, products of three of them leave 64 bits.
constexpr std::int64_t kMost = std::int64_t{1} << 20;

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw Error(ErrorKind::usage, fmt::format("'{}': {}; T,d,n,E,K is needed, as 32768,4096,1024,128,8", text, why));
}

}  // namespace

std::string_view to_text(Direction direction) { return direction == Direction::forward ? "forward" : "backward"; }

double MoeShape::operations(Direction direction) const {
  const double product = static_cast<double>(rows()) * static_cast<double>(inner) * static_cast<double>(width);
  return (direction == Direction::forward ? 6 : 12) * product;
}

std::string MoeShape::text() const {
  return fmt::format("T={} d={} n={} E={} K={}", tokens, width, inner, experts, top_k);
}

MoeShape parse_moe_shape(std::string_view text) {
  std::array<std::int64_t, 5> values{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto [next, error] = std::from_chars(at, end, values[i]);
    if (error != std::errc{}) refuse(text, fmt::format("number {} of 5 is missing", i + 1));
    if (values[i] < 1 || values[i] > kMost) refuse(text, fmt::format("{} is not in 1 to {}", values[i], kMost));
    at = next;
    const bool last = i + 1 == values.size();
    if (last ? at != end : at == end || *at != ',') refuse(text, last ? "there is more" : "a comma is missing");
    if (!last) ++at;
  }
  const MoeShape shape{values[0], values[1], values[2], values[3], values[4]};
  if (shape.top_k > shape.experts) refuse(text, "K is above E");
  return shape;
}

std::span<const MoeShape> default_moe_shapes() { return kDefault; }
std::span<const MoeShape> quick_moe_shapes() { return kQuick; }

const SonicMoeRate* find_sonic_moe_rate(const MoeShape& shape) {
  const auto* const found = std::ranges::find(kSonicMoe, shape, &SonicMoeRate::shape);
  return found == kSonicMoe.end() ? nullptr : found;
}

std::uint64_t sonic_moe_kept_bytes(const MoeShape& shape) {
  return static_cast<std::uint64_t>(2 * shape.tokens * shape.width + 4 * shape.rows() * shape.inner);
}

// --- routes

namespace {

std::uint64_t mixed(std::uint64_t n) {
  n ^= n >> 33, n *= 0xFF51AFD7ED558CCDULL, n ^= n >> 33, n *= 0xC4CEB9FE1A85EC53ULL;
  return n ^ n >> 33;
}

// Twelve uniform numbers of 10 bits: a standard deviation of 1, and nothing that differs between libraries.
float bell(std::uint64_t seed, std::uint64_t i) {
  const std::uint64_t a = mixed(seed + 2 * i);
  const std::uint64_t b = mixed(seed + 2 * i + 1);
  std::uint64_t sum = 0;
  for (int n = 0; n < 6; ++n) sum += (a >> (10 * n) & 1023) + (b >> (10 * n) & 1023);
  return static_cast<float>((static_cast<double>(sum) + static_cast<double>(a >> 60) / 16) / 1024 - 6);
}

std::vector<float> raises(std::int64_t experts, RouteLoad load, std::uint64_t seed) {
  std::vector<float> out(static_cast<std::size_t>(experts));
  if (load == RouteLoad::uniform) return out;
  for (std::size_t e = 0; e < out.size(); ++e) {
    out[e] = 1.5F * static_cast<float>(mixed(seed + e) >> 40) / static_cast<float>(1 << 24);
  }
  return out;
}

}  // namespace

LayerRoutes draw_moe_routes(const MoeShape& shape, RouteLoad load, std::uint64_t seed) {
  const std::int64_t experts = shape.experts;
  const std::uint64_t start = mixed(seed);
  const std::vector<float> raised = raises(experts, load, mixed(start));
  std::vector<float> logits(static_cast<std::size_t>(shape.tokens * experts));
  parallel_ranges(shape.tokens, shape.tokens * experts, 0, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * experts; i < end * experts; ++i) {
      const auto at = static_cast<std::size_t>(i);
      logits[at] = bell(start, at) + raised[at % static_cast<std::size_t>(experts)];
    }
  });
  Router router;
  router.variant = &router_variant_named("topk-softmax");
  router.top_k = shape.top_k;
  const auto* const bytes = reinterpret_cast<const std::byte*>(logits.data());
  return layer_routes(route(router, {Format::fp32, bytes, shape.tokens, experts, experts}), experts);
}

double busiest_expert(const LayerRoutes& routes) {
  std::int64_t most = 0;
  for (std::size_t e = 1; e < routes.offsets.size(); ++e) {
    most = std::max(most, routes.offsets[e] - routes.offsets[e - 1]);
  }
  const double mean = static_cast<double>(routes.offsets.back()) / static_cast<double>(routes.offsets.size() - 1);
  return static_cast<double>(most) / mean;
}

// --- tensors

namespace {

constexpr DLDataType kInt32{kDLInt, 32, 1};
constexpr DLDataType kInt64{kDLInt, 64, 1};
constexpr DLDataType kFp32{kDLFloat, 32, 1};
constexpr DLDataType kBf16{kDLBfloat, 16, 1};
constexpr DLDataType kByte{kDLUInt, 8, 1};

constexpr std::int64_t kBlock = 128;  // of all that is kept in codes

std::int64_t blocks(std::int64_t extent, std::int64_t block) { return (extent + block - 1) / block; }

[[noreturn]] void refuse(const LayerRecipe& recipe, const char* what) {
  throw Error(ErrorKind::usage, fmt::format("recipe {} keeps {}, for which the candidate interface has no type; BF16 "
                                            "or blocks of 1x128 are needed",
                                            recipe.name, what));
}

void add_kept_h(const MoeShape& s, const LayerRecipe& recipe, std::vector<MoeTensor>& to) {
  const std::int64_t rows = s.rows();
  if (!recipe.kept_h.quantized()) {
    to.push_back({"h", kBf16, {rows, 2 * s.inner}});
    return;
  }
  if (recipe.kept_h.format != Format::e5m6 || recipe.kept_h.block != BlockShape{1, kBlock}) refuse(recipe, "H");
  to.push_back({"h", kByte, {rows, 12 * blocks(2 * s.inner, 8)}});
  to.push_back({"h scales", kByte, {rows, blocks(2 * s.inner, kBlock)}});
}

void add_kept_x(const MoeShape& s, const LayerRecipe& recipe, std::vector<MoeTensor>& to) {
  if (!recipe.keeps_quantized_x) return;
  const OperandRule& rule = recipe.gemm(LayerGemm::up).a;
  if (rule.format != Format::e4m3 || rule.block != BlockShape{1, kBlock}) refuse(recipe, "X");
  to.push_back({"x codes", kByte, {s.tokens, s.width}});
  to.push_back({"x scales", rule.scales == "fp32" ? kFp32 : kByte, {s.tokens, blocks(s.width, kBlock)}});
}

std::vector<std::string> names_of(std::span<const MoeTensor> tensors) {
  std::vector<std::string> names;
  for (const MoeTensor& t : tensors) names.push_back(t.name);
  return names;
}

void append(std::vector<std::string>& to, const std::vector<std::string>& names) {
  to.insert(to.end(), names.begin(), names.end());
}

}  // namespace

std::int64_t MoeTensor::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::uint64_t bytes_of(std::span<const MoeTensor> tensors) {
  std::uint64_t sum = 0;
  for (const MoeTensor& t : tensors) sum += t.bytes();
  return sum;
}

std::uint64_t MoeTensors::kept_bytes() const { return bytes_of(kept) + (keeps_given_x ? given.front().bytes() : 0); }

MoeTensors moe_tensors(const MoeShape& s, const LayerRecipe& recipe) {
  const std::int64_t rows = s.rows();
  MoeTensors t;
  t.given = {{"x", kBf16, {s.tokens, s.width}},
             {"w1", kBf16, {s.experts * s.width, 2 * s.inner}},
             {"w2", kBf16, {s.experts * s.inner, s.width}},
             {"d_o", kBf16, {s.tokens, s.width}}};
  t.routes = {{"row_token", kInt32, {rows}},
              {"row_weight", kFp32, {rows}},
              {"token_offsets", kInt64, {s.tokens + 1}},
              {"token_rows", kInt32, {rows}},
              {"offsets", kInt64, {s.experts + 1}}};
  add_kept_h(s, recipe, t.kept);
  add_kept_x(s, recipe, t.kept);
  t.keeps_given_x = !recipe.keeps_quantized_x;
  t.forward = {{"o", kBf16, {s.tokens, s.width}}};
  t.backward = {{"dx", kBf16, {s.tokens, s.width}},
                {"dw1", kFp32, {s.experts * s.width, 2 * s.inner}},
                {"dw2", kFp32, {s.experts * s.inner, s.width}},
                {"ds", kFp32, {rows}}};
  return t;
}

std::vector<std::string> moe_inputs(const MoeTensors& t, Direction direction) {
  std::vector<std::string> names;
  if (direction == Direction::forward) {
    names = {"x", "w1", "w2"};
  } else {
    names = {"d_o", "w1", "w2"};
    append(names, names_of(t.kept));
    if (t.keeps_given_x) names.emplace_back("x");
  }
  append(names, names_of(t.routes));
  return names;
}

std::vector<std::string> moe_outputs(const MoeTensors& t, Direction direction) {
  if (direction == Direction::backward) return names_of(t.backward);
  std::vector<std::string> names = names_of(t.forward);
  append(names, names_of(t.kept));
  return names;
}

std::uint64_t moe_call_bytes(const MoeTensors& t, Direction direction) {
  std::vector<std::string> names = moe_inputs(t, direction);
  append(names, moe_outputs(t, direction));
  std::uint64_t sum = 0;
  for (const std::vector<MoeTensor>* list : {&t.given, &t.routes, &t.kept, &t.forward, &t.backward}) {
    for (const MoeTensor& tensor : *list) {
      if (std::ranges::find(names, tensor.name) != names.end()) sum += tensor.bytes();
    }
  }
  return sum;
}

}  // namespace mxcheck::bench
