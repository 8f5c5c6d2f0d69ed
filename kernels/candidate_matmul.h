/* GEMMs behind the candidate interface (kernels/candidate.h): the operation "matmul".
 *
 * D = alpha * A B^T + C. A library may have several operations of this name, each with the contract that it claims: the
 * text of reference/matmul/matmul.h, such as "sm90_fp8+promote128". The gate computes D under that contract and
 * compares bits; of "any_order" it asks that every output is a sum of its products in some order, and of
 * "as_accurate_as:CONTRACT" beside that errors no larger than that contract's.
 *
 *   in   a  codes [m, k]; groups along depth: [m, k], k of all groups
 *        b  codes [n, k]; groups along rows: [experts * n, k], the experts' matrices one below the other
 *        scales of a, scales of b                     where policy.scale_type is not 0
 *        c  [m, n] of d's type, groups along depth: [experts * m, n]    where policy.accumulate is not 0
 *        offsets, kDLInt 64, [experts + 1]            where policy.grouping is 1 or 2
 *        counts, kDLInt 64, [experts]                 where policy.grouping is 3
 *        row index, kDLInt 32, [m]                    optional, not of masked groups; row i of A is row index[i] of a
 *   out  d  [m, n], groups along depth: [experts * m, n]; FP32 or BF16
 *
 * All row-major and contiguous: strides other than those are wrong. Codes are kDLUInt 8; BF16, FP16 and FP32 (for TF32)
 * operands have their own types.
 *
 * Scales are kDLUInt 8 (E8M0) or kDLFloat 32, compact: [ceil(rows / block rows), ceil(k / block cols)], block rows 1 or
 * 128, of any value: FP32 ones may be negative, zero, subnormal, infinite or NaN. Groups along rows: b's scales of each
 * expert follow one another, ceil(n / block rows) rows each; those of a are of blocks of one row, and are taken by row
 * index as a's rows are. Groups along depth: each group has ceil(k_e / block cols) columns of scales, one group's after
 * the other's.
 *
 * NVFP4 operands have another scale_type and packed codes: kernels/candidate_nvfp4.h.
 *
 * Offsets along rows end with m, along depth with k; 0 = o_0 <= o_1 ... A group without rows has no output; one without
 * depth has D_e = alpha * 0 + C. On the device, as in candidate.h: errors in them are reported through call->report.
 *
 * Masked groups, as inference has them: a, c and d are [experts * capacity, ...], policy.rows is experts * capacity,
 * and group e is the first counts[e] rows from row e * capacity on; b and its scales are those of groups along rows,
 * a's scales those of single rows. Counts are int64 on the device, each 0 to capacity, in any order. They take the
 * place of offsets, so a call with masked groups has no other tensor of integers. Rows of d past a group's count may
 * hold anything afterwards; those of c and a may hold anything before, and reach no row up to a count.
 *
 * c.data may equal d.data, with the same offset: D is then updated in place. No other tensors may overlap.
 *
 * Wrong, beside what candidate.h says: a depth that is negative; another value of scale_type, grouping or accumulate
 * than those stated; with scales, blocks of other than 1 or 128 rows, or of columns that are no power of two from 16 to
 * 128; blocks other than 0 x 0 without scales; offsets without groups; a c that policy.accumulate does not announce; of
 * masked groups rows that are no multiple of their number, counts out of range, and a row index.
 *
 * UNSUPPORTED from run, nothing written, is for what supports() was not asked: c, alpha, a row index, a depth or group
 * ends that are no multiple of 128, a or b that is not at a multiple of 16 bytes.
 */
#ifndef MXCHECK_CANDIDATE_MATMUL_H_
#define MXCHECK_CANDIDATE_MATMUL_H_

#include "kernels/candidate.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mxcheck_scale_type { MXCHECK_NO_SCALES = 0, MXCHECK_E8M0 = 1, MXCHECK_FP32 = 2 } mxcheck_scale_type;
typedef enum mxcheck_grouping {
  MXCHECK_DENSE = 0,
  MXCHECK_ROWS = 1,
  MXCHECK_DEPTH = 2,
  MXCHECK_MASKED = 3
} mxcheck_grouping;

/* call->policy of a matmul points to the first member, whose size is that of this struct. */
typedef struct mxcheck_matmul_policy {
  mxcheck_policy policy; /* format and blocks of a; rows = m, cols = n; layout compact; recipe "" */
  const char* format_b;
  int64_t block_b_rows;
  int64_t block_b_cols;
  int64_t depth;      /* k, of all groups; 0 or more */
  int32_t scale_type; /* mxcheck_scale_type of both operands' scales */
  int32_t grouping;   /* mxcheck_grouping */
  int32_t accumulate; /* 1: c is among the inputs; 0: it is not */
  float alpha;        /* any value: what NaN and infinity give is what FP32 gives */
} mxcheck_matmul_policy;

#ifdef __cplusplus
}
#endif

#endif /* MXCHECK_CANDIDATE_MATMUL_H_ */
