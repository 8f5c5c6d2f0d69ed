/* Communication of expert parallelism behind the candidate interface (kernels/candidate.h): the operations "dispatch"
 * and "combine", each optional. One call has the tensors of all ranks, one rank's rows below the other's, so that no
 * network is needed: a library may run its ranks as threads, streams or devices. The contract of both is "exact"; of
 * combine it may be "any_order", where no order of sums is promised (docs/contracts.md).
 *
 *   dispatch   in  x [rows, cols] bf16; or codes kDLUInt 8 [rows, cols] and E8M0 scales kDLUInt 8 [rows,
 *                  ceil(cols / 128)]; the routes
 *              out x of the rows [routed, cols] bf16; or their codes [routed, cols] and scales [routed,
 *                  ceil(cols / 128)]; row_token [routed] int32, the token of each row, -1 for a row that none fills;
 *                  slot_rows [slots] int32, the row of each slot, -1 for one that was dropped; counts [ranks,
 *                  experts] int64, the rows that each rank's tokens fill of each expert
 *
 *   combine    in  y [routed, cols] bf16, of the rows as dispatch places them; weights [slots] fp32 where
 *                  policy.weighted; the routes
 *              out o [rows, cols] bf16
 *
 *   routes     rank_tokens [ranks + 1] int64, of the tokens of each rank; expert_rank [experts] int32, the rank of each
 *              expert; token_offsets [rows + 1] int64, of the slots of each token; slot_experts [slots] int32, the
 *              expert of each slot, -1 for a slot that the router dropped. Experts of one token differ.
 *
 * Rows. Slots have the order of their tokens, and tokens that of their ranks. The rows of an expert are its slots in
 * ascending order, with policy.capacity the first `capacity` of them: later ones are dropped. Rows of a rank are those
 * of its experts in ascending order, and ranks follow one another. Without a capacity (0) an expert has as many rows as
 * slots, and routed is the number of slots that are kept; with one every expert has `capacity` rows, and routed is
 * experts * capacity. Rows that no slot fills come after those that are filled, and hold zero bytes. A capacity is an
 * option of a call, which UNSUPPORTED may answer.
 *
 * Nothing is computed by dispatch: every byte of a row, NaN's payload too, is that of its token, and a row's scales are
 * those of its token.
 *
 * Sums. o of a token is the sum of its rows in the order of its slots, in FP32 from +0, rounded once to BF16, as
 * "aggregate" adds them (kernels/candidate_layer.h): acc = fma(weight of the slot, y, acc), or acc + y without weights.
 * Dropped slots add nothing, whatever their weight. Neither the placement of experts nor the number of ranks is part of
 * this order. A token without rows has +0. In o any NaN equals any other.
 *
 * policy.rows and policy.cols are the tokens of all ranks and the columns; policy.recipe is "", the layout
 * MXCHECK_COMPACT. For codes policy.format is theirs and the block 1 x 128; else "" and 0 x 0. supports() is called
 * with the type of x: kDLBfloat 16, or kDLUInt 8 for codes.
 *
 * Wrong, beside what candidate.h says: other values than those stated; routed that is not experts * capacity.
 *
 * Errors that only the device can detect (rank_tokens and token_offsets that descend or do not go from 0 to rows, to
 * the number of slots; values of expert_rank and slot_experts out of range; routed that is not the number of slots
 * kept) go to call->report as MXCHECK_INVALID with the first place and the value; nothing is written then. Host
 * libraries return MXCHECK_INVALID.
 */
#ifndef MXCHECK_CANDIDATE_DISPATCH_H_
#define MXCHECK_CANDIDATE_DISPATCH_H_

#include "kernels/candidate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* call->policy of both points to the first member, whose size is that of this struct. */
typedef struct mxcheck_dispatch_policy {
  mxcheck_policy policy;
  int64_t ranks;    /* 1 or more: rank_tokens have one value more */
  int64_t experts;  /* 1 or more */
  int64_t routed;   /* rows of all experts of all ranks */
  int64_t capacity; /* rows of each expert; 0: as many as it has slots */
  int32_t weighted; /* combine: 1 with weights, 0 without; dispatch: 0 */
} mxcheck_dispatch_policy;

#ifdef __cplusplus
}
#endif

#endif /* MXCHECK_CANDIDATE_DISPATCH_H_ */
