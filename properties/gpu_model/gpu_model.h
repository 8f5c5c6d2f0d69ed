#pragma once
// Every output of a large GEMM against the sm90 contracts (numerics/accumulate/contract.h), computed by the GPU's
// ordinary cores.
//
// D = A B^T; A is m x k codes, B is n x k codes, both row-major. The operands' formats name the contract: FP8 in any
// mix is sm90_fp8, then sm90_bf16, sm90_fp16, sm90_tf32 (FP32 words, the low 13 bits ignored).
//
//   promotion 0   acc = the chain of steps over all k, from +0. No scales.
//   promotion P   for each P of k, ascending: acc = fma(chain of its steps from +0, scale_a * scale_b, acc), in FP32,
//                 to nearest even, acc from +0. Without scales the factor is 1.
//   epilogue      alpha * acc when alpha is not 1, then + C when there is one, FP32 to nearest even; output FP32, or
//                 BF16 to nearest even.
//
// A NaN must be 0x7FFFFFFF where the output is the chain itself (FP32, no promotion, alpha or C); any NaN elsewhere.
//
// Does not promise: independence of memory order. D, C and the operands must not change while the call runs; a C that D
// overwrote has to be a copy. Nothing of this is thread-safe on one report.

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum MxcheckGpuModelFormat {
  MXCHECK_GPU_MODEL_E4M3 = 0,
  MXCHECK_GPU_MODEL_E5M2 = 1,
  MXCHECK_GPU_MODEL_BF16 = 2,
  MXCHECK_GPU_MODEL_FP16 = 3,
  MXCHECK_GPU_MODEL_TF32 = 4
};
enum MxcheckGpuModelScale {
  MXCHECK_GPU_MODEL_NO_SCALE = 0,
  MXCHECK_GPU_MODEL_SCALE_E8M0 = 1,  // 2^(byte - 127), 2^-127 included; 255 is NaN
  MXCHECK_GPU_MODEL_SCALE_FP32 = 2
};
enum MxcheckGpuModelGroups {
  MXCHECK_GPU_MODEL_DENSE = 0,
  // offsets are the experts' end rows; B is experts x n x k with its scales. Rows past the last end are left out.
  MXCHECK_GPU_MODEL_ALONG_M = 1,
  // offsets are the experts' end columns; C and D are experts x m x n. An empty group's acc is +0. With promotion every
  // start must be a multiple of it.
  MXCHECK_GPU_MODEL_ALONG_K = 2
};
enum MxcheckGpuModelOutput { MXCHECK_GPU_MODEL_OUT_FP32 = 0, MXCHECK_GPU_MODEL_OUT_BF16 = 1 };
enum MxcheckGpuModelMode { MXCHECK_GPU_MODEL_COMPARE = 0, MXCHECK_GPU_MODEL_WRITE = 1 };

typedef struct MxcheckGpuModelReport {  // in device memory; every call begins it anew
  uint64_t compared;                    // outputs that were compared, or written
  uint64_t differing;
  uint64_t first;        // (expert * m + row) * n + column of the first that differs; UINT64_MAX when none does
  uint32_t expected;     // the model's word there
  uint32_t observed;     // D's
  uint32_t bad_offsets;  // not 0: offsets descend, leave the matrix or split an interval; those experts are left out
  uint32_t bad_rows;     // not 0: a row_index or a listed row is outside of its matrix or group; such rows are left out
} MxcheckGpuModelReport;

typedef struct MxcheckGpuModelCall {  // all pointers are to device memory
  int32_t a_format;                   // MxcheckGpuModelFormat
  int32_t b_format;
  const void* a;  // a_rows x k, rows lda elements apart (0: k)
  const void* b;  // n x k, rows ldb elements apart (0: k); experts of these, n * ldb apart, when grouped along M
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t lda;
  int64_t ldb;
  const int32_t* row_index;  // m: row r of D comes from this row of A and of its scales; null: from row r
  int64_t a_rows;            // read with row_index alone

  int32_t promotion;      // 0, or a multiple of the step: 32 (FP8), 16 (BF16, FP16), 8 (TF32)
  int32_t scale_format;   // MxcheckGpuModelScale, of both operands
  const void* scale_a;    // a_rows x ceil(k / scale_a_block)
  const void* scale_b;    // ceil(n / scale_b_rows) x ceil(k / scale_b_block), experts of these when grouped along M
  int32_t scale_a_block;  // multiples of promotion
  int32_t scale_b_block;
  int32_t scale_b_rows;  // 1 or 128

  int32_t groups;  // MxcheckGpuModelGroups
  int64_t experts;
  const int64_t* offsets;

  float alpha;
  int32_t output;  // MxcheckGpuModelOutput
  const float* c;  // null: nothing is added. Rows ldc apart (0: n)
  int64_t ldc;
  void* d;  // rows ldd elements apart (0: n)
  int64_t ldd;

  int32_t mode;         // MxcheckGpuModelMode
  int64_t row_begin;    // rows [row_begin, row_end) of D, of every expert when grouped along K
  int64_t row_end;      // m for all
  const int64_t* rows;  // not null: these row_count rows instead, ascending when grouped along M
  int64_t row_count;
  MxcheckGpuModelReport* report;
  void* stream;  // cudaStream_t
} MxcheckGpuModelCall;

#define MXCHECK_GPU_MODEL_API __attribute__((visibility("default")))

// Enqueues the comparison. 0, or 1 (arguments) or 2 (CUDA) with a message.
MXCHECK_GPU_MODEL_API int mxcheck_gpu_model_compare(const MxcheckGpuModelCall* call, char* message, size_t size);

// Enqueues the decoding of rows x k E4M3 codes, packed, with rows x ceil(k / 32) E8M0 scales into rows x k BF16 words:
// value * 2^(byte - 127) to nearest even, subnormals kept, beyond the largest Inf, NaN 0x7FFF.
MXCHECK_GPU_MODEL_API int mxcheck_gpu_model_decode_mx(const uint8_t* codes, const uint8_t* scales, int64_t rows,
                                                      int64_t k, uint16_t* out, void* stream, char* message,
                                                      size_t size);

// The same of NVFP4: rows x ceil(k / 2) bytes of E2M1, the even column in the low nibble, with rows x ceil(k / 16) E4M3
// scales, whose sign counts for nothing. Every value is exact; NaN, of a scale of NaN, is 0x7FFF.
MXCHECK_GPU_MODEL_API int mxcheck_gpu_model_decode_nvfp4(const uint8_t* codes, const uint8_t* scales, int64_t rows,
                                                         int64_t k, uint16_t* out, void* stream, char* message,
                                                         size_t size);

#ifdef __cplusplus
}
#endif
