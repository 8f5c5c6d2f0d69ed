#include "properties/gate/coverage/tuple_state.h"

#include <algorithm>

#include "numerics/error.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

constexpr char kFirst = '?';  // of 64 characters without digits
constexpr std::size_t kMostStates = std::size_t{1} << 24;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::input, "what was met of a domain: " + what);
}

}  // namespace

std::string states_text(const std::vector<std::uint8_t>& states) {
  std::string text;
  for (std::size_t from = 0; from < states.size();) {
    std::size_t to = from + 1;
    while (to < states.size() && states[to] == states[from]) ++to;
    text += static_cast<char>(kFirst + states[from]);
    if (to - from > 1) text += std::to_string(to - from);
    from = to;
  }
  return text;
}

std::vector<std::uint8_t> states_from(std::string_view text) {
  std::vector<std::uint8_t> states;
  for (std::size_t at = 0; at < text.size();) {
    const int state = text[at++] - kFirst;
    if (state < 0 || state > 63) refuse("a character that is no state");
    const std::size_t digits = std::min(text.find_first_not_of("0123456789", at), text.size()) - at;
    const auto times = digits == 0 ? 1 : parse_number<std::size_t>(text.substr(at, digits)).value_or(0);
    if (times == 0 || times > kMostStates - states.size()) refuse("a number of states that cannot be");
    states.insert(states.end(), times, static_cast<std::uint8_t>(state));
    at += digits;
  }
  return states;
}

void add_to(std::vector<std::uint8_t>& states, const std::vector<std::uint8_t>& others) {
  if (states.size() != others.size())
    refuse(std::to_string(others.size()) + " states where this mxcheck has " + std::to_string(states.size()));
  for (std::size_t i = 0; i < states.size(); ++i) states[i] |= others[i];
}

void add_to(AxisCount& axis, const AxisCount& others) {
  for (const BinCount& other : others.bins) {
    const auto bin =
        std::find_if(axis.bins.begin(), axis.bins.end(), [&](const BinCount& b) { return b.label == other.label; });
    if (bin == axis.bins.end()) refuse("no bin '" + other.label + "' of " + axis.name);
    bin->checked += other.checked, bin->refused += other.refused, bin->nothing_claimed += other.nothing_claimed;
  }
}

}  // namespace mxcheck
