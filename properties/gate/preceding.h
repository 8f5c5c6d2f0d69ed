#pragma once
// Failures that depend on the calls before: the cases that a process was called with, and the shortest list of them
// after which a case fails in a fresh process, so that it can be met again without the run that met it.
//
//   --reproduce 'quantize_equals_the_reference: op=quantize ...' --after '2 x op=quantize ...'

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "properties/core/statement.h"

namespace mxcheck {

// A case that a statement's check made calls of, so many times.
struct Preceding {
  const Statement* statement = nullptr;
  Case c;
  int times = 1;
};

// "3 x STATEMENT: CASE"; "3 x " where it is more than one, the statement where it is another than `of`.
std::string to_text(const Preceding& p, const Statement& of);
// Error{usage} for a number of times outside 1 to 10,000, a statement that there is not, or what parse_case refuses.
Preceding parse_preceding(std::string_view text, const Statement& of);

// Null when there is none of this name.
const Statement* find_statement(std::string_view name);
// Error{usage} with this text in front where there is none.
const Statement& statement_named(std::string_view name, const std::string& before = "");

// The last cases of one process of the candidate, of whichever statements. Those of more than kMostElements are left
// out: trying them again and again would take too long.
class History {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr std::int64_t kMostElements = std::int64_t{1} << 22;
  void add(const Statement& s, const Case& c);
  [[nodiscard]] std::vector<Preceding> kept() const { return {kept_.begin(), kept_.end()}; }

 private:
  std::deque<Preceding> kept_;
};

// A failing case in a fresh process: the calls after which it fails there, and how often.
struct Reproduction {
  bool reproduced = false;  // alone, or after these
  std::vector<Preceding> after;
  std::optional<Finding> finding = {};  // of the case then
  int seen = 0;  // of so many times in a row in a fresh process, where it does not fail there alone
  int of = 0;
};

// The case alone; repeated; after ever more of `before`, which is then cut to what is needed, and simplified. Within
// half a minute, but for a call that hangs. stop: asked between checks.
Reproduction reproduction_of(CheckContext& context, const Preceding& failing, const std::vector<Preceding>& before,
                             const std::function<bool()>& stop);

}  // namespace mxcheck
