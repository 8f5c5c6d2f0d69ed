/* The gate's worker for candidates that are functions of an interpreter: the process that the interpreter runs in
 * becomes a candidate's process. Plain C, called through ctypes (python/mxcheck/_worker.py).
 *
 *   mxcheck_worker_begin(hooks, gate)                    confines the process, before anything of the candidate is
 * loaded mxcheck_worker_serve(hooks, socket, shared, model)   hooks->load, then calls until the gate closes the socket
 *
 * The arena, red zones, guard pages, poison, streams and graphs are those of every candidate. What an operation is
 * called with is told in `words` and `texts`, which the caller owns, since reading a C struct field by field costs an
 * interpreter more than the call itself:
 *
 *   words  [0] inputs  [1] outputs  [2] stream  [3] numbers of the policy, n  [4...4+n) those
 *          then of each tensor, inputs first, ten: address (byte_offset added), DLPack's type code, bits, dimensions,
 *          three extents, three strides in elements (those of a contiguous tensor where there are none)
 *   texts  of the policy, each ended by a zero byte
 *
 * Numbers of a policy: rows, cols, threads; layout, block rows, block cols, pad byte; then those of the operation's own
 * struct in its order, floats as their bits. Texts: format, recipe; then the struct's own.
 *
 * Does not check what a call must look like: the gate makes right ones to candidates behind an adapter.
 */
#ifndef MXCHECK_BINDINGS_WORKER_C_H_
#define MXCHECK_BINDINGS_WORKER_C_H_

#include <stdint.h>

#include "kernels/candidate.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MXCHECK_WORKER_CAPTURES = 1, MXCHECK_WORKER_WAITS = 2, MXCHECK_WORKER_STATIC_SHAPES = 4 };

typedef struct mxcheck_worker_hooks {
  uint32_t size;
  int32_t (*load)(
      void); /* fills what is below; 0; where problem says why not, 3 if this machine lacks a device, else another */
  int32_t (*supports)(int32_t operation, int32_t type_code, int32_t type_bits); /* an mxcheck_status */
  int32_t (*run)(int32_t operation);                                            /* an mxcheck_status */
  void (*in_thread)(void); /* calls mxcheck_worker_answer once: the interpreter keeps the thread's state meanwhile */
  int64_t* words;
  int64_t num_words; /* at least 256 */
  char* texts;
  int64_t text_bytes; /* at least 640 */
  char* message;      /* what run says of another status than MXCHECK_OK; ended by a zero byte */
  /* By load: */
  const char* problem;
  const char* name;
  const char* version;
  const char* files; /* lines: paths of what the candidate is made of */
  int32_t device;    /* DLDeviceType */
  int32_t flags;
  int32_t num_operations;
  const mxcheck_operation* operations; /* names, contracts and limits; the functions are not looked at */
} mxcheck_worker_hooks;

/* The parts of the confinement that this kernel lacks: text that lives until the process ends. */
#if defined(__GNUC__)
  #pragma GCC visibility push(default)
#endif
const char* mxcheck_worker_begin(int32_t gate);
/* The process's exit status. */
int32_t mxcheck_worker_serve(mxcheck_worker_hooks* hooks, int32_t socket, int32_t shared, const char* gpu_model);
void mxcheck_worker_answer(void);
/* A DLManagedTensor of tensor i of the call in progress, whose deleter the taker calls. */
void* mxcheck_worker_tensor(int32_t i);
#if defined(__GNUC__)
  #pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* MXCHECK_BINDINGS_WORKER_C_H_ */
