#include "benchmarks/sm90/moe/shape.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "numerics/error.h"

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

}  // namespace mxcheck::bench
