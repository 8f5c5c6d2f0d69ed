#include "properties/process/candidate_table.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "numerics/error.h"
#include "properties/core/operation.h"
#include "properties/process/candidate_process.h"

namespace mxcheck {
namespace {

// The error in an extent's limits; empty where there is none.
std::string limit_problem(const char* extent, std::int64_t most, std::int64_t multiple) {
  constexpr std::int64_t kMostMultiple = std::int64_t{1} << 20;
  const std::string of_most = std::string("max_") + extent + " " + std::to_string(most);
  const std::string of_multiple = std::string(extent) + "_multiple " + std::to_string(multiple);
  if (most < 0) return of_most + ": must be 0 (no limit) or more";
  if (multiple < 1 || multiple > kMostMultiple) return of_multiple + ": must be 1 to 2^20";
  if (most != 0 && multiple > most) return of_multiple + ", which is above " + of_most;
  return {};
}

// The error in the least case, of one multiple of either extent.
std::string least_case_problem(const wire::Operation& o) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 24;
  if (o.rows_multiple <= kMostElements / o.cols_multiple) return {};
  return "rows_multiple " + std::to_string(o.rows_multiple) + " and cols_multiple " + std::to_string(o.cols_multiple) +
         ": their product must be 2^24 or less, for no case is smaller";
}

// The contract that an operation is held to: the first claim about it, which is then used, or its own.
std::string claimed(const Operation& operation, const std::string& contract, const std::vector<std::string>& claims,
                    std::vector<bool>& used) {
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const std::size_t sign = claims[i].find('=');
    const std::string of = claims[i].substr(0, sign == std::string::npos ? 0 : sign);
    const bool is_of_contract = operation.has_contracts() && (sign == std::string::npos || of == contract);
    if (!is_of_contract && of != operation.name()) continue;
    used[i] = true;
    return sign == std::string::npos ? claims[i] : claims[i].substr(sign + 1);
  }
  return contract;
}

[[noreturn]] void refuse_claim(const std::string& claim, std::span<const wire::Operation> table,
                               const std::string& candidate) {
  std::string contracts, named;
  for (const wire::Operation& o : table) {
    const Operation* known = find_operation(printable(o.name));
    if (known == nullptr) continue;
    if (known->has_contracts()) contracts += (contracts.empty() ? "" : ", ") + printable(o.contract);
    if (!known->claims().empty()) named += (named.empty() ? "" : ", ") + std::string(known->name());
  }
  throw Error(ErrorKind::usage, "--claim " + claim + ": " + candidate + " has no such operation; " +
                                    (contracts.empty() ? "no operation of it has a contract"
                                                       : "the contracts of its operations are " + contracts) +
                                    (named.empty() ? "" : "; claims by name are made about " + named));
}

}  // namespace

std::vector<OperationInfo> operations_in(std::span<const wire::Operation> table, const std::vector<std::string>& claims,
                                         const std::string& library) {
  const std::string candidate = "candidate " + library;
  const auto refuse = [&](const std::string& what) { throw Error(ErrorKind::usage, candidate + " has " + what); };
  std::vector<OperationInfo> operations;
  std::vector<bool> used(claims.size());
  for (const wire::Operation& o : table) {
    const std::string listed = printable(o.contract);
    std::string name = printable(o.name);
    // A misspelt name would otherwise be an operation that nothing is ever asked of.
    const Operation* known = find_operation(name);
    if (known == nullptr || known->name() != name) refuse("an operation '" + name + "'" + known_operations(name));
    const std::string contract = claimed(*known, listed, claims, used);
    try {
      if (contract != listed && !known->has_contracts()) known->check_claim(contract);
      name = known->variant_name(contract);
    } catch (const Error& e) {
      refuse("a " + name + " that nobody can check: " + e.what());
    }
    if (std::ranges::find(operations, name, &OperationInfo::name) != operations.end())
      refuse("operation " + name + " twice" + (claims.empty() ? "" : "; --claim CONTRACT=CLAIM is about one of them"));
    for (const std::string& problem :
         {limit_problem("rows", o.max_rows, o.rows_multiple), limit_problem("cols", o.max_cols, o.cols_multiple)}) {
      if (!problem.empty()) refuse("operation " + name + " with " + problem);
    }
    if (const std::string problem = least_case_problem(o); !problem.empty())
      refuse("operation " + name + " with " + problem);
    operations.push_back(
        {name, contract, o.max_rows, o.max_cols, o.rows_multiple, o.cols_multiple, contract == listed ? "" : listed});
  }
  const auto idle = std::find(used.begin(), used.end(), false);
  if (idle != used.end()) refuse_claim(claims[static_cast<std::size_t>(idle - used.begin())], table, candidate);
  return operations;
}

std::vector<Variant> supported_of(CandidateProcess& process, const Operation& operation,
                                  std::vector<Variant> variants) {
  if (variants.empty()) return variants;
  std::vector<Question> questions;
  for (const Variant& v : variants) questions.push_back({operation.question(v), v.dtype});
  const std::vector<bool> supported = process.supports(variants.front().operation, questions);
  std::vector<Variant> kept;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    if (supported[i]) kept.push_back(std::move(variants[i]));
  }
  return kept;
}

}  // namespace mxcheck
