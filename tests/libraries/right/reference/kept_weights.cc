#include "tests/libraries/right/reference/kept_weights.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/common/digest.h"
#include "tests/libraries/right/reference/call.h"

namespace mxcheck::candidates {
namespace {

constexpr std::uint64_t kMark = 0x6B657074'77656967;  // no poison
constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
constexpr std::uintptr_t kAlignment = 256;

struct Header {
  std::uint64_t mark = 0;
  char operation[16] = {};
  char recipe[32] = {};
  std::int32_t gate_up = 0;
  std::int32_t padding = 0;
  std::int64_t cols = 0, inner = 0, experts = 0;
  std::array<std::uint64_t, 2> digests{};
};

struct Layer {
  Header header;
  std::int64_t matrix = 0;  // bytes of W2; W1 has twice as many
  [[nodiscard]] std::uint64_t bytes() const { return sizeof(Header) + static_cast<std::uint64_t>(3 * matrix); }
};

const mxcheck_moe_kept_policy& kept_policy(const mxcheck_policy* policy) {
  require(policy->size >= sizeof(mxcheck_moe_kept_policy), "the policy ends within the fields of kept weights");
  return *static_cast<const mxcheck_moe_kept_policy*>(static_cast<const void*>(policy));
}

Layer layer_of(const mxcheck_moe_policy& p, const char* operation) {
  Layer l;
  Header& h = l.header;
  h.mark = kMark, h.gate_up = p.gate_up, h.cols = p.policy.cols, h.inner = p.inner, h.experts = p.experts;
  require(p.policy.recipe != nullptr && std::strlen(p.policy.recipe) < sizeof(h.recipe), "a recipe has a short name");
  std::strncpy(h.recipe, p.policy.recipe, sizeof(h.recipe) - 1);
  std::strncpy(h.operation, operation, sizeof(h.operation) - 1);
  require(h.cols >= 0 && h.inner >= 0 && h.experts >= 0, "extents are 0 or more");
  l.matrix = 2;
  for (const std::int64_t extent : {h.cols, h.inner, h.experts}) {
    require(extent == 0 || l.matrix <= kMostBytes / extent, "weights of more than there is memory for");
    l.matrix *= extent;
  }
  return l;
}

std::uint64_t digest_of(const unsigned char* bytes, std::int64_t count, const KeptWeightsFaults& faults) {
  std::uint64_t sum = 0;
  const std::int64_t words = (count + 7) / 8;
  for (std::int64_t i = 0; i < words; ++i) {
    if (faults.leaves_out_the_last && i + 1 == words) continue;
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + 8 * i, static_cast<std::size_t>(std::min<std::int64_t>(8, count - 8 * i)));
    if (faults.digest_drops_low_bits) word &= 0xFFFE'FFFE'FFFE'FFFE;
    sum += mxcheck_kernels::digest_term(faults.digest_commutes ? 0 : static_cast<std::uint64_t>(i), word);
  }
  return sum;
}

void require_weights(const mxcheck_call& call, const Layer& l) {
  require(call.inputs != nullptr && call.num_inputs > 3, "inputs are missing");
  const Header& h = l.header;
  const std::array<std::array<std::int64_t, 2>, 2> shapes{
      {{h.experts * h.cols, 2 * h.inner}, {h.experts * h.inner, h.cols}}};
  for (std::size_t i = 0; i < 2; ++i) {
    const DLTensor& w = call.inputs[1 + i];
    require(w.ndim == 2 && w.shape != nullptr && w.shape[0] == shapes[i][0] && w.shape[1] == shapes[i][1] &&
                w.dtype.code == kDLBfloat && w.dtype.bits == 16 && w.dtype.lanes == 1,
            "weights are of another shape or type");
  }
}

const unsigned char* weights(const mxcheck_call& call, int number) {
  const DLTensor& w = call.inputs[1 + number];
  return static_cast<const unsigned char*>(w.data) + w.byte_offset;
}

std::array<std::uint64_t, 2> digests_of(const mxcheck_call& call, const Layer& l, const KeptWeightsFaults& faults) {
  for (int i = 0; i < 2; ++i) require(l.matrix == 0 || call.inputs[1 + i].data != nullptr, "data is null");
  if (l.matrix == 0) return {};
  return {digest_of(weights(call, 0), 2 * l.matrix, faults),
          faults.checks_w1_alone ? 0 : digest_of(weights(call, 1), l.matrix, faults)};
}

bool is_of(const Header& held, const Header& wanted, const KeptWeightsFaults& faults) {
  const bool same_shape = held.cols == wanted.cols && held.inner == wanted.inner && held.experts == wanted.experts;
  return (held.mark == wanted.mark || faults.accepts_any_memory) &&
         (std::memcmp(held.operation, wanted.operation, sizeof(held.operation)) == 0 || faults.ignores_operation ||
          faults.accepts_any_memory) &&
         (std::memcmp(held.recipe, wanted.recipe, sizeof(held.recipe)) == 0 || faults.ignores_recipe ||
          faults.accepts_any_memory) &&
         (held.gate_up == wanted.gate_up || faults.ignores_order || faults.accepts_any_memory) &&
         (same_shape || faults.ignores_shape || faults.accepts_any_memory);
}

// Faults of a library that begins to write before it knows whether the call is refused.
void spoil(const mxcheck_call& call, const Layer& l, unsigned char* held, const KeptWeightsFaults& faults) {
  const auto bytes = static_cast<std::size_t>(l.matrix);
  if (faults.refused_keep_clears_scales) std::memset(held + 5 * bytes / 2, 0, bytes / 2);
  if (faults.writes_before_checks && bytes != 0) std::memcpy(held, weights(call, 0), bytes);
}

}  // namespace

bool has_kept_weights(const mxcheck_policy* policy) {
  return policy != nullptr && policy->size > sizeof(mxcheck_moe_policy);
}

bool asks_for_bytes(const mxcheck_policy* policy, std::uint64_t* bytes) {
  if (!has_kept_weights(policy)) return false;
  const mxcheck_moe_kept_policy& p = kept_policy(policy);
  if (p.kept.mode != MXCHECK_WEIGHTS_BYTES) return false;
  *bytes = layer_of(p.moe, "").bytes();
  return true;
}

void run_with_kept_weights(const mxcheck_call& call, const char* operation, const KeptWeightsFaults& faults,
                           const std::function<void(const mxcheck_call&)>& plain) {
  const mxcheck_moe_kept_policy& p = kept_policy(call.policy);
  const Layer wanted = layer_of(p.moe, operation);
  const mxcheck_kept_weights& kept = p.kept;
  require(kept.mode >= MXCHECK_WEIGHTS_KEEP && kept.mode <= MXCHECK_WEIGHTS_CHECKED, "no mode of kept weights");
  require(kept.memory != nullptr && kept.bytes >= wanted.bytes(),
          "the memory for kept weights is missing or too small");
  require(reinterpret_cast<std::uintptr_t>(kept.memory) % kAlignment == 0 || faults.accepts_any_address,
          "the memory for kept weights is not at a multiple of 256 bytes");
  require(kept.reserved == 0 || faults.accepts_any_reserved, "the reserved field of kept weights is not 0");
  require_weights(call, wanted);
  auto* const memory = static_cast<unsigned char*>(kept.memory);
  unsigned char* const held_weights = memory + sizeof(Header);
  Header held;
  std::memcpy(&held, memory, sizeof(held));

  mxcheck_moe_policy policy = p.moe;
  policy.policy.size = sizeof(policy);
  std::vector<DLTensor> inputs(call.inputs, call.inputs + call.num_inputs);
  mxcheck_call without = call;
  without.policy = &policy.policy, without.inputs = inputs.data();
  if (kept.mode == MXCHECK_WEIGHTS_KEEP && !(faults.never_refreshes && is_of(held, wanted.header, {}))) {
    try {
      plain(without);
    } catch (...) {
      spoil(call, wanted, held_weights, faults);
      throw;
    }
    Header header = wanted.header;
    header.digests = digests_of(call, wanted, faults);
    std::memcpy(memory, &header, sizeof(header));
    if (wanted.matrix == 0) return;
    std::memcpy(held_weights, weights(call, 0), static_cast<std::size_t>(2 * wanted.matrix));
    std::memcpy(held_weights + 2 * wanted.matrix, weights(call, 1), static_cast<std::size_t>(wanted.matrix));
    if (faults.writes_past_the_end) held_weights[3 * wanted.matrix] = 0;
    return;
  }
  if (kept.mode == MXCHECK_WEIGHTS_KEEP) return plain(without);
  const bool is_right_layer = is_of(held, wanted.header, faults);
  if (!is_right_layer && faults.refusal_spoils_memory) std::memset(memory, 0, sizeof(Header));
  require(is_right_layer, "the memory holds no weights of this operation, recipe, order and shape");
  const bool is_checked = kept.mode == MXCHECK_WEIGHTS_CHECKED;
  const bool is_right = !is_checked || digests_of(call, wanted, faults) == held.digests;
  if (!is_right && faults.refusal_spoils_memory) std::memset(memory, 0, sizeof(Header));
  if (!faults.checks_after_writing) require(is_right, "the kept weights are not those of w1 and w2");
  for (int i = 0; i < (faults.keeps_w1_alone ? 1 : 2); ++i) {
    inputs[static_cast<std::size_t>(1 + i)].data = held_weights + (i == 0 ? 0 : 2 * wanted.matrix);
    inputs[static_cast<std::size_t>(1 + i)].byte_offset = 0;
  }
  plain(without);
  require(is_right, "the kept weights are not those of w1 and w2");
}

}  // namespace mxcheck::candidates
