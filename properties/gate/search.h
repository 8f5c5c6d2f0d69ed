#pragma once
// RapidCheck drives the search for a counterexample and its shrinking, over descriptors.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "properties/core/case.h"
#include "properties/core/finding.h"
#include "properties/core/rng.h"

namespace mxcheck {

struct SearchLimits {
  int cases = 200;
  int shrink_tries = 400;
  std::chrono::seconds shrink_time{60};
};

struct SearchResult {
  int cases = 0;                // checked, shrinking not counted
  std::optional<Case> minimal;  // set when a counterexample was found
  std::optional<Case> original;
  std::optional<Finding> finding;  // what the minimal case failed with
  int shrink_tries = 0;
  bool shrink_budget_spent = false;
  std::string gave_up;  // RapidCheck's words when it could not draw enough cases
};

using CheckCase = std::function<std::optional<Finding>(const Case&)>;
using SimplerCases = std::function<std::vector<Case>(const Case&, const Finding&)>;
using DrawCase = std::function<Case(Draw&)>;

// simpler: what to try in place of a failing case (Operation::simpler). Exceptions from check end the search and are
// passed on.
SearchResult search(const std::string& name, std::uint64_t seed, const SearchLimits& limits, const DrawCase& draw,
                    const CheckCase& check, const SimplerCases& simpler);

}  // namespace mxcheck
