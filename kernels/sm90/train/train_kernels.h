#pragma once
// The launch interface of a training step's own kernels. All enqueue, and return what the launch returned.

#include <cstdint>

#include <cuda_runtime.h>

namespace mxcheck_kernels::sm90 {

// ---- Attention (attention_kernels.cu) ----
//
// The parts of attention that are not GEMMs: docs/training.md, "Forward" 3 to 5 and "Backward". Tokens are sequence
// after sequence. q, k, v and their gradients are, for the GEMMs, matrices of one head of one sequence each: groups x
// length x head_width, a group for each sequence's heads in order. Scores are groups x length x length.

inline constexpr int kMostLength = 4096;

struct AttentionShape {
  std::int64_t sequences = 0;
  int length = 0;  // a multiple of 8, at most kMostLength
  int heads = 0;
  int head_width = 0;  // a multiple of 8
  float scale = 1;     // score_scale(head_width)

  [[nodiscard]] __host__ __device__ std::int64_t groups() const { return sequences * heads; }
  [[nodiscard]] __host__ __device__ std::int64_t elements() const { return groups() * length * head_width; }
};

// length x head_width / 2, on the device.
struct Rotation {
  const float* cosine = nullptr;
  const float* sine = nullptr;
};

struct QkvHeads {
  std::uint16_t* q = nullptr;
  std::uint16_t* k = nullptr;
  std::uint16_t* v = nullptr;
};

// qkv, tokens x 3 width, to heads; q and k rotated.
cudaError_t launch_split_qkv(const AttentionShape& shape, const Rotation& rotation, const std::uint16_t* qkv,
                             const QkvHeads& out, cudaStream_t stream);

// P of scores Z.
cudaError_t launch_causal_softmax(const AttentionShape& shape, const float* z, std::uint16_t* p, cudaStream_t stream);

// Between heads and tokens x width.
cudaError_t launch_merge_heads(const AttentionShape& shape, const std::uint16_t* heads, std::uint16_t* tokens,
                               cudaStream_t stream);
cudaError_t launch_split_heads(const AttentionShape& shape, const std::uint16_t* tokens, std::uint16_t* heads,
                               cudaStream_t stream);

// dZ of P and dP.
cudaError_t launch_score_gradient(const AttentionShape& shape, const std::uint16_t* p, const float* dp,
                                  std::uint16_t* dz, cudaStream_t stream);

// dq and dk rotated back, and dv, to tokens x 3 width.
cudaError_t launch_merge_qkv(const AttentionShape& shape, const Rotation& rotation, const float* dq, const float* dk,
                             const std::uint16_t* dv, std::uint16_t* dqkv, cudaStream_t stream);

// ---- The model's two ends (embedding_and_loss.cu) ----
//
// The embedding of bytes, and the loss of logits, with gradients: docs/training.md.

inline constexpr int kVocabulary = 256;  // tokens are bytes

// Sequences of length + 1 bytes as they come: what is read, and what follows it.
struct TokenBytes {
  const std::uint8_t* bytes = nullptr;
  std::int64_t sequences = 0;
  std::int64_t length = 0;

  [[nodiscard]] __host__ __device__ std::int64_t tokens() const { return sequences * length; }
  [[nodiscard]] __device__ int token(std::int64_t t) const { return bytes[t / length * (length + 1) + t % length]; }
  [[nodiscard]] __device__ int target(std::int64_t t) const {
    return bytes[t / length * (length + 1) + t % length + 1];
  }
};

// x, tokens x width, of the embedding in BF16.
cudaError_t launch_embed(const TokenBytes& tokens, const std::uint16_t* embedding, int width, float* x,
                         cudaStream_t stream);

// 256 x width, each row's sum in the order of tokens.
cudaError_t launch_embed_backward(const TokenBytes& tokens, const float* dx, int width, float* d_embedding,
                                  cudaStream_t stream);

// The loss of each token, and the gradient of the logits where d_logits is not null. share: RN(1 / tokens).
cudaError_t launch_token_loss(const TokenBytes& tokens, const float* logits, float share, float* losses,
                              std::uint16_t* d_logits, cudaStream_t stream);

// ---- RMS normalization (rms_norm.cu) ----
//
// With its gradient, and the additions to the residual stream before and after: docs/training.md,
// "Forward" and "Backward". Matrices are rows x width, row-major; width is a multiple of 8, to kMostWidth.

inline constexpr int kMostWidth = 8192;

struct NormJob {
  const float* x = nullptr;
  const std::uint16_t* added = nullptr;  // null: nothing is added to x
  float* sum = nullptr;                  // RN(x + added), where there is `added`
  const float* gain = nullptr;
  std::uint16_t* y = nullptr;
  float* scale = nullptr;  // r of each row
  std::int64_t rows = 0;
  int width = 0;
};
cudaError_t launch_norm(const NormJob& job, cudaStream_t stream);

struct NormBackwardJob {
  const float* dy = nullptr;
  const std::uint16_t* dy_added = nullptr;  // dy is RN(dy_added + dy) where it is not null
  const float* x = nullptr;
  const float* scale = nullptr;
  const float* gain = nullptr;
  bool adds = false;                 // dx = RN(dx + the gradient); else dx is the gradient
  float* dx = nullptr;               // may not be dy
  std::uint16_t* rounded = nullptr;  // BF16(dx)
  float* dgain = nullptr;            // width
  float* partials = nullptr;         // norm_partials(rows, width) of scratch
  std::int64_t rows = 0;
  int width = 0;
};
std::int64_t norm_partials(std::int64_t rows, int width);
// dx and its rounding.
cudaError_t launch_norm_backward(const NormBackwardJob& job, cudaStream_t stream);
// dgain.
cudaError_t launch_norm_gain(const NormBackwardJob& job, cudaStream_t stream);

// ---- The router (router_kernels.cu) ----
//
// The kernels between those of the router and of the layer: docs/training.md, "Forward" 6 to 8 and "Backward".

// The record, for a pass, of routers' logits that are not finite.
struct RouterOverflow {
  std::int32_t found = 0;  // not 0: routers' kernels write nothing
  std::int32_t layer = 0;  // the first whose logits hold a NaN or an infinity
};

// The state in which a pass begins: nothing found, and a layer above all.
cudaError_t launch_no_overflow(RouterOverflow* overflow, cudaStream_t stream);

cudaError_t launch_check_finite(const float* logits, std::int64_t count, int layer, RouterOverflow* overflow,
                                cudaStream_t stream);

// weights[row_slot[r]] of every row.
cudaError_t launch_row_weights(const std::int32_t* row_slot, const float* weights, std::int64_t rows, float* row_weight,
                               cudaStream_t stream);

// The gradient of every slot's weight: that of its row. Slots have a row each.
cudaError_t launch_slot_gradient(const std::int32_t* slot_row, const float* ds, std::int64_t slots, float* gradient,
                                 cudaStream_t stream);

// The slots of tokens that keep different numbers of experts: `width` each, those without a row -1 and +0.
struct PaddedSlotsJob {
  const std::int64_t* token_offsets = nullptr;  // of slots
  const std::int32_t* token_rows = nullptr;
  const std::int64_t* offsets = nullptr;  // of the rows of each expert
  const float* ds = nullptr;              // of rows
  std::int64_t tokens = 0;
  int experts = 0;
  int width = 0;
  std::int32_t* slot_experts = nullptr;
  float* gradient = nullptr;
};
cudaError_t launch_padded_slots(const PaddedSlotsJob& job, cudaStream_t stream);

// BF16(RN(a + b)).
cudaError_t launch_rounded_sum(const float* a, const float* b, std::int64_t count, std::uint16_t* out,
                               cudaStream_t stream);

// The load-balancing loss of docs/router.md, "Losses", and its gradient. Sums that no order defines are exact: integers
// of units so small that every term is a whole number of them.
inline constexpr std::int64_t kMostBalanceTokens = std::int64_t{1} << 24;

struct BalanceJob {
  const float* logits = nullptr;         // tokens x experts, finite
  const std::int32_t* counts = nullptr;  // routes of each expert, at least one in all
  std::int64_t tokens = 0;               // at most kMostBalanceTokens
  int experts = 0;                       // at most kMostExperts
  float coefficient = 0;
  float* scores = nullptr;    // tokens x experts: the softmax; with `slope` the gradient is made of it
  float* mean = nullptr;      // experts: scratch
  float* slope = nullptr;     // experts: c_e
  float* loss = nullptr;      // one number
  float* gradient = nullptr;  // tokens x experts; may be `scores`; null: the loss alone
};
cudaError_t launch_balance(const BalanceJob& job, cudaStream_t stream);

// ---- Parameters (optimizer.cu) ----
//
// Operations on all parameters of a run in one launch: their rounding to BF16, their digests, the gradient's norm,
// AdamW: docs/training.md, "Update". Parameters are tensors of one allocation; a block of threads has kBlockElements
// elements of one tensor. The device decides whether there is an update.

inline constexpr int kBlockElements = 1024;

struct TensorEntry {
  std::int64_t offset = 0;  // elements from the allocation's start, a multiple of 4
  std::int64_t size = 0;
  std::int64_t first_block = 0;
  bool decays = false;  // under AdamW
};

// On the device; entries ascend.
struct TensorTable {
  const TensorEntry* entries = nullptr;
  int count = 0;
  std::int64_t blocks = 0;
};

// BF16 of all elements.
cudaError_t launch_round(const TensorTable& table, const float* from, std::uint16_t* to, cudaStream_t stream);

// digests[i] = the digest of tensor i, a NaN as 0x7FFFFFFF.
cudaError_t launch_digests(const TensorTable& table, const float* values, unsigned long long* digests,
                           cudaStream_t stream);

// Digests of tensors of which the elements from `first` on are here: their terms are added to `digests`.
cudaError_t launch_digest_parts(const TensorTable& table, const float* values, std::int64_t first,
                                unsigned long long* digests, cudaStream_t stream);

// One round of pairwise sums: element b of tensor i of `out` is the sum of its b-th 1024 elements in `in`, or of their
// squares. A tensor's last block counts as followed by +0: squares and sums of them are never -0, which alone would
// become another number by it.
cudaError_t launch_block_sums(const TensorTable& in_table, const float* in, bool squares, const TensorTable& out_table,
                              float* out, cudaStream_t stream);

// `terms` numbers, which are no -0, likewise.
cudaError_t launch_token_sum(const float* terms, std::int64_t count, float* partials, float* sum, cudaStream_t stream);
std::int64_t token_sum_partials(std::int64_t count);

// The numbers that the host gives for a step. On the device.
struct StepInput {
  float rate = 0;
  float correction1 = 1;  // RN(1 - beta1^t)
  float correction2 = 1;
};

// The results of a step, but for digests. On the device.
struct StepResult {
  float loss = 0;
  float balance_loss = 0;
  float norm = 0;
  float clip = 1;  // what gradients are multiplied by where `clips`
  std::int32_t clips = 0;
  std::int32_t updated = 0;
  std::int32_t layers = 0;  // whose routers' logits were finite, up to the first where they were not
};

// The losses of a microbatch. On the device.
struct MicrobatchResult {
  float loss = 0;  // NaN, as the next, where a router's logits were not finite
  float balance_loss = 0;
  std::int32_t overflow = 0;
  std::int32_t layers = 0;  // as in StepResult
};

struct StepEndJob {
  const RouterOverflow* overflow = nullptr;
  const float* loss_sum = nullptr;
  float tokens = 1;
  const float* balance = nullptr;  // of each layer
  int layers = 0;
  // All microbatches' results in place of the above, where there are several; they are summed where they lie.
  MicrobatchResult* parts = nullptr;
  int count = 1;
  const float* squares = nullptr;  // of each tensor, at its offset in `sums`; null: an evaluation
  TensorTable sums;
  float limit = 0;
  StepResult* result = nullptr;
};
// Loss, balance loss, norm and what is decided by it. NaN all where a router's logits were not finite.
cudaError_t launch_step_end(const StepEndJob& job, cudaStream_t stream);

// ---- Microbatches (optimizer.cu) ----
//
// Gradients are summed by the balanced binary tree over the microbatches' numbers: docs/training.md.

inline constexpr int kMostMicrobatches = 1024;
inline constexpr int kMostLevels = 10;  // of their tree
inline constexpr int kMostRanks = 16;

// The result of one microbatch, of what its pass left: `job` as for launch_step_end, but for the norm.
cudaError_t launch_microbatch_end(const StepEndJob& job, MicrobatchResult* result, cudaStream_t stream);

// out = scale * (((leaf + pending[0]) + pending[1]) + ...): the sums of subtrees beside the leaf's path, the nearest
// first. `out` may be `leaf`.
struct TreePathJob {
  const float* leaf = nullptr;
  const float* pending[kMostLevels] = {};
  int count = 0;
  float scale = 1;
  std::int64_t elements = 0;  // a multiple of 4, as all pointers are
  float* out = nullptr;
};
cudaError_t launch_tree_path(const TreePathJob& job, cudaStream_t stream);

// out = scale * the tree of `ranks` slices of `elements` each, one after the other.
struct TreeOfSlicesJob {
  const float* slices = nullptr;
  int ranks = 2;  // a power of two up to kMostRanks
  float scale = 1;
  std::int64_t elements = 0;
  float* out = nullptr;
};
cudaError_t launch_tree_of_slices(const TreeOfSlicesJob& job, cudaStream_t stream);

struct AdamWJob {
  TensorTable table;
  const StepInput* input = nullptr;
  const StepResult* result = nullptr;
  float beta1 = 0;
  float beta2 = 0;
  float epsilon = 0;
  float decay = 0;
  bool bf16_moments = false;
  const float* gradients = nullptr;
  float* weights = nullptr;
  float* first = nullptr;
  float* second = nullptr;
};
cudaError_t launch_adamw(const AdamWJob& job, cudaStream_t stream);

}  // namespace mxcheck_kernels::sm90
