#pragma once
/* What a peer's library may offer beside the candidate interface: the work that its users do once for an operand, such
 * as another layout of scales, apart from the kernel alone. A benchmark then times both.
 *
 *   const mxcheck_peer_steps* steps = mxcheck_peer();   of the operation "matmul"
 *   steps->prepare(&call);                              fills the workspace; it may wait for the device
 *   steps->run_prepared(&call, rows);                   again and again, with this workspace and these tensors
 */
#include "kernels/candidate.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MXCHECK_PEER_SYMBOL "mxcheck_peer"

typedef struct mxcheck_peer_steps {
  uint32_t size; /* sizeof(mxcheck_peer_steps) */
  /* Statuses and messages are those of mxcheck_operation's run. */
  mxcheck_status (*prepare)(const mxcheck_call* call);
  /* Runs the kernel on the call that was prepared, with the inputs of then (but for c), also in a stream that is being
   * captured. `expected_rows`: how many rows a masked group is expected to have, by which a peer may choose its tiles;
   * 0: not known. The result does not depend on it. */
  mxcheck_status (*run_prepared)(const mxcheck_call* call, int64_t expected_rows);
} mxcheck_peer_steps;

/* Optional. */
const mxcheck_peer_steps* mxcheck_peer(void);
typedef const mxcheck_peer_steps* (*mxcheck_peer_function)(void);

#ifdef __cplusplus
}
#endif
