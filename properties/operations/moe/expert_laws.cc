// What holds of the experts of any layer, whatever the reference says.

#include <algorithm>
#include <numeric>

#include "numerics/bytes.h"
#include "properties/operations/moe/statements.h"

namespace mxcheck {
namespace {

using Bytes = std::vector<std::byte>;
using Words = std::vector<std::uint16_t>;

// Expert number e of the result is experts[e] of the other; several may be the same one.
using Places = std::vector<std::int64_t>;

// Matrices of so many experts, those that are named one after another.
template <class T>
std::vector<T> matrices_of(const std::vector<T>& all, std::int64_t experts, const Places& which) {
  std::vector<T> some;
  const std::int64_t each = std::ssize(all) / experts;
  for (const std::int64_t e : which) some.insert(some.end(), all.begin() + e * each, all.begin() + (e + 1) * each);
  return some;
}

// Experts in other places: to[e] is the new number of expert e, whose weights `from` names for each new one.
MoeProblem with_experts(const MoeProblem& p, const Places& from, const Places& to) {
  MoeInputs in = p.in;
  in.w1 = matrices_of(p.in.w1, moe_experts(p.c), from);
  in.w2 = matrices_of(p.in.w2, moe_experts(p.c), from);
  for (std::int32_t& e : in.slots.experts) e = e < 0 ? e : static_cast<std::int32_t>(to[static_cast<std::size_t>(e)]);
  Case c = p.c;
  c.experts = in.slots.routes(std::ssize(from)).offsets;
  return {c, std::move(in)};
}

// Row r of the first is row rows[r] of the other: of each route, that of its slot.
Places rows_of(const LayerRoutes& one, const LayerRoutes& other) {
  Places rows(one.row_token.size());
  for (std::size_t slot = 0; slot < one.token_rows.size(); ++slot) {
    if (one.token_rows[slot] >= 0) rows[static_cast<std::size_t>(one.token_rows[slot])] = other.token_rows[slot];
  }
  return rows;
}

Bytes rows_in(const Bytes& from, const Places& rows) {
  Bytes to;
  const std::int64_t line = rows.empty() ? 0 : std::ssize(from) / std::ssize(rows);
  for (const std::int64_t r : rows) to.insert(to.end(), from.begin() + r * line, from.begin() + (r + 1) * line);
  return to;
}

// The other problem's outputs are the first's: rows where they are now, weights' gradients by expert; `from` as above,
// and +0 for experts that are new (from number `first_new` on of those that are the same one).
std::optional<Finding> same_outputs(CheckContext& context, const MoeProblem& one, const MoeProblem& other,
                                    const Places& to, const std::string& what) {
  const MoePair pair = run_both(context, one, other);
  if (!pair.usable) return pair.finding;
  const Places rows = rows_of(one.routes, other.routes);
  for (std::size_t i = 0; i < one.outputs.size(); ++i) {
    const TensorInfo& info = one.outputs[i];
    Bytes observed = pair.after.outputs[i];
    if (info.name.front() == 'h' || info.name == "ds") observed = rows_in(observed, rows);
    if (info.name == "dw1" || info.name == "dw2") observed = matrices_of(observed, moe_experts(other.c), to);
    if (auto f = differ(info, pair.before.outputs[i], observed, info.name + " " + what)) return f;
  }
  if (!is_moe_backward(one.c.variant)) return std::nullopt;
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    const auto is_old = [&](std::int64_t e) { return std::find(to.begin(), to.end(), e) != to.end(); };
    for (std::int64_t e = 0; e < moe_experts(other.c); ++e) {
      if (is_old(e)) continue;
      const Bytes added = matrices_of(pair.after.outputs[i], moe_experts(other.c), {e});
      TensorInfo info = one.outputs[i];
      info.rows = info.rows / moe_experts(one.c);
      if (auto f = differ(info, Bytes(added.size()), added, info.name + " of an expert without tokens is not zero"))
        return f;
    }
  }
  return std::nullopt;
}

std::optional<Finding> experts_permuted(CheckContext& context, const Case& c) {
  const std::int64_t experts = moe_experts(c);
  if (experts < 2) return nothing_claimed(context);
  const MoeProblem one(c);
  Places from(static_cast<std::size_t>(experts));
  std::iota(from.begin(), from.end(), std::int64_t{0});
  std::rotate(from.begin(), from.begin() + 1 + experts / 3 % experts, from.end());
  if (c.seed % 2 == 0) std::reverse(from.begin(), from.end());
  Places to(from.size());
  for (std::size_t e = 0; e < from.size(); ++e) to[static_cast<std::size_t>(from[e])] = static_cast<std::int64_t>(e);
  return same_outputs(context, one, with_experts(one, from, to), to, "are others where experts have other numbers");
}

// Experts without tokens before, between or after the others. They have the weights of one that there is, so that a
// scale of all experts' weights stays what it is.
std::optional<Finding> experts_added(CheckContext& context, const Case& c) {
  const MoeProblem one(c);
  Places from;
  Places to;
  for (std::int64_t e = 0; e < moe_experts(c); ++e) {
    const std::int64_t before = static_cast<std::int64_t>(mix64(c.seed + static_cast<std::uint64_t>(e)) % 3) / 2;
    from.insert(from.end(), static_cast<std::size_t>(before), e);
    to.push_back(std::ssize(from));
    from.push_back(e);
  }
  if (c.seed % 2 == 0 || std::ssize(from) == moe_experts(c)) from.push_back(0);
  return same_outputs(context, one, with_experts(one, from, to), to,
                      "are others with further experts that have no tokens");
}

bool is_any(const Variant&) { return true; }

}  // namespace

std::vector<Statement> moe_expert_law_statements() {
  return {
      moe_law("permuting_experts_permutes_the_gradients_of_their_weights_and_nothing_else",
              "O, H, dX and dS are the same where experts have other numbers, and dW1 and dW2 go with them", is_any,
              experts_permuted),
      moe_law("an_expert_without_tokens_changes_nothing_and_has_gradients_of_zero",
              "further experts that no token is routed to change no output, and their dW1 and dW2 are +0", is_any,
              experts_added),
  };
}

}  // namespace mxcheck
