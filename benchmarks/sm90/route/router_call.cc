#include "benchmarks/sm90/route/router_call.h"

#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "numerics/format/codec.h"
#include "reference/common/parallel.h"
#include "reference/router/metadata.h"
#include "reference/router/token_rounding.h"

namespace mxcheck::bench {
namespace {

std::uint64_t mixed(std::uint64_t n) {
  n ^= n >> 33, n *= 0xFF51AFD7ED558CCDULL, n ^= n >> 33, n *= 0xC4CEB9FE1A85EC53ULL;
  return n ^ n >> 33;
}

std::uint64_t bytes_of(std::int64_t count, int width) { return static_cast<std::uint64_t>(count * width); }

// Rows at most, whatever the logits are.
std::int64_t rounded_capacity(const RouterShape& s) {
  Router router;
  router.variant = &router_variant_named(s.variant);
  router.top_k = s.top_k;
  TokenRounding rounding;
  rounding.rule = token_rounding_rule_named(s.rule);
  rounding.tile = s.tile;
  return token_rounding_capacity(router, rounding, s.tokens, s.experts);
}

}  // namespace

std::vector<std::byte> download(const DeviceBuffer& buffer) {
  std::vector<std::byte> bytes(buffer.bytes());
  check_cuda(cudaMemcpy(bytes.data(), buffer.data(), bytes.size(), cudaMemcpyDeviceToHost), "download");
  return bytes;
}

void upload(const DeviceBuffer& buffer, const void* from) {
  check_cuda(cudaMemcpy(buffer.data(), from, buffer.bytes(), cudaMemcpyHostToDevice), "upload");
  // From pageable memory the last of it may still be on its way, and other streams do not wait for it.
  check_cuda(cudaDeviceSynchronize(), "upload");
}

std::string RouterShape::text() const {
  const char* const with_bias = bias == Bias::none ? "" : bias == Bias::zero ? " bias=0" : " bias";
  return fmt::format("{} {} {}x{} k={}{}{}{}{}", variant, fp32 ? "fp32" : "bf16", tokens, experts, top_k,
                     groups == 0 ? "" : fmt::format(" groups={}/{}", groups_kept, groups), with_bias,
                     rule.empty() ? "" : fmt::format(" {} tile={}", rule, tile), refuse_nan ? " nan=refuse" : "");
}

std::vector<std::uint8_t> draw_logits(const RouterShape& s, std::uint64_t seed) {
  const std::size_t width = s.fp32 ? 4 : 2;
  std::vector<std::uint8_t> out(static_cast<std::size_t>(s.tokens * s.experts) * width);
  parallel_ranges(s.tokens, s.tokens * s.experts, 0, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * s.experts; i < end * s.experts; ++i) {
      // Twelve uniform numbers of 10 bits: a standard deviation of 1, and nothing that differs between libraries.
      const std::uint64_t a = mixed(mixed(seed) + 2 * static_cast<std::uint64_t>(i));
      const std::uint64_t b = mixed(mixed(seed) + 2 * static_cast<std::uint64_t>(i) + 1);
      std::uint64_t sum = 0;
      for (int n = 0; n < 6; ++n) sum += (a >> (10 * n) & 1023) + (b >> (10 * n) & 1023);
      const double value = (static_cast<double>(sum) + static_cast<double>(a >> 60) / 16) / 1024 - 6;
      const std::uint32_t bits =
          encode(s.fp32 ? Format::fp32 : Format::bf16, value, Rounding::nearest_even, Overflow::saturate);
      std::memcpy(out.data() + static_cast<std::size_t>(i) * width, &bits, width);
    }
  });
  return out;
}

std::vector<float> draw_bias(const RouterShape& s, std::uint64_t seed) {
  std::vector<float> out(s.bias == RouterShape::Bias::none ? 0 : static_cast<std::size_t>(s.experts));
  if (s.bias != RouterShape::Bias::drawn) return out;
  for (std::size_t e = 0; e < out.size(); ++e) {
    const std::uint64_t word = mixed(mixed(seed + 1) + e) >> 40U;  // 24 bits
    out[e] = (static_cast<float>(word) - 0x1p23F) * 0x1p-27F;
  }
  return out;
}

Policy policy_of(const RouterShape& s) {
  mxcheck_route_policy p{};
  p.policy.size = sizeof p;
  p.policy.layout = MXCHECK_COMPACT;
  p.policy.format = "";
  p.policy.recipe = s.variant.c_str();
  p.policy.rows = s.tokens, p.policy.cols = s.experts;
  p.top_k = s.top_k;
  p.groups = s.groups, p.groups_kept = s.groups_kept;
  p.bias = s.bias == RouterShape::Bias::none ? 0 : 1;
  p.nan = s.refuse_nan ? MXCHECK_NAN_REFUSE : MXCHECK_NAN_LAST;
  p.scale = 1;
  p.renormalize = 1;
  p.rule = s.rule.c_str();
  p.tile = s.tile;
  return pack(p, {offsetof(mxcheck_route_policy, rule)});
}

RouteCall::RouteCall(const mxcheck_operation& operation, const RouterShape& shape, std::uint64_t seed)
    : shape_(shape),
      logits_(bytes_of(shape.tokens * shape.experts, shape.fp32 ? 4 : 2)),
      bias_(bytes_of(shape.experts, 4)),
      experts_(bytes_of(shape.tokens * shape.top_k, 4)),
      weights_(experts_.bytes()),
      call_(operation, policy_of(shape_)) {
  upload(logits_, draw_logits(shape, seed).data());
  call_.input(logits_.data(), shape.fp32 ? kFloat32 : kBfloat16, {shape.tokens, shape.experts});
  if (const std::vector<float> bias = draw_bias(shape, seed); !bias.empty()) {
    upload(bias_, bias.data());
    call_.input(bias_.data(), kFloat32, {shape.experts});
  }
  call_.output(experts_.data(), kInt32, {shape.tokens, shape.top_k});
  call_.output(weights_.data(), kFloat32, {shape.tokens, shape.top_k});
  call_.prepare();
}

RoundCall::RoundCall(const mxcheck_operation& operation, const RouterShape& shape, std::uint64_t seed)
    : shape_(shape),
      capacity_(rounded_capacity(shape)),
      logits_(bytes_of(shape.tokens * shape.experts, shape.fp32 ? 4 : 2)),
      chosen_(bytes_of(shape.experts, 4)),
      offsets_(bytes_of(shape.experts + 1, 8)),
      row_token_(bytes_of(capacity_, 4)),
      row_weight_(bytes_of(capacity_, 4)),
      token_offsets_(bytes_of(shape.tokens + 1, 8)),
      token_rows_(bytes_of(capacity_, 4)),
      call_(operation, policy_of(shape_)) {
  upload(logits_, draw_logits(shape, seed).data());
  call_.input(logits_.data(), shape.fp32 ? kFloat32 : kBfloat16, {shape.tokens, shape.experts});
  call_.output(chosen_.data(), kInt32, {shape.experts});
  call_.output(offsets_.data(), kInt64, {shape.experts + 1});
  call_.output(row_token_.data(), kInt32, {capacity_});
  call_.output(row_weight_.data(), kFloat32, {capacity_});
  call_.output(token_offsets_.data(), kInt64, {shape.tokens + 1});
  call_.output(token_rows_.data(), kInt32, {capacity_});
  call_.prepare();
}

MetadataCall::MetadataCall(const mxcheck_operation& operation, const RouterShape& shape, void* experts)
    : shape_(shape),
      slots_(shape.tokens * shape.top_k),
      capacity_(metadata_capacity(slots_, shape.experts, shape.tile)),
      counts_(bytes_of(shape.experts, 4)),
      offsets_(bytes_of(shape.experts + 1, 8)),
      row_slot_(bytes_of(capacity_, 4)),
      row_token_(row_slot_.bytes()),
      row_expert_(row_slot_.bytes()),
      slot_row_(bytes_of(slots_, 4)),
      call_(operation, policy_of(shape_)) {
  call_.input(experts, kInt32, {slots_});
  call_.output(counts_.data(), kInt32, {shape.experts});
  call_.output(offsets_.data(), kInt64, {shape.experts + 1});
  call_.output(row_slot_.data(), kInt32, {capacity_});
  call_.output(row_token_.data(), kInt32, {capacity_});
  call_.output(row_expert_.data(), kInt32, {capacity_});
  call_.output(slot_row_.data(), kInt32, {slots_});
  call_.prepare();
}

std::uint64_t MetadataCall::bytes() const { return 2 * slot_row_.bytes() + 3 * row_slot_.bytes(); }

}  // namespace mxcheck::bench
