#pragma once
// moe_forward and moe_backward: a whole layer under a recipe, six GEMMs and what is between them, in two calls.

#include <optional>
#include <string_view>
#include <vector>

#include "properties/core/law.h"
#include "properties/core/operation.h"
#include "properties/operations/moe/fields.h"
#include "properties/operations/moe/problem.h"

namespace mxcheck {

OperationModule moe_module();

// Everything that could be asked of one of the two; of libraries that keep weights beside these.
std::vector<Variant> askable_layers(const std::string& operation);
std::vector<Variant> askable_kept_weights(const std::string& operation);
// Error{usage} for a case that no call could pose.
void check_moe(const Case& c);
// After tokens have changed: experts have no more rows than there are tokens, and k slots a token are enough.
void fit_moe(Case& c);

// With `sizes` rows of each expert, and k slots a token where that is not 0.
Case moe_corner(const Variant& v, std::int64_t tokens, std::int64_t cols, std::int64_t inner,
                const std::vector<std::int64_t>& sizes, std::int64_t k, Data data, std::uint64_t seed);

std::unique_ptr<Domain> moe_domain(const DomainRequest& request);
std::vector<Case> simpler_layers(const Case& c, const Finding& finding);
std::vector<InvalidCall> invalid_layers();
std::vector<InvalidCall>
invalid_layer_routes();  // of these, the ones whose routes are wrong: what a device alone can see
// Multiplications, and what quantization costs: what the reference's time grows with. An element of a weight, which is
// drawn, quantized and packed up to four times, takes as long as some sixty products.
inline constexpr std::int64_t kMoeWorkOfWeight = 60;
std::int64_t moe_work(const Case& c);

// Helpers shared by the statements about whole layers.

std::vector<Statement> moe_equality_statements();
std::vector<Statement> moe_token_law_statements();
std::vector<Statement> moe_expert_law_statements();
std::vector<Statement> moe_order_law_statements();
std::vector<Statement> moe_kept_weights_statements();

// A statement about drawn cases, of variants that keep no weights.
Statement moe_law(std::string_view name, std::string_view sentence, bool (*applies)(const Variant&), LawCheck* check);

}  // namespace mxcheck
