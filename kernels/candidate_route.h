/* Routers behind the candidate interface (kernels/candidate.h): the operations "route", "route_round",
 * "route_metadata", "route_backward", "route_balance_loss" and "route_z_loss", each optional. docs/router.md defines
 * every variant, rule and loss to the bit; the contract of all is "exact". Of route it may be "any_order" or
 * "as_accurate_as:exact", where no bits are promised (docs/contracts.md).
 *
 *   route           in  logits [tokens, experts] fp32 or bf16 (row stride allowed); bias [experts] fp32 where
 *                       policy.bias
 *                   out experts [tokens, top_k] int32, best first; weights [tokens, top_k] fp32
 *
 *   route_round     token choice, counts, ranking, rounding and metadata in one call
 *                   in  as route
 *                   out chosen [experts] int32: tokens that chose each expert, before rounding
 *                       offsets [experts + 1] int64: rows of each expert
 *                       row_token [capacity] int32: ascending within an expert; -1 after the last row
 *                       row_weight [capacity] fp32: +0 after the last row
 *                       token_offsets [tokens + 1] int64: rows of each token
 *                       token_rows [capacity] int32: by token, its experts ascending: the row; -1 after the last
 *
 *   route_metadata  in  slot_experts [slots] int32, -1 for a dropped route; token_offsets [tokens + 1] int64 where
 *                       policy.top_k is 0, else each token has top_k slots
 *                   out counts [experts] int32; offsets [experts + 1] int64, multiples of policy.tile
 *                       row_slot, row_token, row_expert [capacity] int32: -1 for padding and after the last row
 *                       slot_row [slots] int32: -1 for a dropped route
 *
 *   route_backward  in  logits [tokens, experts]; experts [tokens, top_k] int32, -1 for none; gradient [tokens, top_k]
 *                       fp32
 *                   out gradient of the logits [tokens, experts], of the logits' type (bf16: rounded to nearest,
 *                       ties to even)
 *
 *   route_balance_loss
 *                   in  logits [tokens, experts] fp32 or bf16 (row stride allowed), finite; counts [experts] int32: the
 *                       routes of each expert, 0 or more, and where there are tokens not all 0
 *                   out loss [1] fp32; its gradient by the logits [tokens, experts], as route_backward's
 *
 *   route_z_loss    as route_balance_loss, without counts
 *
 * policy.rows is tokens and policy.cols experts in all; policy.recipe is the variant's name ("topk-softmax", ...; of
 * losses and route_metadata ""), format "", blocks 0, layout compact. All tensors but logits are contiguous. The loss
 * is of all tokens of the call; without tokens it is +0.
 *
 * Wrong, beside what candidate.h says: another format, other blocks, another layout than these; a value that is not
 * among those stated beside its field, of a field that the operation reads. route_metadata reads rows, cols, threads,
 * top_k and tile alone; losses read rows, cols, threads and scale alone; route_backward reads neither bias nor groups;
 * renormalize, rule, tile, capacity, seed, step and layer are those of the operations named there.
 *
 * capacity: of route_round, min(tokens * experts, tokens * top_k + experts * (tile - 1)); tokens * top_k for the rule
 * "none" and the capacity rules; experts * min(capacity, tokens) for "expert-choice". Of route_metadata, slots +
 * experts * (tile - 1).
 *
 * Errors that only the device can detect (a NaN where policy.nan is MXCHECK_NAN_REFUSE, an expert outside [-1,
 * experts), token_offsets that descend or do not go from 0 to slots, for losses a logit that is not finite, a count
 * below 0 or counts that add up to 0, place 0) go to call->report as MXCHECK_INVALID with the first place (element
 * number of the tensor, row by row) and, of integers, the value; nothing is written then. Host libraries return
 * MXCHECK_INVALID.
 */
#ifndef MXCHECK_CANDIDATE_ROUTE_H_
#define MXCHECK_CANDIDATE_ROUTE_H_

#include "kernels/candidate.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mxcheck_nan { MXCHECK_NAN_REFUSE = 0, MXCHECK_NAN_LAST = 1 } mxcheck_nan;

/* call->policy of a router's operation points to the first member, whose size is that of this struct. supports() is
 * asked with rows, cols, top_k, groups_kept, tile, capacity, seed, step and layer 0, and with groups 1 for
 * group-limited choice. */
typedef struct mxcheck_route_policy {
  mxcheck_policy policy;
  int64_t top_k;       /* 1 to the number of experts; route_metadata: 0 or more */
  int64_t groups;      /* group-limited choice where not 0: a divisor of the number of experts */
  int64_t groups_kept; /* 1 to groups, enough to hold top_k experts; 0 where groups is */
  int32_t nan;         /* mxcheck_nan */
  int32_t bias;        /* 1: bias is among the inputs; 0: it is not */
  float scale;         /* of every weight; any value, 1 for none. Losses: the coefficient */
  int32_t renormalize; /* route_round: 1: weights over the kept experts of a token; 0: the raw scores */
  const char* rule;    /* route_round: "none", "nr-f", "sr-f", "nr-s", "balance-f", "up", "down", "nr-even", ... */
  int64_t tile;        /* route_round, rules that round to tiles, and route_metadata: 1 or more */
  int64_t capacity;    /* route_round, rules "expert-choice" and "capacity-...": 0 or more */
  uint64_t seed;       /* route_round, rule "sr-f" */
  uint64_t step;
  uint32_t layer;
} mxcheck_route_policy;

#ifdef __cplusplus
}
#endif

#endif /* MXCHECK_CANDIDATE_ROUTE_H_ */
