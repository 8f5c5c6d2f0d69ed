#pragma once
// Routers as problems of the gate: logits drawn from a case, the call, and the reference's answer.

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "properties/gate/generate.h"
#include "properties/operations/operations.h"
#include "reference/router/metadata.h"
#include "reference/router/router.h"
#include "reference/router/token_rounding.h"

namespace mxcheck {

// Everything that could be asked of "route", "route_round", "route_metadata" or "route_backward".
std::vector<Variant> askable_routes(const std::string& operation);

// What `supports` is asked with (kernels/candidate_route.h), and what a call has.
wire::Policy route_question(const Variant& v);
void set_route_policy(const Case& c, wire::Policy& policy);

Problem make_route(const Case& c);
Call route_call(const Problem& problem);
std::vector<ExpectedTensor> route_answer(const Problem& problem);
Problem route_problem_of(const Call& call);  // properties/records/reference_runner.h

// The problem as the reference takes it; pointers into the problem.
Router router_of(const Problem& problem);
TokenRounding token_rounding_of(const Case& c);
std::int64_t rows_capacity(const Case& c, std::int64_t slots);  // of route_round and route_metadata

// Whether the case asks for what a library may leave out, as supports() is not asked for it: a scale, a row stride,
// more experts of a token than anyone has.
bool is_route_option(const Case& c);

// Names of common slips that give exactly what was observed (properties/operations/router/faults.h).
std::vector<std::string> routes_that_match(const Problem& problem, std::span<const std::vector<std::byte>> observed);

// Lines about the first difference, of output number `output`: the order around it and the decision.
void explain_route(const Problem& problem, std::size_t output, Finding& finding);

// A case of the variant, brought to what can be: groups that divide, k within the experts.
Case route_corner(const Variant& v, std::int64_t tokens, std::int64_t experts, std::int64_t top_k, Data data,
                  std::uint64_t seed);
void fit_route(Case& c);
Case draw_route(const Statement& statement, const Variant& variant, const CandidateRunner& process, Draw& draw);
std::vector<Case> simpler_routes(const Case& c, const Finding& finding);

// Drawn tensors (properties/operations/router/expand.cc).
Input expand_logits(const Case& c);
std::vector<float> expand_bias(const Case& c);
std::vector<std::int64_t> expand_token_offsets(const Case& c);
std::vector<std::int32_t> expand_slot_experts(const Case& c, std::int64_t slots);
std::vector<std::int32_t> expand_chosen_experts(const Case& c);  // tokens x top_k, of a token all different
std::vector<float> expand_gradient(const Case& c, std::span<const std::int32_t> experts);
// The values of data=every_row, as bits of the logits' type: seven, or fewer where a router refuses some.
std::vector<std::uint32_t> small_alphabet(const Variant& v);

// Values of an output, whatever bytes there are.
template <class T>
std::vector<T> values_in(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace mxcheck
