// Values of the measures that the field tests kernels by (measures.h), for each faulty library of a layer's steps:
//
//   mxcheck_layer_field_measures catalogue.tsv .../libmxcheck_layer_fault_
//
// Every operation on normal data: 512 rows of 5 experts, one of them empty, A of 256 columns; H in BF16 and as codes,
// in halves and interleaved; outputs in BF16 and as codes in E4M3 with both kinds of scales; tokens of up to four
// slots. Each output is dequantized and compared with the same step in FP64, from the same inputs; the worst output
// counts.

#include <variant>

#include "kernels/candidate_layer.h"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"
#include "reference/quantize/quantize.h"
#include "tests/kernels/loaded_library.h"
#include "tests/libraries/wrong/measures/host_call.h"
#include "tests/libraries/wrong/measures/measures.h"

namespace {

using namespace mxcheck;

constexpr std::int64_t kRows = 512;
constexpr std::int64_t kN = 256;
constexpr std::int64_t kTokens = 256;
const std::vector<std::int64_t> kExperts{0, 130, 130, 131, 300, kRows};

// An output as numbers of FP64, in the order of the matrix that it stands for; codes are followed by their scales.
struct Expected {
  std::size_t output;
  std::vector<double> right;
  std::int64_t cols;
  Format element = Format::bf16;  // of codes: E4M3 or E5M2
  std::int64_t block = 0;
  bool transposed = false;
};

struct Step {
  std::string operation;
  std::variant<mxcheck_policy, mxcheck_swiglu_policy, mxcheck_aggregate_policy> policy;
  std::vector<HostTensor> inputs, outputs;
  std::vector<Expected> expected;
};

std::int64_t bands_of(std::int64_t block) {
  std::int64_t bands = 0;
  for (std::size_t e = 1; e < kExperts.size(); ++e) bands += (kExperts[e] - kExperts[e - 1] + block - 1) / block;
  return bands;
}
std::int64_t band_of(std::int64_t row, std::int64_t block) {
  std::int64_t bands = 0;
  for (std::size_t e = 1; kExperts[e] <= row; ++e) bands += (kExperts[e] - kExperts[e - 1] + block - 1) / block;
  for (std::size_t e = 1; e < kExperts.size(); ++e) {
    if (row >= kExperts[e - 1] && row < kExperts[e]) bands += (row - kExperts[e - 1]) / block;
  }
  return bands;
}

// Adds an output of codes and one of scales, and what they stand for. An element of 0 values is not measured.
void add_codes(Step& step, std::vector<double> right, std::int64_t cols, Format element, std::int64_t block,
               DLDataType scales, bool transposed) {
  const std::int64_t across = transposed ? bands_of(block) : (cols + block - 1) / block;
  if (!right.empty())
    step.expected.push_back({step.outputs.size(), std::move(right), cols, element, block, transposed});
  if (transposed) {
    step.outputs.push_back(empty(kByte, {cols, kRows}));
    step.outputs.push_back(empty(scales, {cols, across}));
  } else {
    step.outputs.push_back(empty(kByte, {kRows, cols}));
    step.outputs.push_back(empty(scales, {kRows, across}));
  }
}
void add_values(Step& step, DLDataType type, std::vector<double> right, std::vector<std::int64_t> shape) {
  const std::int64_t cols = shape.back();
  step.expected.push_back({step.outputs.size(), std::move(right), cols});
  step.outputs.push_back(empty(type, std::move(shape)));
}

std::vector<float> numbers(const Step& step, const Expected& e) {
  const HostTensor& t = step.outputs[e.output];
  std::vector<float> values;
  for (std::int64_t at = 0; at < std::ssize(e.right); ++at) {
    if (e.block == 0) {
      values.push_back(static_cast<float>(t.value(at)));
      continue;
    }
    const std::int64_t i = at / e.cols;
    const std::int64_t j = at % e.cols;
    const HostTensor& scales = step.outputs[e.output + 1];
    const std::int64_t place =
        e.transposed ? j * scales.shape[1] + band_of(i, e.block) : i * scales.shape[1] + j / e.block;
    const auto byte = scales.bytes[static_cast<std::size_t>(place)];
    const double scale = scales.type.code == kDLFloat ? scales.value(place)
                         : byte == 255                ? NAN
                                                      : std::ldexp(1.0, byte - 127);
    values.push_back(static_cast<float>(
        decode(e.element, t.bytes[static_cast<std::size_t>(e.transposed ? j * kRows + i : at)]) * scale));
  }
  return values;
}

// ---- swiglu and its gradient -------------------------------------------------------------

struct Exact {
  std::vector<double> a, scaled_a, dh, ds;
};
Exact exact_steps(const std::vector<double>& h, bool interleaved, const HostTensor& p, const HostTensor& weights) {
  Exact x;
  x.dh.resize(h.size());
  for (std::int64_t i = 0; i < kRows; ++i) {
    double ds = 0;
    for (std::int64_t j = 0; j < kN; ++j) {
      const auto gate = static_cast<std::size_t>(i * 2 * kN + (interleaved ? 2 * j : j));
      const auto up = interleaved ? gate + 1 : gate + kN;
      const double q = 1 / (1 + std::exp(-h[gate]));
      const double da = weights.value(i) * p.value(i * kN + j);
      x.a.push_back(h[gate] * q * h[up]);
      x.scaled_a.push_back(weights.value(i) * x.a.back());
      x.dh[gate] = da * h[up] * q * (1 + h[gate] * (1 - q)), x.dh[up] = da * h[gate] * q;
      ds += p.value(i * kN + j) * x.a.back();
    }
    x.ds.push_back(ds);
  }
  return x;
}

struct SwigluKind {
  bool backward, interleaved;
  int outputs;
  Format h = Format::bf16;
  const char* recipe = "";
  Format element = Format::e4m3;
  std::int64_t block = 0;
  bool only_a = false;  // the format of dH cannot meet the thresholds
};

void add_swiglu_outputs(Step& step, const SwigluKind& kind, const Exact& right) {
  if (kind.backward) add_values(step, kFp32, right.ds, {kRows});
  if ((kind.outputs & MXCHECK_VALUES) != 0) {
    add_values(step, kBf16, kind.backward ? right.scaled_a : right.a, {kRows, kN});
    if (kind.backward) add_values(step, kBf16, right.dh, {kRows, 2 * kN});
  }
  const DLDataType scales = std::string(kind.recipe) == "fp32" ? kFp32 : kByte;
  const auto codes = [&](const std::vector<double>& of, std::int64_t cols, Format element, bool transposed) {
    add_codes(step, of, cols, element, kind.block, scales, transposed);
  };
  const std::vector<double> dh = kind.only_a ? std::vector<double>{} : right.dh;
  if ((kind.outputs & MXCHECK_ROWS_CODED) != 0)
    codes(kind.backward ? dh : right.a, kind.backward ? 2 * kN : kN, kind.element, false);
  if ((kind.outputs & MXCHECK_COLUMNS_CODED) == 0) return;
  codes(kind.backward ? right.scaled_a : right.a, kN, Format::e4m3, true);
  if (kind.backward) codes(dh, 2 * kN, kind.element, true);
}

Step swiglu_step(const SwigluKind& kind, std::mt19937& random) {
  Step step{kind.backward ? "swiglu_backward" : "swiglu", {}, {}, {}, {}};
  HostTensor h = normal(random, kBf16, {kRows, 2 * kN});
  std::vector<double> values;
  for (std::int64_t i = 0; i < kRows * 2 * kN; ++i) values.push_back(h.value(i));
  if (kind.h == Format::bf16) {
    step.inputs.push_back(h);
  } else {
    const MatrixView view{Format::bf16, reinterpret_cast<const std::byte*>(h.bytes.data()), kRows, 2 * kN, 2 * kN};
    const QuantizedTensor q = quantize(view, kind.h, {1, 32}, recipe_named("rceil"));
    step.inputs.push_back(filled(kByte, {kRows, 2 * kN}, values_in<std::uint8_t>(q.codes.data)));
    step.inputs.push_back(filled(kByte, {kRows, 2 * kN / 32}, values_in<std::uint8_t>(q.scales().data)));
    const std::vector<float> decoded = dequantize(q);
    values.assign(decoded.begin(), decoded.end());
  }
  const HostTensor p = normal(random, kFp32, {kRows, kN});
  std::vector<float> drawn;
  for (std::int64_t i = 0; i < kRows; ++i) drawn.push_back(std::uniform_real_distribution<float>(0.05F, 0.6F)(random));
  const HostTensor weights = filled(kFp32, {kRows}, drawn);
  if (kind.backward) step.inputs.push_back(p), step.inputs.push_back(weights);
  step.inputs.push_back(filled(kInt64, {std::ssize(kExperts)}, kExperts));
  add_swiglu_outputs(step, kind, exact_steps(values, kind.interleaved, p, weights));
  mxcheck_swiglu_policy policy{};
  policy.policy.size = sizeof(policy), policy.policy.rows = kRows, policy.policy.cols = kN, policy.policy.threads = 1;
  policy.policy.format = kind.block == 0 ? "" : spec(kind.element).name.data();
  policy.policy.recipe = kind.recipe;
  policy.policy.block_rows = kind.block == 0 ? 0 : 1, policy.policy.block_cols = kind.block;
  policy.format_h = kind.h == Format::bf16 ? "" : spec(kind.h).name.data();
  policy.format_scaled = kind.backward && (kind.outputs & MXCHECK_COLUMNS_CODED) != 0 ? "e4m3" : "";
  policy.gate_up = kind.interleaved ? MXCHECK_INTERLEAVED : MXCHECK_HALVES;
  policy.outputs = kind.outputs;
  step.policy = policy;
  return step;
}

// ---- the other two -----------------------------------------------------------------------

Step aggregate_step(bool weighted, std::mt19937& random) {
  Step step{"aggregate", mxcheck_aggregate_policy{}, {}, {}, {}};
  const HostTensor y = normal(random, kBf16, {kRows, kN});
  std::vector<float> weights;
  for (std::int64_t i = 0; i < kRows; ++i)
    weights.push_back(std::uniform_real_distribution<float>(0.05F, 0.6F)(random));
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> rows;
  std::vector<double> right(static_cast<std::size_t>(kTokens * kN), 0.0);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int64_t slot = 0; slot < (t % 16 == 0 ? 0 : 4); ++slot) {
      const bool dropped = random() % 20 == 0;
      const auto row = static_cast<std::int32_t>(random() % kRows);
      rows.push_back(dropped ? -1 : row);
      for (std::int64_t j = 0; j < kN && !dropped; ++j) {
        right[static_cast<std::size_t>(t * kN + j)] +=
            y.value(row * kN + j) * (weighted ? static_cast<double>(weights[static_cast<std::size_t>(row)]) : 1);
      }
    }
    offsets.push_back(std::ssize(rows));
  }
  step.inputs.push_back(y);
  if (weighted) step.inputs.push_back(filled(kFp32, {kRows}, weights));
  step.inputs.push_back(filled(kInt64, {kTokens + 1}, offsets));
  step.inputs.push_back(filled(kInt32, {std::ssize(rows)}, rows));
  add_values(step, kBf16, std::move(right), {kTokens, kN});
  mxcheck_aggregate_policy policy{};
  policy.policy.size = sizeof(policy), policy.policy.rows = kTokens, policy.policy.cols = kN, policy.policy.threads = 1;
  policy.policy.format = policy.policy.recipe = "";
  policy.weighted = weighted ? 1 : 0;
  step.policy = policy;
  return step;
}

Step transpose_step(DLDataType type, bool gathered, const char* recipe, std::int64_t block, std::mt19937& random) {
  Step step{"quantize_transposed", mxcheck_policy{}, {}, {}, {}};
  const std::int64_t from = gathered ? 200 : kRows;
  const HostTensor x = normal(random, type, {from, kN});
  std::vector<std::int32_t> index;
  std::vector<double> right;
  for (std::int64_t i = 0; i < kRows; ++i) {
    index.push_back(static_cast<std::int32_t>(gathered ? (i * 37 + 5) % from : i));
    for (std::int64_t j = 0; j < kN; ++j) right.push_back(x.value(index.back() * kN + j));
  }
  step.inputs.push_back(x);
  step.inputs.push_back(filled(kInt64, {std::ssize(kExperts)}, kExperts));
  if (gathered) step.inputs.push_back(filled(kInt32, {kRows}, index));
  add_codes(step, std::move(right), kN, Format::e4m3, block, std::string(recipe) == "fp32" ? kFp32 : kByte, true);
  mxcheck_policy policy{};
  policy.size = sizeof(policy), policy.rows = kRows, policy.cols = kN, policy.threads = 1;
  policy.format = "e4m3", policy.recipe = recipe, policy.block_rows = block, policy.block_cols = 1;
  step.policy = policy;
  return step;
}

std::vector<Step> make_steps() {
  constexpr int kCoded = MXCHECK_ROWS_CODED | MXCHECK_COLUMNS_CODED;
  std::mt19937 random(7);
  std::vector<Step> steps;
  for (const bool backward : {false, true}) {
    for (const bool interleaved : {false, true}) {
      steps.push_back(swiglu_step({backward, interleaved, MXCHECK_VALUES}, random));
      steps.push_back(swiglu_step({backward, interleaved, kCoded, Format::bf16, "rceil", Format::e4m3, 32}, random));
    }
    steps.push_back(swiglu_step({backward, false, MXCHECK_VALUES, Format::e4m3}, random));
    steps.push_back(swiglu_step({backward, false, MXCHECK_VALUES, Format::e5m2}, random));
    steps.push_back(swiglu_step({backward, false, kCoded, Format::bf16, "fp32", Format::e4m3, 128}, random));
  }
  steps.push_back(swiglu_step({true, false, kCoded, Format::bf16, "rceil", Format::e5m2, 32, true}, random));
  for (const bool weighted : {false, true}) steps.push_back(aggregate_step(weighted, random));
  steps.push_back(transpose_step(kFp32, true, "rceil", 32, random));
  steps.push_back(transpose_step(kBf16, false, "rceil", 128, random));
  steps.push_back(transpose_step(kBf16, true, "fp32", 128, random));
  return steps;
}

bool run(const mxcheck_candidate_table& table, Step& step) {
  const auto* policy =
      std::visit([](const auto& p) { return reinterpret_cast<const mxcheck_policy*>(&p); }, step.policy);
  return call(operation(table, step.operation), *policy, step.inputs, step.outputs);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Step> steps = make_steps();
  return print_measures(argc, argv, "layer", [&](const std::string& path, Measures& worst) -> const char* {
    const mxcheck_candidate_table& candidate = load_candidate(path);
    for (Step& step : steps) {
      if (!run(candidate, step)) return "a call is refused";
      for (const Expected& e : step.expected) worst.add(numbers(step, e), e.right);
    }
    return nullptr;
  });
}
