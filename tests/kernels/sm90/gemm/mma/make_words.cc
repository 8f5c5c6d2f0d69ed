// Results of Hopper's tensor cores, with all that went into them, as one file for everybody:
//
//   sm90_mma_words OUT.safetensors      on a machine with a Hopper GPU
//
// For each pair of formats and each kind of data: a [64, k] and b [64, k] codes, c and d [64, 64] as the bits of FP32,
// for one step (k of an instruction) and for three chained ones. Names are FORMATS.DATA.STEPS.a and so on; mxcheck mma
// reads them as they are. words_test.cc computes every d again.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "goldens/io/tensor_file.h"
#include "kernels/sm90/gemm/candidate/mma.h"
#include "numerics/error.h"
#include "properties/operations/matmul/problem.h"
#include "tests/kernels/sm90/gemm/mma/words.h"

namespace mxcheck {
namespace {

using mxcheck_kernels::sm90::Code;

void check(cudaError_t e) {
  if (e != cudaSuccess) throw Error(ErrorKind::environment, cudaGetErrorString(e));
}

struct Device {
  explicit Device(const std::vector<std::byte>& bytes) : size(bytes.size()) {
    check(cudaMalloc(&data, size));
    check(cudaMemcpy(data, bytes.data(), size, cudaMemcpyHostToDevice));
  }
  ~Device() { cudaFree(data); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  void* data = nullptr;
  std::size_t size;
};

Tensor tensor(std::string name, Format dtype, std::int64_t rows, std::int64_t cols, std::vector<std::byte> data) {
  return {std::move(name), dtype, {rows, cols}, std::move(data)};
}

void add(SafetensorsFile& file, const test::MmaKind& kind, Data data, std::int64_t steps, std::uint64_t seed) {
  Case c;
  c.variant.dtype = Format::fp32, c.data = data, c.seed = seed;
  const std::int64_t n = test::kMmaSide;
  const std::int64_t k = steps * kind.terms;
  std::vector<std::byte> a = expand_operand(c, kind.a, 0xA, n, k);
  std::vector<std::byte> b = expand_operand(c, kind.b, 0xB, n, k);
  std::vector<std::byte> c_values = expand_c(c, n * n);
  const Device da(a);
  const Device db(b);
  const Device dc(c_values);
  const Device dd(std::vector<std::byte>(c_values.size(), std::byte{0xA5}));
  mxcheck_kernels::sm90::MmaJob job;
  job.a_code = static_cast<Code>(kind.code_a), job.b_code = static_cast<Code>(kind.code_b);
  job.a = da.data, job.b = db.data, job.c = static_cast<const float*>(dc.data), job.d = static_cast<float*>(dd.data);
  job.m = n, job.n = n, job.k = k;
  check(launch_mma(job, nullptr));
  std::vector<std::byte> d(dd.size);
  check(cudaMemcpy(d.data(), dd.data, d.size(), cudaMemcpyDeviceToHost));
  const std::string name = test::mma_name(kind, data, steps);
  file.tensors.push_back(tensor(name + ".a", kind.dtype, n, k, std::move(a)));
  file.tensors.push_back(tensor(name + ".b", kind.dtype, n, k, std::move(b)));
  file.tensors.push_back(tensor(name + ".c", Format::uint32, n, n, std::move(c_values)));
  file.tensors.push_back(tensor(name + ".d", Format::uint32, n, n, std::move(d)));
}

int run(const char* path) {
  SafetensorsFile file;
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0));
  file.metadata["device"] = device.name;
  std::uint64_t seed = 1;
  for (const test::MmaKind& kind : test::kMmaKinds) {
    for (const Data data : test::kMmaData) {
      for (const std::int64_t steps : {1, 3}) add(file, kind, data, steps, seed++);
    }
  }
  write_safetensors(path, file);
  std::printf("%s: %zu tensors\n", path, file.tensors.size());
  return 0;
}

}  // namespace
}  // namespace mxcheck

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: sm90_mma_words OUT.safetensors\n");
    return 2;
  }
  try {
    return mxcheck::run(argv[1]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "sm90_mma_words: error: %s\n", e.what());
    return 3;
  }
}
