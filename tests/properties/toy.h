#pragma once
// The toy candidate (toy_candidate.cc) in one of its modes, for the length of a scope.

#include <cstdlib>
#include <string>

#include "numerics/error.h"
#include "properties/gate/gate.h"
#include "properties/process/candidate_process.h"

namespace mxcheck::test {

class Toy {
 public:
  explicit Toy(const char* mode) { setenv("TOY", mode, 1); }
  ~Toy() { unsetenv("TOY"); }
  Toy(const Toy&) = delete;
  Toy& operator=(const Toy&) = delete;
};

// A statement that the toy is asked about.
inline constexpr const char* kQuantize = "quantize_equals_the_reference";

inline GateOptions toy_options(const std::string& only = "*", int cases = 60) {
  GateOptions options;
  options.tool = MXCHECK_TOOL, options.library = MXCHECK_TOY;
  options.only = only, options.cases = cases, options.seed = 7;
  return options;
}

inline GateReport run_toy(const char* mode, const std::string& only = "*", int cases = 60) {
  const Toy toy(mode);
  return run_gate(toy_options(only, cases), [](const StatementResult&, bool) {});
}

inline const StatementResult& result_of(const GateReport& report, std::string_view name) {
  for (const StatementResult& r : report.statements) {
    if (r.statement->name == name) return r;
  }
  throw Error(ErrorKind::internal, "no statement " + std::string(name));
}

}  // namespace mxcheck::test
