// Values of the measures that the field tests GEMMs by, for each faulty library:
//
//   mxcheck_field_measures catalogue.tsv .../libmxcheck_sm90_gemm_fault_      on a machine with a Hopper GPU
//
// Three matmuls of normal data: dense; grouped along rows with gathered rows and C; grouped along depth. Each D is
// compared with the matmul of the operands before they were quantized, as the field does, by the smallest cosine
// similarity, the smallest SQNR and the largest calc_diff of the three (measures.h).

#include <cuda_runtime.h>

#include <random>

#include "kernels/candidate_matmul.h"
#include "numerics/scale/recipe.h"
#include "reference/quantize/quantize.h"
#include "tests/kernels/loaded_library.h"
#include "tests/libraries/wrong/measures/measures.h"

namespace {

using namespace mxcheck;

struct Matmul {
  int grouping = MXCHECK_DENSE;
  std::int64_t m = 512, n = 512, k = 2048, experts = 1;
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> index;
  std::vector<float> c;
  std::vector<std::uint8_t> a, b;
  std::vector<std::uint8_t> scales_a, scales_b;
  std::vector<double> right;  // of the operands as they were
};

std::vector<float> normal(std::mt19937& random, std::int64_t count) {
  std::vector<float> x(static_cast<std::size_t>(count));
  std::normal_distribution<float> draw;
  for (float& v : x) v = draw(random);
  return x;
}

MatrixView view(const std::vector<float>& x, std::int64_t rows, std::int64_t cols) {
  return {Format::fp32, reinterpret_cast<const std::byte*>(x.data()), rows, cols, cols};
}

Matmul make(int grouping) {
  std::mt19937 random(7 + static_cast<unsigned>(grouping));
  Matmul p;
  p.grouping = grouping;
  if (grouping == MXCHECK_ROWS) p.offsets = {0, 130, 130, 131, 512};
  if (grouping == MXCHECK_DEPTH) p.offsets = {0, 640, 640, 1024, 2048};
  if (!p.offsets.empty()) p.experts = static_cast<std::int64_t>(p.offsets.size()) - 1;
  const std::int64_t matrices = grouping == MXCHECK_ROWS ? p.experts : 1;
  const std::int64_t results = grouping == MXCHECK_DEPTH ? p.experts : 1;
  const std::vector<float> x = normal(random, p.m * p.k);
  const std::vector<float> w = normal(random, matrices * p.n * p.k);
  const Recipe recipe = recipe_named("rceil");
  const QuantizedTensor qa = quantize(view(x, p.m, p.k), Format::e4m3, {1, 128}, recipe);
  const BlockShape block_b = grouping == MXCHECK_DEPTH ? BlockShape{1, 128} : BlockShape{128, 128};
  const QuantizedTensor qb = quantize(view(w, matrices * p.n, p.k), Format::e4m3, block_b, recipe);
  p.a = values_in<std::uint8_t>(qa.codes.data), p.scales_a = values_in<std::uint8_t>(qa.scales().data),
  p.b = values_in<std::uint8_t>(qb.codes.data), p.scales_b = values_in<std::uint8_t>(qb.scales().data);
  if (grouping == MXCHECK_ROWS) {
    for (std::int64_t i = 0; i < p.m; ++i) p.index.push_back(static_cast<std::int32_t>((i * 37 + 5) % p.m));
    p.c = normal(random, p.m * p.n);
  }
  for (std::int64_t e = 0; e < results; ++e) {
    const std::int64_t begin = grouping == MXCHECK_DEPTH ? p.offsets[static_cast<std::size_t>(e)] : 0;
    const std::int64_t end = grouping == MXCHECK_DEPTH ? p.offsets[static_cast<std::size_t>(e) + 1] : p.k;
    for (std::int64_t i = 0; i < p.m; ++i) {
      std::int64_t expert = 0;
      while (grouping == MXCHECK_ROWS && p.offsets[static_cast<std::size_t>(expert) + 1] <= i) ++expert;
      const float* row = x.data() + (p.index.empty() ? i : p.index[static_cast<std::size_t>(i)]) * p.k;
      for (std::int64_t j = 0; j < p.n; ++j) {
        const float* col = w.data() + (expert * p.n + j) * p.k;
        double sum = p.c.empty() ? 0 : p.c[static_cast<std::size_t>(i * p.n + j)];
        for (std::int64_t t = begin; t < end; ++t) sum += static_cast<double>(row[t]) * col[t];
        p.right.push_back(sum);
      }
    }
  }
  return p;
}

struct Memory {
  void* data = nullptr;
  template <class T>
  explicit Memory(const std::vector<T>& from) {
    cudaMalloc(&data, from.size() * sizeof(T) + 256);
    cudaMemcpy(data, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~Memory() { cudaFree(data); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
};

// D as FP32; empty where the library refused or the device failed.
std::vector<float> run(const mxcheck_candidate_table& table, Matmul& p) {
  const mxcheck_operation& matmul = operation(table, "matmul", "sm90_fp8+promote128");
  const std::int64_t results = p.grouping == MXCHECK_DEPTH ? p.experts : 1;
  std::vector<float> d(static_cast<std::size_t>(results * p.m * p.n), NAN);
  const Memory a(p.a), b(p.b), sa(p.scales_a), sb(p.scales_b), c(p.c), offsets(p.offsets), index(p.index), out(d);
  const Memory workspace(std::vector<char>(4096));
  std::int64_t shapes[8][2];
  std::vector<DLTensor> tensors;
  const auto add = [&](const Memory& m, std::int64_t rows, std::int64_t cols, DLDataType type) {
    auto& shape = shapes[tensors.size()];
    shape[0] = rows < 0 ? cols : rows, shape[1] = cols;
    tensors.push_back({m.data, {kDLCUDA, 0}, rows < 0 ? 1 : 2, type, shape, nullptr, 0});
  };
  const auto matrices = static_cast<std::int64_t>(p.b.size()) / (p.n * p.k);
  const std::int64_t br = p.grouping == MXCHECK_DEPTH ? 1 : 128;
  add(a, p.m, p.k, {kDLUInt, 8, 1}), add(b, matrices * p.n, p.k, {kDLUInt, 8, 1});
  add(sa, p.m, p.k / 128, {kDLUInt, 8, 1}), add(sb, matrices * p.n / br, p.k / 128, {kDLUInt, 8, 1});
  if (!p.c.empty()) add(c, p.m, p.n, {kDLFloat, 32, 1});
  if (!p.offsets.empty()) add(offsets, -1, p.experts + 1, {kDLInt, 64, 1});
  if (!p.index.empty()) add(index, -1, p.m, {kDLInt, 32, 1});
  add(out, results * p.m, p.n, {kDLFloat, 32, 1});
  mxcheck_matmul_policy policy{};
  policy.policy.size = sizeof(policy), policy.policy.format = policy.format_b = "e4m3", policy.policy.recipe = "";
  policy.policy.block_rows = 1, policy.policy.block_cols = 128, policy.block_b_rows = br, policy.block_b_cols = 128;
  policy.policy.rows = p.m, policy.policy.cols = p.n, policy.depth = p.k;
  policy.scale_type = MXCHECK_E8M0, policy.grouping = p.grouping, policy.accumulate = p.c.empty() ? 0 : 1;
  policy.alpha = 1;
  char message[256] = "";
  mxcheck_call call{};
  call.size = sizeof(call), call.num_inputs = static_cast<int>(tensors.size()) - 1, call.num_outputs = 1;
  call.policy = &policy.policy, call.inputs = tensors.data(), call.outputs = tensors.data() + call.num_inputs;
  call.workspace = workspace.data, call.workspace_bytes = 4096;
  call.message = message, call.message_bytes = sizeof(message);
  if (matmul.run(&call) != MXCHECK_OK || cudaDeviceSynchronize() != cudaSuccess) return {};
  cudaMemcpy(d.data(), out.data, d.size() * sizeof(float), cudaMemcpyDeviceToHost);
  return d;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Matmul> matmuls{make(MXCHECK_DENSE), make(MXCHECK_ROWS), make(MXCHECK_DEPTH)};
  return print_measures(argc, argv, "sm90_gemm", [&](const std::string& path, Measures& worst) -> const char* {
    try {
      const mxcheck_candidate_table& table = load_candidate(path);
      for (Matmul& m : matmuls) {
        const std::vector<float> d = run(table, m);
        if (d.empty()) return cudaGetErrorString(cudaGetLastError());
        worst.add(d, m.right);
      }
      return nullptr;
    } catch (const Error&) {
      return cudaGetErrorString(cudaGetLastError());
    }
  });
}
