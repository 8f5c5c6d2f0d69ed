#include "properties/gate/preceding.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <set>

#include <fmt/format.h>

#include "numerics/error.h"
#include "numerics/names.h"
#include "properties/core/limits.h"
#include "properties/core/operation.h"

namespace mxcheck {
namespace {

constexpr int kMostTimes = 10'000;
constexpr int kRepeats = 64;
constexpr std::size_t kMostSimpler = 200;
constexpr std::chrono::seconds kTimeForRepeats{5};
constexpr std::chrono::seconds kTimeForAll{30};

// The number before " x ", which is taken off the text; 1 where there is none.
int take_times(std::string_view& text) {
  const std::size_t x = text.find(" x ");
  if (x == std::string_view::npos || text.substr(0, x).find_first_not_of("0123456789") != std::string_view::npos)
    return 1;
  int times = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + x, times);
  if (error != std::errc() || end != text.data() + x || times < 1 || times > kMostTimes) {
    throw Error(ErrorKind::usage, fmt::format("--after '{} x ...': a number of times from 1 to {} is possible",
                                              text.substr(0, x), kMostTimes));
  }
  text.remove_prefix(x + 3);
  return times;
}

class FreshProcess {
 public:
  FreshProcess(CheckContext& context, const Preceding& failing, const std::function<bool()>& stop)
      : context_(context), failing_(failing), stop_(stop), end_(Clock::now() + kTimeForAll) {}

  [[nodiscard]] bool out_of_time() const { return Clock::now() > end_ || stop_(); }

  bool fails_after(const std::vector<Preceding>& before) {
    context_.process.restart();
    for (const Preceding& p : before) {
      for (int i = 0; i < p.times && !out_of_time(); ++i) (void)fails(p);
    }
    return !out_of_time() && fails(failing_);
  }
  std::optional<Finding> take_finding() { return std::move(finding_); }

  // The calls that the case makes when it is checked again and again; the number of the first that fails, or 0.
  int repeat(Reproduction& counts) {
    context_.process.restart();
    int first = 0;
    const auto end = Clock::now() + kTimeForRepeats;
    while (counts.of < kRepeats && Clock::now() < end && !stop_()) {
      ++counts.of;
      if (!fails(failing_)) continue;
      ++counts.seen;
      if (first == 0) first = counts.of;
    }
    return first;
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool fails(const Preceding& p) {
    context_.not_offered = context_.not_applicable = false;
    context_.not_checked.clear();
    try {
      finding_ = p.statement->check(context_, p.c);
      return finding_.has_value();
    } catch (const Interrupted&) {
      return false;
    }
  }

  CheckContext& context_;
  const Preceding& failing_;
  const std::function<bool()>& stop_;
  Clock::time_point end_;
  std::optional<Finding> finding_;  // of the last check
};

std::vector<Preceding> last(const std::vector<Preceding>& all, std::size_t count) {
  return {all.end() - static_cast<std::ptrdiff_t>(count), all.end()};
}

// The shortest end of the list after which the case fails, if failing is a matter of how far back it goes; empty: none.
std::vector<Preceding> shortest_end(FreshProcess& fresh, const std::vector<Preceding>& all) {
  std::size_t passes = 0;
  std::size_t fails = 0;
  for (std::size_t n = 1; fails == 0 && passes < all.size() && !fresh.out_of_time(); n *= 2) {
    const std::size_t count = std::min(n, all.size());
    (fresh.fails_after(last(all, count)) ? fails : passes) = count;
  }
  while (fails > passes + 1 && !fresh.out_of_time()) {
    const std::size_t middle = passes + (fails - passes) / 2;
    (fresh.fails_after(last(all, middle)) ? fails : passes) = middle;
  }
  return last(all, fails);
}

// Without what is not needed, half of the list at a time, then less.
void leave_out(FreshProcess& fresh, std::vector<Preceding>& list) {
  for (std::size_t chunk = list.size() / 2; chunk > 0; chunk /= 2) {
    for (std::size_t at = 0; at + chunk <= list.size() && list.size() > 1 && !fresh.out_of_time();) {
      std::vector<Preceding> without = list;
      const auto from = without.begin() + static_cast<std::ptrdiff_t>(at);
      without.erase(from, from + static_cast<std::ptrdiff_t>(chunk));
      if (fresh.fails_after(without)) {
        list = std::move(without);
      } else {
        at += chunk;
      }
    }
  }
}

// The cases that are left, each by the simplest that will do: it names what the library keeps.
void simplify(FreshProcess& fresh, const CandidateRunner& process, std::vector<Preceding>& list) {
  std::set<std::string> tried;  // simpler cases meet again, and what is simplest comes back to where it was
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (bool is_simpler = true; is_simpler;) {
      is_simpler = false;
      const Case from = list[i].c;
      for (Case& c : operation_named(from.variant.operation).simpler(from, {})) {
        if (c.variant != from.variant) continue;
        list[i].c = within_limits(std::move(c), *process.operation(from.variant.operation));
        if (!tried.insert(to_text(list[i].c)).second || tried.size() > kMostSimpler || fresh.out_of_time()) continue;
        is_simpler = fresh.fails_after(list);
        if (is_simpler) break;
      }
      if (!is_simpler) list[i].c = from;
    }
  }
}

}  // namespace

const Statement* find_statement(std::string_view name) {
  const auto& all = all_statements();
  const auto s = std::find_if(all.begin(), all.end(), [&](const Statement& one) { return one.name == name; });
  return s == all.end() ? nullptr : &*s;
}

const Statement& statement_named(std::string_view name, const std::string& before) {
  if (const Statement* s = find_statement(name)) return *s;
  throw Error(ErrorKind::usage, before + "no statement '" + std::string(name) + "'; mxcheck gate --list prints them" +
                                    did_you_mean(name, names_in(all_statements())));
}

std::string to_text(const Preceding& p, const Statement& of) {
  return (p.times > 1 ? fmt::format("{} x ", p.times) : "") +
         (p.statement->name == of.name ? "" : fmt::format("{}: ", p.statement->name)) + to_text(p.c);
}

Preceding parse_preceding(std::string_view text, const Statement& of) {
  Preceding p{&of, {}, take_times(text)};
  if (const std::size_t colon = text.find(": "); colon != std::string_view::npos) {
    p.statement = &statement_named(text.substr(0, colon), "--after: ");
    text.remove_prefix(colon + 2);
  }
  p.c = parse_case(text);
  return p;
}

void History::add(const Statement& s, const Case& c) {
  if (c.elements() > kMostElements) return;
  kept_.push_back({&s, c, 1});
  if (kept_.size() > kMost) kept_.pop_front();
}

Reproduction reproduction_of(CheckContext& context, const Preceding& failing, const std::vector<Preceding>& before,
                             const std::function<bool()>& stop) {
  FreshProcess fresh(context, failing, stop);
  Reproduction found;
  found.reproduced = fresh.fails_after({});
  if (found.reproduced) {
    found.finding = fresh.take_finding();
    return found;
  }
  // A chance failure would be taken for one of the state: what was found must fail twice more.
  const auto is_certain = [&] {
    found.reproduced = fresh.fails_after(found.after) && fresh.fails_after(found.after);
    found.finding = fresh.take_finding();
    return found.reproduced;
  };
  if (const int first = fresh.repeat(found); first > 1) {
    found.after = {{failing.statement, failing.c, first - 1}};
    if (is_certain()) return found;
  }
  found.after = shortest_end(fresh, before);
  leave_out(fresh, found.after);
  simplify(fresh, context.process, found.after);
  if (found.after.empty() || !is_certain()) found.after.clear();
  return found;
}

}  // namespace mxcheck
