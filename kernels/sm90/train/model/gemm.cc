#include "kernels/sm90/train/model/gemm.h"

#include "kernels/sm90/common/arguments.h"
#include "kernels/sm90/gemm/matmul.h"
#include "kernels/sm90/moe/gemm/transposed.h"

namespace mxcheck_kernels::sm90 {
namespace {

MatmulCall product(MatmulKind kind, MatmulOutput output, const void* a, const void* b, void* d) {
  MatmulCall matmul;
  matmul.kind = kind, matmul.output = output;
  matmul.a = a, matmul.b = b, matmul.d = d;
  return matmul;
}

MatmulCall of_heads(const HeadProducts& h, MatmulCall matmul) {
  matmul.experts = h.groups, matmul.offsets = h.ends;
  return matmul;
}

}  // namespace

void linear(const LinearMap& map, const std::uint16_t* x, const std::uint16_t* w, MatmulOutput output, void* y,
            cudaStream_t stream) {
  MatmulCall matmul = product(MatmulKind::dense, output, x, w, y);
  matmul.m = map.rows, matmul.n = map.out, matmul.k = map.in;
  require_success(matmul_bf16_launch(matmul, stream));
}

void linear_dx(const LinearMap& map, const std::uint16_t* dy, const std::uint16_t* w, MatmulOutput output, void* dx,
               cudaStream_t stream) {
  MatmulCall matmul = product(MatmulKind::rows, output, dy, w, dx);
  matmul.m = map.rows, matmul.n = map.in, matmul.k = map.out;
  matmul.offsets = map.end;
  require_success(matmul_transposed_launch(matmul, stream));
}

void linear_dw(const LinearMap& map, const std::uint16_t* dy, const std::uint16_t* x, float* dw, cudaStream_t stream) {
  MatmulCall matmul = product(MatmulKind::depth, MatmulOutput::fp32, dy, x, dw);
  matmul.m = map.out, matmul.n = map.in, matmul.k = map.rows;
  matmul.offsets = map.end;
  require_success(matmul_transposed_launch(matmul, stream));
}

void head_scores(const HeadProducts& h, const std::uint16_t* a, const std::uint16_t* b, float* scores,
                 cudaStream_t stream) {
  MatmulCall matmul = of_heads(h, product(MatmulKind::rows, MatmulOutput::fp32, a, b, scores));
  matmul.m = h.groups * h.length, matmul.n = h.length, matmul.k = h.width;
  require_success(matmul_bf16_launch(matmul, stream));
}

void head_mix(const HeadProducts& h, const std::uint16_t* scores, const std::uint16_t* x, MatmulOutput output,
              void* out, cudaStream_t stream) {
  MatmulCall matmul = of_heads(h, product(MatmulKind::rows, output, scores, x, out));
  matmul.m = h.groups * h.length, matmul.n = h.width, matmul.k = h.length;
  require_success(matmul_transposed_launch(matmul, stream));
}

void head_mix_transposed(const HeadProducts& h, const std::uint16_t* scores, const std::uint16_t* x,
                         MatmulOutput output, void* out, cudaStream_t stream) {
  MatmulCall matmul = of_heads(h, product(MatmulKind::depth, output, scores, x, out));
  matmul.m = h.length, matmul.n = h.width, matmul.k = h.groups * h.length;
  require_success(matmul_transposed_launch(matmul, stream));
}

}  // namespace mxcheck_kernels::sm90
