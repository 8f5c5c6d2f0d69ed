#include "properties/gate/statement_run.h"

#include <rapidcheck.h>

#include <chrono>
#include <exception>
#include <map>
#include <ostream>
#include <unordered_map>
#include <utility>

namespace rc {
template <>
struct Arbitrary<mxcheck::Case>;  // cases come from mxcheck's own generators only
}  // namespace rc

namespace mxcheck {

void showValue(const Case& c, std::ostream& out) { out << to_text(c); }

namespace {

class Quiet : public rc::detail::TestListener {
 public:
  void onTestCaseFinished(const rc::detail::CaseDescription&) override {}
  void onShrinkTried(const rc::detail::CaseDescription&, bool) override {}
  void onTestFinished(const rc::detail::TestMetadata&, const rc::detail::TestResult&) override {}
};

// The state of one search: the best failing case so far and what it failed with.
struct State {
  SearchResult result;
  std::chrono::steady_clock::time_point deadline;
  std::exception_ptr broken;
  std::map<std::string, bool> passed;                // while shrinking, by the case's text
  std::map<std::string, std::vector<Case>> simpler;  // of the cases on the way
};

class Search {
 public:
  Search(const SearchLimits& limits, const CheckCase& check, const SimplerCases& simpler)
      : limits_(limits), check_(check), simpler_(simpler) {}

  // RapidCheck's property: true if the case passes.
  bool passes(const Case& c) {
    if (state_.broken) return true;
    const bool shrinking = state_.result.minimal.has_value();
    // Neighbours of neighbours meet again, and RapidCheck walks the whole way a second time once it has arrived:
    // nothing is tried twice.
    const std::string text = to_text(c);
    if (const auto known = state_.passed.find(text); shrinking && known != state_.passed.end()) return known->second;
    if (shrinking && !may_shrink()) return true;
    try {
      std::optional<Finding> finding = check_(c);
      if (!shrinking) ++state_.result.cases;
      if (shrinking || finding) state_.passed[text] = !finding;
      if (!finding) return true;
      if (!shrinking) {
        state_.result.original = c;
        state_.deadline = std::chrono::steady_clock::now() + limits_.shrink_time;
      }
      state_.result.minimal = c;
      state_.result.finding = std::move(finding);
      return false;
    } catch (...) {
      state_.broken = std::current_exception();
      return true;
    }
  }

  // A failing case's simpler neighbours; the finding kept is that of the last failing case, which is the one asked for.
  rc::Seq<Case> simpler(const Case& c) {
    if (!state_.result.minimal || state_.broken) return {};
    const auto [at, is_new] = state_.simpler.try_emplace(to_text(c));
    if (is_new) {
      // A neighbour that the walk came by is no step ahead: taking it again would never end.
      for (Case& neighbour : simpler_(c, *state_.result.finding)) {
        const auto known = state_.passed.find(to_text(neighbour));
        if (known == state_.passed.end() || known->second) at->second.push_back(std::move(neighbour));
      }
    }
    return rc::seq::fromContainer(at->second);
  }

  SearchResult finish() {
    if (state_.broken) std::rethrow_exception(state_.broken);
    return std::move(state_.result);
  }
  void gave_up(const std::string& why) { state_.result.gave_up = why; }

 private:
  bool may_shrink() {
    SearchResult& r = state_.result;
    if (limits_.shrink_tries == 0) return false;  // not asked for
    if (r.shrink_tries >= limits_.shrink_tries || std::chrono::steady_clock::now() > state_.deadline) {
      r.shrink_budget_spent = true;
      return false;
    }
    ++r.shrink_tries;
    return true;
  }
  const SearchLimits& limits_;
  const CheckCase& check_;
  const SimplerCases& simpler_;
  State state_;
};

}  // namespace

SearchResult search(const std::string& name, std::uint64_t seed, const SearchLimits& limits, const DrawCase& draw,
                    const CheckCase& check, const SimplerCases& simpler) {
  Search state(limits, check, simpler);
  const rc::Gen<Case> generator([&](const rc::Random& random, int) {
    rc::Random source = random;
    Draw words(source.next());
    return rc::shrinkable::shrinkRecur(draw(words), [&state](const Case& c) { return state.simpler(c); });
  });
  rc::detail::TestMetadata metadata;
  metadata.id = name, metadata.description = name;
  rc::detail::TestParams params;
  params.seed = seed, params.maxSuccess = limits.cases;
  Quiet quiet;
  // Given, so that RapidCheck does not read (and print) a configuration of its own.
  const std::unordered_map<std::string, rc::detail::Reproduce> kNothingToReproduce;
  const auto result = rc::detail::checkTestable(
      [&] {
        const Case c = *generator;
        RC_ASSERT(state.passes(c));
      },
      metadata, params, quiet, kNothingToReproduce);
  if (result.is<rc::detail::GaveUpResult>()) state.gave_up(result.get<rc::detail::GaveUpResult>().description);
  if (result.is<rc::detail::Error>()) state.gave_up(result.get<rc::detail::Error>().description);
  return state.finish();
}

}  // namespace mxcheck
