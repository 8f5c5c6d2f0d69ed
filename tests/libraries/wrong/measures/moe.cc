// Values of the measures that the field tests kernels by (measures.h), for each faulty library of whole layers:
//
//   mxcheck_moe_field_measures catalogue.tsv .../libmxcheck_moe_fault_
//
// A layer of 256 tokens, d = n = 128, five experts of which one is empty, two slots a token of which a few are dropped,
// normal data, gate and up in halves and interleaved, under every recipe: forward, and backward from what that forward
// pass kept. Outputs (O, dX, dW1, dW2, dS; H where it is kept in BF16) are compared with the same library's when
// nothing is changed, as a kernel is compared with a trusted one: the quantization, which both have, is no part of the
// difference. The worst output counts.

#include "kernels/candidate_moe.h"
#include "reference/layer/layer_recipe.h"
#include "tests/kernels/loaded_library.h"
#include "tests/libraries/wrong/measures/host_call.h"
#include "tests/libraries/wrong/measures/measures.h"

namespace {

using namespace mxcheck;

constexpr std::int64_t kTokens = 256;
constexpr std::int64_t kD = 128;
constexpr std::int64_t kN = 128;
constexpr std::int64_t kExperts = 5;
template <class T>
HostTensor list(DLDataType type, const std::vector<T>& with) {
  return filled(type, {std::ssize(with)}, with);
}

struct Data {
  HostTensor x, w1, w2, d_o;
  std::vector<HostTensor> routes;  // in the order of candidate_moe.h
  std::int64_t routed = 0;
};

// Expert 3 has no token; every 40th slot is dropped.
Data make_data() {
  std::mt19937 random(7);
  Data data{normal(random, kBf16, {kTokens, kD}),
            normal(random, kBf16, {kExperts * kD, 2 * kN}, 1 / std::sqrt(static_cast<float>(kD))),
            normal(random, kBf16, {kExperts * kN, kD}, 1 / std::sqrt(static_cast<float>(kN))),
            normal(random, kBf16, {kTokens, kD}),
            {}};
  constexpr std::int64_t kPlaces[] = {0, 1, 2, 4};
  std::vector<std::int64_t> slot_expert;
  for (std::int64_t slot = 0; slot < 2 * kTokens; slot += 2) {
    const auto first = static_cast<std::int64_t>(random() % 4);
    const auto second = (first + 1 + static_cast<std::int64_t>(random() % 3)) % 4;
    slot_expert.push_back(slot % 40 == 0 ? -1 : kPlaces[first]);
    slot_expert.push_back(kPlaces[second]);
  }
  std::vector<std::int32_t> row_token, token_rows(slot_expert.size(), -1);
  std::vector<float> row_weight;
  std::vector<std::int64_t> offsets{0}, token_offsets;
  for (std::int64_t e = 0; e < kExperts; ++e) {
    for (std::size_t slot = 0; slot < slot_expert.size(); ++slot) {
      if (slot_expert[slot] != e) continue;
      token_rows[slot] = static_cast<std::int32_t>(row_token.size());
      row_token.push_back(static_cast<std::int32_t>(slot / 2));
      row_weight.push_back(std::uniform_real_distribution<float>(0.05F, 0.6F)(random));
    }
    offsets.push_back(std::ssize(row_token));
  }
  for (std::int64_t t = 0; t <= kTokens; ++t) token_offsets.push_back(2 * t);
  data.routed = std::ssize(row_token);
  data.routes = {list(kInt32, row_token), list(kFp32, row_weight), list(kInt64, token_offsets),
                 list(kInt32, token_rows), list(kInt64, offsets)};
  return data;
}

// Codes in rows with scales of 1x128, as candidate_moe.h has what is kept.
void add_kept(const OperandRule& rule, std::int64_t rows, std::int64_t cols, std::vector<HostTensor>& to) {
  const bool fp32 = rule.scales.find("fp32") != std::string::npos;
  to.push_back(empty(kByte, {rows, rule.format == Format::e5m6 ? 12 * ((cols + 7) / 8) : cols}));
  to.push_back(empty(fp32 ? kFp32 : kByte, {rows, (cols + 127) / 128}));
}

std::vector<HostTensor> kept_tensors(const LayerRecipe& recipe, std::int64_t routed) {
  std::vector<HostTensor> kept;
  if (recipe.kept_h.quantized()) {
    add_kept(recipe.kept_h, routed, 2 * kN, kept);
  } else {
    kept.push_back(empty(kBf16, {routed, 2 * kN}));
  }
  if (recipe.keeps_quantized_x) add_kept(recipe.gemm(LayerGemm::up).a, kTokens, kD, kept);
  return kept;
}

// The outputs that are numbers, of both passes; none where a call is refused.
std::vector<HostTensor> layer(const mxcheck_candidate_table& table, const Data& data, const LayerRecipe& recipe,
                              bool interleaved) {
  mxcheck_moe_policy policy{};
  policy.policy.size = sizeof(policy), policy.policy.rows = kTokens, policy.policy.cols = kD, policy.policy.threads = 1;
  policy.policy.format = "", policy.policy.recipe = recipe.name.c_str();
  policy.inner = kN, policy.experts = kExperts, policy.routed = data.routed;
  policy.gate_up = interleaved ? MXCHECK_INTERLEAVED : MXCHECK_HALVES;

  std::vector<HostTensor> inputs{data.x, data.w1, data.w2};
  inputs.insert(inputs.end(), data.routes.begin(), data.routes.end());
  const std::vector<HostTensor> kept = kept_tensors(recipe, data.routed);
  std::vector<HostTensor> forward{empty(kBf16, {kTokens, kD})};
  forward.insert(forward.end(), kept.begin(), kept.end());
  if (!call(operation(table, "moe_forward"), policy.policy, inputs, forward)) return {};

  std::vector<HostTensor> backward_inputs{data.d_o, data.w1, data.w2};
  backward_inputs.insert(backward_inputs.end(), forward.begin() + 1, forward.end());
  if (!recipe.keeps_quantized_x) backward_inputs.push_back(data.x);
  backward_inputs.insert(backward_inputs.end(), data.routes.begin(), data.routes.end());
  std::vector<HostTensor> outputs{empty(kBf16, {kTokens, kD}), empty(kFp32, {kExperts * kD, 2 * kN}),
                                  empty(kFp32, {kExperts * kN, kD}), empty(kFp32, {data.routed})};
  if (!call(operation(table, "moe_backward"), policy.policy, backward_inputs, outputs)) return {};
  outputs.push_back(forward[0]);
  if (!recipe.kept_h.quantized()) outputs.push_back(forward[1]);
  return outputs;
}

std::vector<std::vector<HostTensor>> all_layers(const mxcheck_candidate_table& table, const Data& data) {
  std::vector<std::vector<HostTensor>> all;
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    for (const bool interleaved : {false, true}) all.push_back(layer(table, data, recipe, interleaved));
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const Data data = make_data();
  std::vector<std::vector<HostTensor>> right;
  return print_measures(argc, argv, "moe", [&](const std::string& path, Measures& worst) -> const char* {
    const std::vector<std::vector<HostTensor>> is = all_layers(load_candidate(path), data);
    if (right.empty()) right = is;
    bool ran = true;
    for (std::size_t l = 0; l < is.size(); ++l) {
      if (is[l].empty()) ran = false;
      for (std::size_t t = 0; t < is[l].size(); ++t)
        worst.add(is[l][t].numbers<float>(), right[l][t].numbers<double>());
    }
    return ran ? nullptr : "a call is refused";
  });
}
