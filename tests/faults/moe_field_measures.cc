// Values of the measures that the field tests kernels by (measures.h), for each faulty library of whole layers:
//
//   mxcheck_moe_field_measures moe_faults.tsv
//
// A layer of 256 tokens, d = n = 128, five experts of which one is empty, two slots a token of which a few are dropped,
// normal data, gate and up in halves and interleaved, under every recipe: forward, and backward from what that forward
// pass kept. Outputs (O, dX, dW1, dW2, dS; H where it is kept in BF16) are compared with the same library's when
// nothing is changed, as a kernel is compared with a trusted one: the quantization, which both have, is no part of the
// difference. The worst output counts.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/candidate_moe.h"
#include "reference/layer/layer_recipe.h"
#include "tests/faults/measures.h"
#include "tests/kernels/loaded_library.h"

namespace {

using namespace mxcheck;

constexpr std::int64_t kTokens = 256;
constexpr std::int64_t kD = 128;
constexpr std::int64_t kN = 128;
constexpr std::int64_t kExperts = 5;
constexpr DLDataType kBf16{kDLBfloat, 16, 1};
constexpr DLDataType kFp32{kDLFloat, 32, 1};
constexpr DLDataType kByte{kDLUInt, 8, 1};
constexpr DLDataType kInt32{kDLInt, 32, 1};
constexpr DLDataType kInt64{kDLInt, 64, 1};

struct Tensor {
  DLDataType type;
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;

  // The elements of a tensor in BF16 or FP32, as numbers.
  template <class To>
  [[nodiscard]] std::vector<To> numbers() const {
    std::vector<To> values;
    const std::size_t size = type.bits / 8;
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      std::uint32_t word = 0;
      std::memcpy(&word, bytes.data() + at, size);
      values.push_back(static_cast<To>(std::bit_cast<float>(word << (32 - type.bits))));
    }
    return values;
  }
};

Tensor empty(DLDataType type, std::vector<std::int64_t> shape) {
  std::size_t bytes = type.bits / 8;
  for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  return {type, std::move(shape), std::vector<std::uint8_t>(bytes, 0x7F)};
}

template <class T>
Tensor list(DLDataType type, const std::vector<T>& with) {
  Tensor t = empty(type, {std::ssize(with)});
  std::memcpy(t.bytes.data(), with.data(), t.bytes.size());
  return t;
}

Tensor normal(std::mt19937& random, std::int64_t rows, std::int64_t cols, float deviation) {
  Tensor t = empty(kBf16, {rows, cols});
  std::normal_distribution<float> draw(0, deviation);
  for (std::size_t i = 0; i < t.bytes.size(); i += 2) {
    const auto bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(draw(random)) >> 16);
    std::memcpy(t.bytes.data() + i, &bits, sizeof(bits));
  }
  return t;
}

struct Data {
  Tensor x, w1, w2, d_o;
  std::vector<Tensor> routes;  // in the order of candidate_moe.h
  std::int64_t routed = 0;
};

// Expert 3 has no token; every 40th slot is dropped.
Data make_data() {
  std::mt19937 random(7);
  Data data{normal(random, kTokens, kD, 1),
            normal(random, kExperts * kD, 2 * kN, 1 / std::sqrt(static_cast<float>(kD))),
            normal(random, kExperts * kN, kD, 1 / std::sqrt(static_cast<float>(kN))),
            normal(random, kTokens, kD, 1),
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
void add_kept(const OperandRule& rule, std::int64_t rows, std::int64_t cols, std::vector<Tensor>& to) {
  const bool fp32 = rule.scales.find("fp32") != std::string::npos;
  to.push_back(empty(kByte, {rows, rule.format == Format::e5m6 ? 12 * ((cols + 7) / 8) : cols}));
  to.push_back(empty(fp32 ? kFp32 : kByte, {rows, (cols + 127) / 128}));
}

std::vector<Tensor> kept_tensors(const LayerRecipe& recipe, std::int64_t routed) {
  std::vector<Tensor> kept;
  if (recipe.kept_h.quantized()) {
    add_kept(recipe.kept_h, routed, 2 * kN, kept);
  } else {
    kept.push_back(empty(kBf16, {routed, 2 * kN}));
  }
  if (recipe.keeps_quantized_x) add_kept(recipe.gemm(LayerGemm::up).a, kTokens, kD, kept);
  return kept;
}

// Whether the call was answered; outputs are poisoned before it.
bool call(const mxcheck_operation& operation, const mxcheck_moe_policy& policy, std::vector<Tensor>& inputs,
          std::vector<Tensor>& outputs) {
  std::vector<DLTensor> tensors;
  for (std::vector<Tensor>* side : {&inputs, &outputs}) {
    for (Tensor& t : *side) {
      if (side == &outputs) std::fill(t.bytes.begin(), t.bytes.end(), std::uint8_t{0x7F});
      tensors.push_back(
          {t.bytes.data(), {kDLCPU, 0}, static_cast<int>(t.shape.size()), t.type, t.shape.data(), nullptr, 0});
    }
  }
  char message[256] = "";
  mxcheck_call c{};
  c.size = sizeof(c);
  c.num_inputs = static_cast<std::int32_t>(inputs.size());
  c.num_outputs = static_cast<std::int32_t>(outputs.size());
  c.policy = &policy.policy;
  c.inputs = tensors.data(), c.outputs = tensors.data() + inputs.size();
  c.message = message, c.message_bytes = sizeof(message);
  const bool done = operation.run(&c) == MXCHECK_OK;
  if (!done) std::fprintf(stderr, "%s: %s\n", operation.name, message);
  return done;
}

// The outputs that are numbers, of both passes; none where a call is refused.
std::vector<Tensor> layer(const mxcheck_candidate_table& table, const Data& data, const LayerRecipe& recipe,
                          bool interleaved) {
  mxcheck_moe_policy policy{};
  policy.policy.size = sizeof(policy);
  policy.policy.rows = kTokens, policy.policy.cols = kD, policy.policy.threads = 1;
  policy.policy.format = "", policy.policy.recipe = recipe.name.c_str();
  policy.inner = kN, policy.experts = kExperts, policy.routed = data.routed;
  policy.gate_up = interleaved ? MXCHECK_INTERLEAVED : MXCHECK_HALVES;

  std::vector<Tensor> inputs{data.x, data.w1, data.w2};
  inputs.insert(inputs.end(), data.routes.begin(), data.routes.end());
  const std::vector<Tensor> kept = kept_tensors(recipe, data.routed);
  std::vector<Tensor> forward{empty(kBf16, {kTokens, kD})};
  forward.insert(forward.end(), kept.begin(), kept.end());
  if (!call(operation(table, "moe_forward"), policy, inputs, forward)) return {};

  std::vector<Tensor> backward_inputs{data.d_o, data.w1, data.w2};
  backward_inputs.insert(backward_inputs.end(), forward.begin() + 1, forward.end());
  if (!recipe.keeps_quantized_x) backward_inputs.push_back(data.x);
  backward_inputs.insert(backward_inputs.end(), data.routes.begin(), data.routes.end());
  std::vector<Tensor> outputs{empty(kBf16, {kTokens, kD}), empty(kFp32, {kExperts * kD, 2 * kN}),
                              empty(kFp32, {kExperts * kN, kD}), empty(kFp32, {data.routed})};
  if (!call(operation(table, "moe_backward"), policy, backward_inputs, outputs)) return {};
  outputs.push_back(forward[0]);
  if (!recipe.kept_h.quantized()) outputs.push_back(forward[1]);
  return outputs;
}

std::vector<std::vector<Tensor>> all_layers(const mxcheck_candidate_table& table, const Data& data) {
  std::vector<std::vector<Tensor>> all;
  for (const LayerRecipe& recipe : all_layer_recipes()) {
    for (const bool interleaved : {false, true}) all.push_back(layer(table, data, recipe, interleaved));
  }
  return all;
}

void print_table(const char* faults) {
  const Data data = make_data();
  MeasureTable table;
  std::vector<std::vector<Tensor>> right;
  std::ifstream lines(faults);
  for (std::string line; std::getline(lines, line);) {  // the control is the first
    const std::string name = line.substr(0, line.find('\t'));
    const std::vector<std::vector<Tensor>> is = all_layers(load_candidate(line.substr(line.rfind('\t') + 1)), data);
    if (right.empty()) right = is;
    Measures worst;
    bool ran = true;
    for (std::size_t l = 0; l < is.size(); ++l) {
      if (is[l].empty()) ran = false;
      for (std::size_t t = 0; t < is[l].size(); ++t)
        worst.add(is[l][t].numbers<float>(), right[l][t].numbers<double>());
    }
    if (ran) {
      table.add(name, worst);
    } else {
      table.add_not_run(name, "a call is refused");
    }
  }
  table.print_sums();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: mxcheck_moe_field_measures moe_faults.tsv\n", stderr);
    return 2;
  }
  try {
    print_table(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mxcheck_moe_field_measures: %s\n", error.what());
    return 2;
  }
  return 0;
}
