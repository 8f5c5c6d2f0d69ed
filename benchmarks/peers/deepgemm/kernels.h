#pragma once
// DeepGEMM's kernels, one instance for each shape of shapes.h, and the kernels of ours that put operands into the
// layouts that they read.

#include <cstdint>
#include <span>

#include <cuda_runtime_api.h>

#include "benchmarks/peers/deepgemm/configuration.h"
#include "kernels/candidate.h"

namespace mxcheck_peers::deepgemm {

// --- GEMMs

// Device pointers. Scales in FP32; of a, and of b where its blocks have one row: [block of k][row, in whole fours]; of
// masked groups one such matrix after the other. b's of 128 x 128 are compact.
struct Operands {
  const void* a = nullptr;  // depth: each group's [m, k_e], one after the other; b likewise
  const void* b = nullptr;
  const float* scale_a = nullptr;
  const float* scale_b = nullptr;
  void* d = nullptr;
  // rows: the group of each row, negative for none. masked: the rows of each group. depth: its columns.
  const std::int32_t* groups = nullptr;
  void* tensor_maps = nullptr;  // depth: kTensorMapBytes of the kernel's own
};

constexpr std::int64_t kTensorMapBytes = std::int64_t{kProcessors} * 4 * 128;

struct Instance {
  Shape shape;
  Configuration configuration;
  // 32-bit operations and no synchronization; cudaErrorNotSupported where the driver cannot make tensor maps.
  cudaError_t (*launch)(const Operands& operands, cudaStream_t stream) = nullptr;
};

std::span<const Instance> dense_instances();
std::span<const Instance> rows_instances();
std::span<const Instance> masked_instances();
std::span<const Instance> sum_instances();
std::span<const Instance> depth_instances();

// --- layouts

// from[matrix][rows][blocks] to to[matrix][blocks][rows in whole fours].
cudaError_t launch_scales(const float* from, float* to, std::int64_t matrices, std::int64_t rows, std::int64_t blocks,
                          cudaStream_t stream);

// Checks offsets (masked: counts) and writes what `groups` of Operands holds. *status becomes 0, or what is wrong,
// which the report says too; then all groups are empty.
struct GroupsJob {
  Kind kind = Kind::rows;
  const std::int64_t* offsets = nullptr;
  std::int64_t groups = 0;
  std::int64_t end = 0;       // of offsets; the most of a count
  std::int64_t multiple = 1;  // of which every offset is one
  std::int32_t* to = nullptr;
  std::int32_t* status = nullptr;
  mxcheck_device_report* report = nullptr;
};
cudaError_t launch_groups(const GroupsJob& job, cudaStream_t stream);

// Codes [rows][k], whose columns are cut into groups at multiples of 16, to each group's [rows][k_e], one after the
// other. Nothing where *status is not 0.
struct RegroupJob {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t rows = 0;
  std::int64_t k = 0;
  const std::int64_t* offsets = nullptr;
  std::int64_t groups = 0;
  const std::int32_t* status = nullptr;
};
cudaError_t launch_regroup(const RegroupJob& job, cudaStream_t stream);

}  // namespace mxcheck_peers::deepgemm
