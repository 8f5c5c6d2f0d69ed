#pragma once
// A layer made of the reference's parts, with one fault put in on purpose: the rows moe of the catalogue.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/candidate.h"
#include "properties/operations/moe/problem.h"
#include "reference/layer/run.h"

namespace mxcheck::faults {

// True if this library has that fault.
bool has(std::string_view fault);

// Bytes of an output that are left as they were.
struct Unwritten {
  std::size_t output = 0;
  std::int64_t begin = 0, end = 0;
};
struct FaultyAnswer {
  std::vector<ExpectedTensor> tensors;
  std::vector<Unwritten> unwritten;
};
FaultyAnswer faulty_forward(const MoeProblem& p);
FaultyAnswer faulty_backward(const MoeProblem& p);

// Faults of a recipe, and of routes: what all steps are then made with.
LayerRecipe faulty_recipe(const LayerRecipe& recipe, bool backward);
LayerRoutes faulty_routes(const LayerRoutes& routes, bool backward);

// A product by the run's recipe, or along tokens, with the faults of products.
void faulty_product(const Run& run, LayerGemm gemm, const LayerOperand& a, const LayerOperand& b, void* out);
void faulty_product_along_tokens(const Run& run, LayerGemm gemm, const LayerOperand& a, const LayerOperand& b,
                                 void* out);

// An operand along tokens of rows in the order of the routed ones, with the faults of blocks.
LayerOperand faulty_columns(const Run& run, LayerGemm gemm, bool is_a, const TokenRows& x);

// The sum over a token's rows, with the faults of sums.
Words faulty_aggregate(const Run& run, const Words& y, bool weighted);

// Indices of too few bits: X or dO as rows of it are gathered; routes as GEMMs of rows have them; rows of
// an expert that dW1 sums over; a token's first slot, and a slot's row; O or dX where its elements are stored.
Words faulty_gather(std::span<const std::uint16_t> tokens, std::int64_t cols);
LayerRoutes faulty_offsets(const LayerRoutes& routes);
std::int64_t faulty_count(std::int64_t rows);
std::int64_t faulty_first_slot(std::int64_t slot);
std::int32_t faulty_row(std::int32_t row);
Words faulty_elements(Words out);

void leave_out_tokens_without_slots(const Run& run, FaultyAnswer& answer);
}  // namespace mxcheck::faults

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_faulty_layer(
    const char* fault);
