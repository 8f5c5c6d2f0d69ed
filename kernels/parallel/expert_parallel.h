#pragma once
// A mixture-of-experts layer over ranks: tokens are where they come from, experts where a placement puts them. The
// computation is that of libraries behind the candidate interface, called on the rows of a rank's experts:
//
//   forward   rows of X to the ranks of their experts, one a token and rank, and there a row for each expert;
//             moe_forward of these with weight 1, which gives Y of each row; Y back; aggregate at home, in the order of
//             each token's slots
//   backward  rows of dO in the same way; moe_backward, with the rows' weights, which gives dX~ of each row, dS, dW1
//             and dW2 of the rank's experts; dX~ and dS back; aggregate at home
//
// Y and dX~ travel row by row: rows of one token must not be added up at their rank, for the sums have the order of the
// token's slots. Results of a rank's own tokens at its own experts stay where they are, and the aggregate reads them
// there.
//
// Statement. At its expert a row has the place that it has in the layer of one rank, and a library with the contract
// "exact" computes a row of Y, H and dX~ and a gradient of a weight of an expert's own rows alone, in their order. So
// the number of ranks, the placement of experts and the number of chunks change no bit of O, dX, dW1, dW2 and dS, and
// these are the bits of one call with all experts (docs/parallel.md has the one exception, a sign of a zero).
// Recipes whose operands share something across experts cannot be cut so: a scale of the whole tensor, random words by
// the number of a row. Their names are refused by the caller.
//
// Dispatch in FP8: X is quantized at home (E4M3, scales of powers of two, 1 x 128, rule rceil), codes and scales
// travel, and every token, those of the rank itself too, is dequantized at the rank of its experts to BF16, exactly.
//
// The routes are on the host. Nothing else is read there. Between a pass and the next one rows are where they were:
// backward() needs the forward() of the same routes before it.
//
// Errors: ParallelError; {disagreement} of a library that refuses a call, with its words.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/candidate.h"
#include "kernels/parallel/device.h"
#include "kernels/parallel/moe_call.h"
#include "kernels/parallel/placement.h"

namespace mxcheck_kernels::parallel {

// The operations of several libraries.
class Libraries {
 public:
  explicit Libraries(std::vector<const mxcheck_candidate_table*> tables) : tables_(std::move(tables)) {}
  // ParallelError{configuration} where none has it.
  [[nodiscard]] const mxcheck_operation& named(const std::string& operation) const;

 private:
  std::vector<const mxcheck_candidate_table*> tables_;
};

// Parts of a pass, for timing: what is left out leaves its outputs undefined.
enum class Parts { all, transfers, compute };

// Time and bytes of a pass, of this rank.
struct PassTimes {
  double total = 0;
  std::uint64_t sent = 0;      // bytes to other ranks
  std::uint64_t received = 0;  // bytes from other ranks
};

class ExpertParallelLayer {
 public:
  ExpertParallelLayer(LayerSpec spec, Placement placement, Mesh& mesh, Device& device, const Libraries& libraries);
  ~ExpertParallelLayer();

  // The routes of this rank's tokens; the ranks tell one another how many rows each expert gets. capacity: 0 for none.
  void route(const HomeSlots& slots, std::int64_t capacity);
  [[nodiscard]] const HomeRows& home() const { return home_; }
  [[nodiscard]] const Rows& rows() const { return *rows_; }

  // Device memory. x, o: [this rank's tokens, d] bf16; w1, w2: of this rank's experts in ascending order.
  PassTimes forward(const void* x, const void* w1, const void* w2, void* o, Parts parts = Parts::all);
  // dx as x; dw1, dw2 as w1 and w2 in fp32; ds: [rows at home] fp32, in their order.
  PassTimes backward(const void* d_o, const void* w1, const void* w2, void* dx, void* dw1, void* dw2, void* ds,
                     Parts parts = Parts::all);

 private:
  struct Buffers;
  struct Pass;
  std::vector<std::vector<std::int64_t>> gather_counts(const char* step, const std::vector<std::int64_t>& mine);
  void reserve();
  void connect(const Exchange& routes);
  [[nodiscard]] std::vector<Rows::Piece> sent_pieces(int chunk, std::int64_t& begin) const;
  void run_forward_chunk(int chunk, const void* w1, const void* w2);
  void run_backward_chunk(int chunk, const void* w1, const void* w2, void* dw1, void* dw2);
  void aggregate(void* to, bool weighted);
  void expand(std::int64_t first_row, std::int64_t rows, const Memory& to);
  void dequantize_here(std::int64_t first, std::int64_t last);
  std::vector<int> gather_tokens(const void* tokens, bool in_fp8, Parts parts);

  LayerSpec spec_;
  Placement placement_;
  Mesh& mesh_;
  Device& device_;
  const Libraries& libraries_;
  HomeRows home_;
  std::unique_ptr<Rows> rows_;
  SentTokens sent_;
  std::unique_ptr<Arrivals> arrivals_;
  std::unique_ptr<Buffers> buffers_;
};

}  // namespace mxcheck_kernels::parallel
