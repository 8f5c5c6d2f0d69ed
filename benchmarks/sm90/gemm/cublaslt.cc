#include "benchmarks/sm90/gemm/cublaslt.h"

#include <dlfcn.h>

#include <algorithm>
#include <limits>

#include "numerics/error.h"

namespace mxcheck::bench {
namespace {

constexpr std::uint64_t kWorkspace = std::uint64_t{64} << 20;
constexpr int kAlgorithms = 8;
constexpr const char* kPlaces[] = {
    "libcublasLt.so.13",
    "/usr/local/cuda/lib64/libcublasLt.so.13",
    "/usr/local/cuda/targets/x86_64-linux/lib/libcublasLt.so.13",
};

template <class Function>
void bind(void* library, const char* name, Function& to) {
  to = reinterpret_cast<Function>(dlsym(library, name));
  if (to == nullptr) throw Error(ErrorKind::environment, std::string("libcublasLt has no function ") + name);
}

void check_lt(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw Error(ErrorKind::environment, std::string("cuBLASLt: ") + what + ": status " + std::to_string(status));
  }
}

bool is_fp8(LtMode mode) { return mode != LtMode::bf16; }

}  // namespace

const char* name_of(LtMode mode) {
  constexpr const char* kNames[] = {"fp8", "fp8 fast", "fp8 blocks", "bf16"};
  return kNames[static_cast<int>(mode)];
}

CublasLt::CublasLt(const std::string& path) {
  void* library = nullptr;
  std::string said;
  const auto open = [&](const char* place) {
    if (library != nullptr) return;
    library = dlopen(place, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) said += std::string(said.empty() ? "" : "; ") + dlerror();
  };
  if (path.empty()) {
    for (const char* const place : kPlaces) open(place);
  } else {
    open(path.c_str());
  }
  if (library == nullptr) throw Error(ErrorKind::environment, "cannot load cuBLASLt: " + said);
  bind(library, "cublasLtCreate", api_.create);
  bind(library, "cublasLtDestroy", api_.destroy);
  bind(library, "cublasLtGetVersion", api_.version);
  bind(library, "cublasLtMatmul", api_.matmul);
  bind(library, "cublasLtMatmulAlgoGetHeuristic", api_.heuristic);
  bind(library, "cublasLtMatmulDescCreate", api_.desc_create);
  bind(library, "cublasLtMatmulDescDestroy", api_.desc_destroy);
  bind(library, "cublasLtMatmulDescSetAttribute", api_.desc_set);
  bind(library, "cublasLtMatrixLayoutCreate", api_.layout_create);
  bind(library, "cublasLtMatrixLayoutDestroy", api_.layout_destroy);
  bind(library, "cublasLtMatmulPreferenceCreate", api_.preference_create);
  bind(library, "cublasLtMatmulPreferenceDestroy", api_.preference_destroy);
  bind(library, "cublasLtMatmulPreferenceSetAttribute", api_.preference_set);
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(api_.matmul), &info) != 0 && info.dli_fname != nullptr) path_ = info.dli_fname;
  check_lt(api_.create(&handle_), "create");
  workspace_ = std::make_unique<DeviceBuffer>(kWorkspace);
}

CublasLt::~CublasLt() {
  if (handle_ != nullptr) api_.destroy(handle_);
}

LtMatmul::LtMatmul(const CublasLt& library, const LtProblem& problem) : library_(library), problem_(problem) {
  const CublasLtApi& api = library.api();
  check_lt(api.desc_create(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "desc");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    check_lt(api.desc_set(desc_, attribute, &value, sizeof value), "attribute");
  };
  // Row-major D is column-major D^T = B A^T: the operands change places, each k x rows, the first transposed.
  set(CUBLASLT_MATMUL_DESC_TRANSA, static_cast<std::int32_t>(CUBLAS_OP_T));
  set(CUBLASLT_MATMUL_DESC_TRANSB, static_cast<std::int32_t>(CUBLAS_OP_N));
  if (is_fp8(problem.mode)) {
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(problem.mode == LtMode::fp8_fast));
  }
  if (problem.mode == LtMode::fp8_blocks) {
    const auto by_row = static_cast<std::int32_t>(CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
    const auto square = static_cast<std::int32_t>(CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F);
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, problem.square ? square : by_row);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, by_row);
  }
  const auto layout = [&](cublasLtMatrixLayout_t* to, cudaDataType_t type, std::int64_t rows, std::int64_t cols,
                          std::int64_t stride) {
    check_lt(api.layout_create(to, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols), stride),
             "layout");
  };
  const cudaDataType_t in = is_fp8(problem.mode) ? CUDA_R_8F_E4M3 : CUDA_R_16BF;
  layout(&first_, in, problem.k, problem.n, problem.stride);
  layout(&second_, in, problem.k, problem.m, problem.stride);
  layout(&result_, problem.accumulates ? CUDA_R_32F : CUDA_R_16BF, problem.n, problem.m, problem.n);
}

LtMatmul::~LtMatmul() {
  const CublasLtApi& api = library_.api();
  for (cublasLtMatrixLayout_t layout : {first_, second_, result_}) {
    if (layout != nullptr) api.layout_destroy(layout);
  }
  if (desc_ != nullptr) api.desc_destroy(desc_);
}

void LtMatmul::point_to_scales(const LtOperands& operands) {
  if (!is_fp8(problem_.mode)) return;
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const float* to) {
    check_lt(library_.api().desc_set(desc_, attribute, &to, sizeof to), "scales");
  };
  set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operands.scale_b);
  set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operands.scale_a);
}

cublasStatus_t LtMatmul::launch(const LtOperands& operands, const cublasLtMatmulAlgo_t& algorithm,
                                cudaStream_t stream) {
  point_to_scales(operands);
  const float alpha = 1;
  const float beta = problem_.accumulates ? 1.0F : 0.0F;
  return library_.api().matmul(library_.handle(), desc_, &alpha, operands.b, first_, operands.a, second_, &beta,
                               operands.d, result_, operands.d, result_, &algorithm, library_.workspace().data(),
                               library_.workspace().bytes(), stream);
}

void LtMatmul::enqueue(const LtOperands& operands, cudaStream_t stream) {
  check_lt(launch(operands, found_[best_].algo, stream), name_of(problem_.mode));
}

std::string LtMatmul::search(std::span<const LtOperands> calls, cudaStream_t stream) {
  const CublasLtApi& api = library_.api();
  point_to_scales(calls[0]);
  cublasLtMatmulPreference_t preference = nullptr;
  check_lt(api.preference_create(&preference), "preference");
  const std::uint64_t bytes = library_.workspace().bytes();
  check_lt(api.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes),
           "preference");
  int count = 0;
  found_.resize(kAlgorithms);
  const cublasStatus_t status = api.heuristic(library_.handle(), desc_, first_, second_, result_, result_, preference,
                                              kAlgorithms, found_.data(), &count);
  api.preference_destroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
    found_.clear();
    return "the heuristic has no algorithm (status " + std::to_string(status) + ")";
  }
  found_.resize(static_cast<std::size_t>(count));

  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check_cuda(cudaEventCreate(&begin), "event");
  check_cuda(cudaEventCreate(&end), "event");
  float least = std::numeric_limits<float>::infinity();
  cublasStatus_t refusal = CUBLAS_STATUS_SUCCESS;
  for (std::size_t i = 0; i < found_.size(); ++i) {
    const cublasStatus_t first = launch(calls[0], found_[i].algo, stream);
    if (first != CUBLAS_STATUS_SUCCESS) {
      refusal = first;
      continue;
    }
    for (int repetition = 0; repetition < 3; ++repetition) {
      check_cuda(cudaEventRecord(begin, stream), "event");
      for (const LtOperands& call : calls) check_lt(launch(call, found_[i].algo, stream), name_of(problem_.mode));
      check_cuda(cudaEventRecord(end, stream), "event");
      check_cuda(cudaEventSynchronize(end), "cuBLASLt");
      float ms = 0;
      check_cuda(cudaEventElapsedTime(&ms, begin, end), "event");
      if (ms < least) least = ms, best_ = i;
    }
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  if (least < std::numeric_limits<float>::infinity()) return "";
  found_.clear();
  return "no algorithm of the heuristic runs (status " + std::to_string(refusal) + ")";
}

std::string LtMatmul::algorithm() const {
  return found_.empty() ? "" : std::to_string(best_ + 1) + " of " + std::to_string(found_.size());
}

}  // namespace mxcheck::bench
