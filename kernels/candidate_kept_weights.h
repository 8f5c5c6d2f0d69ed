/* Weights that a layer quantizes once, behind the candidate interface, beside kernels/candidate_moe.h: an option of
 * "moe_forward" and "moe_backward" for callers that have many calls with the same w1 and w2.
 *
 * The memory is the caller's. One call writes into it whatever the library computes from the weights, later calls use
 * that. The library holds nothing from call to call: nothing to evict, to release or to lock, and a call that is
 * captured into a graph is like any other.
 *
 *   keeping      MXCHECK_WEIGHTS_KEEP     w1 and w2 are read as without the option, and the memory is written
 *   kept         MXCHECK_WEIGHTS_KEPT     the memory in place of w1 and w2, which are not read: their data may be NULL
 *   kept, checked MXCHECK_WEIGHTS_CHECKED  the same, and w1 and w2 are compared with a digest of those that were kept:
 *                                         for whoever looks for a stale memory
 *
 * Outputs are those of a call without the option that has the weights that were kept: no bit differs. Everything else
 * may differ between the calls: tokens, routes, x, seed.
 *
 * Memory. kept.memory and kept.bytes, on the candidate's device, aligned to 256 bytes; as many bytes as workspace()
 * says of the call with the mode MXCHECK_WEIGHTS_BYTES, whose memory may be NULL. They depend on the operation, the
 * recipe, cols, inner and experts alone. The workspace of a call may differ from mode to mode. The memory's contents
 * are the library's own, hold no address, and may be copied. They are read and written in the order of the call's
 * stream: a caller that uses several orders them like any tensor.
 *
 * Another memory. A call refuses memory as MXCHECK_INVALID that was not written by a call of the same operation,
 * recipe, gate_up, cols, inner and experts. Memory in which another program wrote what a library takes for its own is
 * not told apart.
 *
 * The digest. MXCHECK_WEIGHTS_CHECKED refuses as MXCHECK_INVALID weights of which any one element differs in any bit,
 * and weights whose elements were exchanged. A digest is no proof: a library states when two different weights have
 * the same (kernels/common/digest.h is that of the in-tree libraries).
 *
 * CUDA libraries find both errors on the device, which run() does not wait for: they go to call->report, and nothing is
 * written. A call that is refused, for whatever reason, leaves the memory as it was.
 *
 * Claims. A library whose table has the operation under the contract "exact+kept_weights" is called with a
 * mxcheck_moe_kept_policy where a call asks for the option, and with a mxcheck_moe_policy, told by its size, where it
 * does not. supports() says for which of the recipes that it offers without. A library under "exact" is never asked,
 * and none is for a recipe that rounds the weights of that pass by random words: those are others at each step.
 *
 * Wrong, beside what candidate_moe.h says: a policy larger than mxcheck_moe_policy and smaller than this one; another
 * mode; MXCHECK_WEIGHTS_BYTES in run; memory that is NULL, smaller than it must be or not aligned; reserved not 0.
 *
 * A header of its own, so that the recorded sources of libraries that have none of this stay as they are.
 */
#ifndef MXCHECK_CANDIDATE_KEPT_WEIGHTS_H_
#define MXCHECK_CANDIDATE_KEPT_WEIGHTS_H_

#include "kernels/candidate_moe.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MXCHECK_KEPT_WEIGHTS_CONTRACT "exact+kept_weights"

typedef enum mxcheck_weights_mode {
  MXCHECK_WEIGHTS_BYTES = 1, /* workspace() alone: how large the memory must be */
  MXCHECK_WEIGHTS_KEEP = 2,
  MXCHECK_WEIGHTS_KEPT = 3,
  MXCHECK_WEIGHTS_CHECKED = 4
} mxcheck_weights_mode;

typedef struct mxcheck_kept_weights {
  int32_t mode;     /* mxcheck_weights_mode */
  int32_t reserved; /* 0 */
  void* memory;
  uint64_t bytes;
} mxcheck_kept_weights;

typedef struct mxcheck_moe_kept_policy {
  mxcheck_moe_policy moe; /* moe.policy.size is the size of this struct */
  mxcheck_kept_weights kept;
} mxcheck_moe_kept_policy;

#ifdef __cplusplus
}
#endif

#endif /* MXCHECK_CANDIDATE_KEPT_WEIGHTS_H_ */
