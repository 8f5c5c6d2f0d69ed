/* Training on a device: one step of the language model that docs/training.md defines to the bit, and its forward pass
 * alone. A trainer loads the library with dlopen, asks mxcheck_train() for the table, and holds a handle for each run;
 * several may be at work in one process, each on a stream of its own. Plain C; needs only candidate.h.
 *
 *   const mxcheck_train_table* train = mxcheck_train();
 *   mxcheck_train_run* run = NULL;
 *   train->create(&config, &run, message, sizeof(message));
 *   for each parameter p: train->set_parameter(run, p, weights, first_moments, second_moments, message, ...);
 *   train->step(run, &input, &outcome, message, sizeof(message));
 *   train->destroy(run);
 *
 * Parameters are numbered from 0 in the order of docs/training.md's table: the embedding, seven for each layer, the
 * final norm's gain, the output. All pointers are to host memory, all values FP32, row-major; moments in BF16 are given
 * and returned widened.
 *
 * The caller supplies what only exact arithmetic gives: the table of rotations, learning rates, and the corrections of
 * the moments' bias.
 *
 * Functions return MXCHECK_OK, or another status with one line in `message`, NUL-terminated, and nothing changed but
 * after MXCHECK_DEVICE_ERROR, which leaves a handle that can only be destroyed. MXCHECK_INVALID: arguments that
 * contradict one another or this text. MXCHECK_UNSUPPORTED: what the kernels do not offer (below). A handle is used by
 * one thread at a time, with the device current that was current when it was made.
 *
 * Offered are: width, inner, length, experts and width / heads that are multiples of 8, width up to 8192, length up to
 * 4096; recipes of FP8 codes ("dsv3", ..., "fp8_tensor") with width and inner multiples of 128; token rounding of up
 * to 128 experts; parameters of up to 2^30 elements.
 *
 * A recipe written out is "mx32" and a word for each operand of the six GEMMs of docs/layer.md, in its order (up: X,
 * W1; down: A, W2; d_down: dO, W2; d_up: dH, W1; d_w2: A', dO; d_w1: X, dH), with a space between two: "bf16", or a
 * format and the rule of its E8M0 scales, "e3m2.rceil", of blocks of 32 along k. Formats: e4m3, e5m2, e2m1, e2m3, e3m2;
 * rules: rceil, floor. Operands are decoded to BF16, and multiplied under sm90_bf16.
 *
 * A step of token choice is one sequence of launches on one stream, from the second step on a CUDA graph, waited for at
 * its end; of several microbatches, the passes of each are. Token rounding decides how many rows the layer's GEMMs
 * have, so that a step waits once in each layer.
 */
#ifndef MXCHECK_TRAIN_H_
#define MXCHECK_TRAIN_H_

#include "kernels/candidate.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MXCHECK_TRAIN_VERSION 2
#define MXCHECK_TRAIN_SYMBOL "mxcheck_train"

typedef struct mxcheck_train_run mxcheck_train_run;

/* Several runs, of a process and a device each, that make one run together: its ranks. They exchange numbers between
 * their devices by the functions that their maker gives, over NCCL say. Both enqueue on `stream`, a cudaStream_t, every
 * rank calls them in the same order, and they return 0, or something else after a failure, which ends the step. */
typedef struct mxcheck_train_exchange {
  uint32_t size;
  void* context;
  /* Part r of `receive` becomes the part of rank r's `send` that has this rank's number, but for this rank's own, which
   * the library copies; parts are of `bytes`. */
  int32_t (*all_to_all)(void* context, const void* send, void* receive, uint64_t bytes, void* stream);
  /* Part r of `parts` becomes rank r's own; parts are of `bytes`. */
  int32_t (*all_gather)(void* context, void* parts, uint64_t bytes, void* stream);
} mxcheck_train_exchange;

/* `size` is sizeof of the caller's struct, here and below: later versions only append. Texts are never NULL. */
typedef struct mxcheck_train_config {
  uint32_t size;
  int64_t layers;
  int64_t width; /* d */
  int64_t heads;
  int64_t experts;
  int64_t inner; /* n, an expert's width */
  int64_t top_k;
  int64_t length;               /* tokens of a sequence */
  int64_t batch;                /* sequences of a step */
  int64_t evaluation_sequences; /* most of an evaluation; 0: there is none */
  const char* recipe;           /* of the MoE layers: a name of docs/layer.md, or written out, above */
  const char* rounding;         /* "none", or a rule that rounds to tiles: docs/router.md */
  int64_t tile;                 /* of the rounding; without it not looked at */
  uint64_t seed;                /* of the rounding */
  float balance;                /* coefficient of the load-balancing loss */
  float beta1;
  float beta2;
  float epsilon;
  float decay;
  float clip;           /* limit of the gradient's norm */
  int32_t bf16_moments; /* 1: moments are rounded to BF16; 0: FP32 */
  const float* cosine;  /* length x (width / heads / 2): of position * 10000^(-2j / (width / heads)) */
  const float* sine;
  /* So many of the last layers are under "bf16" in place of the recipe, in steps and in evaluations: 0 to layers - 1.
   * Callers that were built before end above it, for 0. A library knows it if its table has config_bytes, and these
   * are no less than sizeof(mxcheck_train_config) of the caller. */
  int64_t bf16_last;
  /* Equal parts of the batch, a power of two up to 1024; their gradients are summed by a tree. 0 counts as 1. Callers
   * that were built before end above it; config_bytes says as above whether a library knows it. */
  int64_t microbatches;
  /* The run is number `rank` of so many, a power of two up to 16 that divides the microbatches, and computes its share
   * of them, one after the other; all have the same state and the same tokens, the whole batch's. 0 counts as 1. */
  int64_t ranks;
  int64_t rank;
  const mxcheck_train_exchange* exchange; /* outlives the run; NULL where it is alone */
} mxcheck_train_config;

typedef struct mxcheck_train_step {
  uint32_t size;
  const uint8_t* tokens; /* batch x (length + 1): a sequence's last byte is the last target alone */
  uint64_t step;         /* from 0: of the rounding's random words */
  float rate;
  float correction1; /* RN(1 - beta1^t), t the number of this update, from 1 */
  float correction2; /* RN(1 - beta2^t) */
  int32_t observe;   /* 1: "observed" tensors are kept of it; see `read` */
} mxcheck_train_step;

typedef struct mxcheck_train_outcome {
  uint32_t size;
  float loss;         /* NaN, with the two below, where a router's logits were not finite */
  float balance_loss; /* sum over the layers */
  float gradient_norm;
  int32_t updated; /* 0: the norm is NaN or an infinity, weights and moments are as they were */
  int64_t layers;  /* whose routers' logits were finite, before the first whose were not */
  uint64_t weights_digest;
  uint64_t* parameter_digests; /* given by the caller: room for those of all parameters, or NULL */
  uint64_t* layer_digests;     /* the same for the residual stream after each layer; `layers` of them mean something */
} mxcheck_train_outcome;

typedef struct mxcheck_train_evaluation {
  uint32_t size;
  const uint8_t* tokens; /* sequences x (length + 1) */
  int64_t sequences;     /* 1 to config.evaluation_sequences */
  const char* recipe;    /* of the MoE layers; routes are those of token choice */
  float loss;            /* out */
  int64_t layers;        /* out, as above */
  int32_t* routes;       /* room for layers x tokens x top_k experts, best first, or NULL */
} mxcheck_train_evaluation;

typedef struct mxcheck_train_table {
  uint32_t interface_version; /* MXCHECK_TRAIN_VERSION */
  uint32_t size;              /* sizeof(mxcheck_train_table) */
  const char* name;
  const char* version;
  mxcheck_status (*create)(const mxcheck_train_config* config, mxcheck_train_run** run, char* message,
                           uint64_t message_bytes);
  void (*destroy)(mxcheck_train_run* run); /* NULL is allowed */
  /* Elements of a parameter, -1 for none of this number. */
  int64_t (*parameter_size)(const mxcheck_train_run* run, int64_t parameter);
  mxcheck_status (*set_parameter)(mxcheck_train_run* run, int64_t parameter, const float* weights, const float* first,
                                  const float* second, char* message, uint64_t message_bytes);
  /* Each may be NULL. */
  mxcheck_status (*get_parameter)(mxcheck_train_run* run, int64_t parameter, float* weights, float* first,
                                  float* second, char* message, uint64_t message_bytes);
  mxcheck_status (*step)(mxcheck_train_run* run, const mxcheck_train_step* input, mxcheck_train_outcome* outcome,
                         char* message, uint64_t message_bytes);
  mxcheck_status (*evaluate)(mxcheck_train_run* run, mxcheck_train_evaluation* evaluation, char* message,
                             uint64_t message_bytes);
  /* Reads a tensor as a step or an evaluation left it, for finding a first difference: "layers.0.qkv", "gradients.3",
   * ...; the list of names is returned for the name "". `bytes` is the room in `data`, afterwards the tensor's bytes;
   * with data NULL these alone are given.
   *
   * With several microbatches the tensors of a pass are the first one's, and gradients are the step's.
   *
   * After a step with `observe` these are there for every layer L, of which a trainer makes its observations, which are
   * the first microbatch's (of several ranks, the first rank's); R is
   * the last of the offsets, and tensors of R rows may have more, which mean nothing:
   *   layers.L.moe_u           BF16, tokens x width    what the experts' layer was given
   *   layers.L.observed_d_o    BF16, tokens x width    the gradient of its output
   *   layers.L.observed_h      BF16, R x 2 inner       H of docs/layer.md
   *   layers.L.observed_p      FP32, R x inner         P
   *   layers.L.offsets, token_offsets (int64), row_token, token_rows (int32), row_weight (FP32)   its routes
   *   weights_bf16.P           BF16                    parameter P as the step read it */
  mxcheck_status (*read)(mxcheck_train_run* run, const char* name, void* data, uint64_t* bytes, char* message,
                         uint64_t message_bytes);
  uint64_t config_bytes; /* sizeof(mxcheck_train_config) as the library knows it */
} mxcheck_train_table;

/* The one symbol. The table lives as long as the library. */
const mxcheck_train_table* mxcheck_train(void);
typedef const mxcheck_train_table* (*mxcheck_train_function)(void);

#ifdef __cplusplus
}
#endif

#endif /* MXCHECK_TRAIN_H_ */
