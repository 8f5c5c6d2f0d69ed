/* The interface between mxcheck and a kernel library under test: all that a third party implements.
 *
 * A shared library exports one function, mxcheck_candidate, that returns a table of operations. The gate loads the
 * library in a child process, asks each operation what it supports, and compares what it returns with the reference
 * model, byte for byte. The in-tree libraries use the same interface. Plain C; needs only dlpack.h.
 *
 * Tensors. DLTensor, row-major, of as many dimensions as stated here, one lane. The last dimension is contiguous; a
 * matrix may have a row stride larger than its column count (strides != NULL) where stated, and nowhere else. The
 * stride of an extent of 0 or 1 has no meaning. byte_offset counts. Codes and scale bytes are kDLUInt 8; values are
 * kDLFloat 32, kDLFloat 16 or kDLBfloat 16; offsets are kDLInt 64. All live on the candidate's device: device_id is 0
 * on the host, the current device's in CUDA. strides is NULL where rows follow one another. A strided tensor ends with
 * its last row's last element: the gap after it need not exist.
 *
 * Column strides. Where an operation's contract is "exact+col_stride", its x may have any positive strides that leave
 * the rows apart or the columns apart: {1, rows} of a transposed view, {2 cols, 2} of every other element, and more
 * with gaps. Where the contract is "exact", no call has a column stride.
 *
 * Alignment. data + byte_offset is aligned to the element (1, 2, 4 or 8 bytes) and to nothing more; a library that
 * needs more must check. The workspace is aligned to 256 bytes.
 *
 * NaN. Which code a NaN gets, sign included, is the recipe's (docs/numerics.md). In y any NaN equals any other.
 *
 * Operations (names are fixed, all are optional):
 *
 *   quantize       in  x [rows, cols] (row stride allowed, column stride by contract), optionally offsets [experts +
 * 1], optionally a row index out codes [rows, cols], scales quantize_dual  as quantize with policy block 1 x n, giving
 * the blocks n x 1 from the same read; out row codes [rows, cols], row scales, column codes [rows, cols], column scales
 *   dequantize     in  codes [rows, cols], scales, optionally offsets;  out y [rows, cols] fp32 or bf16
 *   scale_layout   in  scales in one layout, optionally offsets (of the input's rows, with rows as policy.rows);
 *                  out the same scales in policy.layout, from the other layout
 *   cast           in  x [rows, cols] (row stride allowed, column stride by contract)
 *                  out codes [rows, cols]: each element to the format, with no scale; nearest, ties to even,
 *                  saturating; recipe, layout, blocks and pad_byte have no meaning
 *   quantize_nvfp4 in  x [rows, cols] (row stride allowed), tensor_scale fp32 [1], optionally offsets and a row index
 *                  out codes uint8 [rows, ceil(cols / 2)], scales
 *   dequantize_nvfp4
 *                  in  codes uint8 [rows, ceil(cols / 2)], scales, tensor_scale fp32 [1], optionally offsets
 *                  out y [rows, cols] fp32 or bf16
 *
 * NVFP4. Format "e2m1", recipe one of two levels of scales ("nvfp4", "nvfp4_te", ...: docs/nvfp4.md), blocks 1 x 16 or
 * 16 x 16. A byte holds two codes, the one of the even column in the low nibble; the last byte of rows of odd length
 * has a high nibble of 0. Scales are E4M3 bytes in either layout (16 x 16: compact alone). tensor_scale is the scale of
 * the tensor as the recipe stores it, computed before: s, its inverse, or the tensor's amax. It is positive and finite,
 * and need not be that of this x: elements beyond what it allows saturate.
 *
 * Values of NVFP4. y is code * b * s, code * b / S or code * b * amax / (6 * 448) (of "nvfp4_46" 6 * 256), as the
 * recipe stores the scale: exact, then rounded once to nearest even; beyond the largest number it is infinite. b is an
 * E4M3 number of either sign. A scale byte of 0x7F or 0xFF makes its whole block NaN, codes of 0 too. In codes that are
 * read the high nibble after the last code of a row of odd length holds anything.
 *
 * FP64. Where supports() of cast says so, x may be kDLFloat 64: each element is rounded once, from all of its bits, and
 * never by way of FP32. No other operation is asked for it.
 *
 * Scales, layout MXCHECK_COMPACT: uint8 [scale rows, scale cols] with scale cols = ceil(cols / block_cols), scale rows
 * = sum over experts of ceil(rows_e / block_rows). Layout MXCHECK_TCGEN05: one flat uint8 tensor of 128 x 4 tiles, for
 * n x 1 blocks of the transposed scales, each expert padded separately (reference/quantize/scale_layout.h has the
 * formula); bytes that belong to no scale are written as policy.pad_byte.
 *
 * Offsets, kDLInt 64: 0 = o_0 <= ... <= o_E = rows. Blocks restart at each; without the tensor there is one expert of
 * all rows. Row index, kDLInt 32, [rows]: row i of the matrix is row index[i] of x, which then has any number of rows;
 * the matrix is quantized as if it had been gathered first. The two are distinguished by dtype.
 *
 * CUDA libraries: offsets and row index are on the device, which run cannot read without synchronizing. A kernel that
 * finds an error in them writes status and message to call->report, and no kernel of that call writes an output; run
 * has returned MXCHECK_OK by then. run does not wait for the device, allocates nothing, and works in a stream that is
 * being captured.
 *
 * Refusals. A wrong call is refused: workspace or run returns MXCHECK_INVALID, or MXCHECK_UNSUPPORTED for an option or
 * a value of the policy that the library does not know, with a message. Wrong is: a policy, inputs or outputs that are
 * NULL; a policy smaller than the operation's; a tensor too many or too few; a tensor of another number of dimensions,
 * type, number of lanes or device than it must have; one whose shape is NULL, or whose data is NULL where it has
 * elements; extents that are negative or disagree with the policy or with one another; strides that are not allowed; a
 * workspace that is NULL or smaller than requested; a value of the policy that is not among those stated. A call whose
 * size is that of no version is refused without a message, which it may not have. Not looked for need be: texts that
 * are NULL, tensors that overlap, pointers that are not aligned, memory that is shorter than the shape says.
 *
 * Rules of conduct. Return MXCHECK_OK with every output byte written, or another status with a message and no output
 * byte written. UNSUPPORTED is for options that supports() does not cover: offsets, row index and row strides. Never
 * read or write outside tensors and workspace (not even to the end of a vector), never write inputs. Extents of 0 are
 * valid, and data must then not be dereferenced. The result depends on the inputs and the policy alone. Work is done,
 * or enqueued on `stream`, when run returns; no thread or process of the library touches a tensor afterwards. Calls
 * come from one thread at a time. All pointers but the message's buffer are valid for the call alone.
 */
#ifndef MXCHECK_CANDIDATE_H_
#define MXCHECK_CANDIDATE_H_

#include <dlpack/dlpack.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MXCHECK_CANDIDATE_VERSION 1
#define MXCHECK_CANDIDATE_SYMBOL "mxcheck_candidate"
/* Optional: const char mxcheck_candidate_sources[], what `mxcheck_source_digest` printed for the sources that the
 * library was built from. A record of a gate's run keeps it, and replay refuses other sources. */
#define MXCHECK_CANDIDATE_SOURCES_SYMBOL "mxcheck_candidate_sources"

typedef enum mxcheck_status {
  MXCHECK_OK = 0,
  MXCHECK_UNSUPPORTED = 1, /* this combination is not offered; not a failure */
  MXCHECK_INVALID = 2,     /* the arguments are wrong: see "Refusals" above */
  MXCHECK_NO_MEMORY = 3,
  MXCHECK_DEVICE_ERROR = 4,
  MXCHECK_FAILED = 5
} mxcheck_status;

typedef enum mxcheck_layout { MXCHECK_COMPACT = 0, MXCHECK_TCGEN05 = 1 } mxcheck_layout;

/* The parameters of an operation. `size` is sizeof(mxcheck_policy) of the caller: later versions only append, and a
 * larger one is no reason to refuse. Texts are never NULL; those without meaning for an operation are "". */
typedef struct mxcheck_policy {
  uint32_t size;
  int32_t layout;     /* mxcheck_layout of scales; any other value is wrong */
  const char* format; /* element format: "e4m3" or "e5m2" ("e2m1", ... where offered) */
  const char* recipe; /* "rceil", "floor", or a preset's name ("te", "torchao", ...): docs/numerics.md */
  int64_t block_rows; /* 1x32, 32x1, 32x32, 1x128, 128x1, 128x128, 1x0 (whole rows); NVFP4: its own; others are wrong */
  int64_t block_cols;
  int64_t rows; /* of the quantized matrix; 0 or more */
  int64_t cols;
  int32_t threads;  /* host libraries: at most this many threads, 0 for the library's choice; never negative */
  uint8_t pad_byte; /* MXCHECK_TCGEN05: what padding holds */
} mxcheck_policy;

/* An error that a kernel found in arguments in device memory. Itself in device memory; status is MXCHECK_OK before the
 * call. */
typedef struct mxcheck_device_report {
  int32_t status;    /* mxcheck_status */
  char message[108]; /* one sentence, NUL-terminated: what must hold */
  int64_t index;     /* of the first value that is wrong */
  int64_t value;     /* that value */
} mxcheck_device_report;

typedef struct mxcheck_call {
  uint32_t size;
  int32_t num_inputs;
  int32_t num_outputs;
  const mxcheck_policy* policy;
  const DLTensor* inputs;
  const DLTensor* outputs;
  void* workspace; /* on the device, 256-byte aligned, poisoned; NULL when workspace_bytes is 0 */
  uint64_t workspace_bytes;
  void* stream;  /* cudaStream_t; NULL for host libraries */
  char* message; /* on failure: one line that says what is wrong, NUL-terminated; never NULL */
  uint64_t message_bytes;
  mxcheck_device_report* report; /* CUDA libraries: device memory, 8-byte aligned; NULL for host libraries */
} mxcheck_call;

typedef struct mxcheck_operation {
  const char* name;     /* from the list above */
  const char* contract; /* "exact": bytes equal the reference; "exact+col_stride": of any strides of x. Accumulating
                           operations name their contract here */
  int64_t max_rows;     /* limits of shape; 0 for none, never negative */
  int64_t max_cols;
  int64_t rows_multiple; /* rows and cols must be multiples; 1 for any, to 2^20 and the limit, product to 2^24 */
  int64_t cols_multiple;
  /* MXCHECK_OK or MXCHECK_UNSUPPORTED for this policy (rows and cols are 0) with values (x or y) of this type. */
  mxcheck_status (*supports)(const mxcheck_policy* policy, DLDataType wide);
  /* Bytes of workspace that run needs for this call (tensors' data may be NULL); the pointer may be NULL for none. */
  mxcheck_status (*workspace)(const mxcheck_call* call, uint64_t* bytes);
  mxcheck_status (*run)(const mxcheck_call* call);
} mxcheck_operation;

typedef struct mxcheck_candidate_table {
  uint32_t interface_version; /* MXCHECK_CANDIDATE_VERSION; the gate refuses any other before reading on */
  uint32_t size;              /* sizeof(mxcheck_candidate_table) */
  const char* name;
  const char* version;
  DLDeviceType device; /* kDLCPU or kDLCUDA */
  int32_t num_operations;
  const mxcheck_operation* operations;
} mxcheck_candidate_table;

/* The one symbol. The table lives as long as the library; NULL where it cannot run here (docs/candidate.md). */
const mxcheck_candidate_table* mxcheck_candidate(void);
typedef const mxcheck_candidate_table* (*mxcheck_candidate_function)(void);

#ifdef __cplusplus
}
#endif

#endif /* MXCHECK_CANDIDATE_H_ */
