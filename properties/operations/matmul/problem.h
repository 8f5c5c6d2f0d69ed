#pragma once
// Matrix products as problems of the gate: operands drawn from a case, the call, and the reference's answer.

#include <cstdint>
#include <vector>

#include "properties/operations/operations.h"
#include "reference/matmul/matmul.h"

namespace mxcheck {

// Everything that could be asked of a matmul under this contract; `operation` is "matmul:" and the contract.
std::vector<Variant> askable_products(const std::string& operation);

// A case of the variant with groups that are one third, none, and the rest of what they divide.
Case product_corner(const Variant& v, std::int64_t rows, std::int64_t cols, std::int64_t depth, Data data,
                    std::uint64_t seed);

// Whether the case asks for what a library may leave out: C, alpha, a row index, ends that are no multiple of 128.
bool is_option(const Case& c);

// Whether any NaN in D is as good as another: everywhere but where a tensor core's own word reaches D.
bool any_nan_is_right(std::string_view operation);

void set_product_policy(const Case& c, wire::Policy& policy);

Problem make_product(const Case& c);
Call product_call(const Problem& problem);
ExpectedTensor product_answer(const Problem& problem);
ExpectedTensor product_answer(const Problem& problem, const MatmulContract& contract);

// The problem as the reference takes it; pointers into the problem.
Matmul product_of(const Problem& problem, const MatmulContract& contract);

// The problem that a call poses (properties/records/reference_runner.h).
Problem product_problem_of(const Call& call);

// Lines about the first differing output: its steps. Returns the reference's word there.
std::uint32_t explain_product(const Problem& problem, Finding& finding);

// The source row of each row; with fewer source rows than rows some repeat.
std::vector<std::int32_t> draw_index(std::uint64_t seed, std::int64_t rows, std::int64_t source_rows);

// Operands (properties/operations/matmul/expand.cc).
std::vector<std::byte> expand_operand(const Case& c, Format format, std::uint64_t salt, std::int64_t rows,
                                      std::int64_t depth);
std::vector<std::byte> expand_operand_scales(const Case& c, std::uint64_t salt, std::int64_t rows, std::int64_t blocks);
std::vector<std::byte> expand_c(const Case& c, std::int64_t count);

}  // namespace mxcheck
