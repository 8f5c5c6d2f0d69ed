// Weights that a layer keeps between calls (kernels/candidate_kept_weights.h): later calls give the outputs of those
// weights, whatever w1 and w2 hold by then; a check finds any change of them; memory of another layer, and memory that
// is described wrongly, is refused; and a call that is refused keeps nothing.
//
// A case is one run of calls with the same memory. The calls that they are compared with keep none.

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "kernels/candidate_kept_weights.h"
#include "properties/core/limits.h"
#include "properties/core/rng.h"
#include "properties/operations/moe/operation.h"

namespace mxcheck {
namespace {

using Words = std::vector<std::uint16_t>;

MoeProblem without_memory(const MoeProblem& p) {
  MoeProblem plain = p;
  moe_of(plain.c.variant).keeps_weights = false;
  return plain;
}

// The calls of a case, one after the other, with one memory.
class KeptCalls {
 public:
  explicit KeptCalls(const Law& law) : law_(law) {}

  // Keeps p's weights, and gives the outputs of a call that keeps none. fresh: in memory that no call has written.
  void keep(const MoeProblem& p, bool fresh, const char* what) const {
    same(p, run(p, call_of(p, p, MXCHECK_WEIGHTS_KEEP, fresh)), what);
  }
  // Gives the outputs of p, whose weights were kept, without reading them.
  void use(const MoeProblem& p, const char* what) const {
    MoeProblem hidden = p;
    const bool are_null = p.c.seed % 2 == 0;
    for (Words* words : {&hidden.in.w1, &hidden.in.w2}) std::fill(words->begin(), words->end(), std::uint16_t{0x7FC0});
    Call call = call_of(hidden, p, MXCHECK_WEIGHTS_KEPT, false);
    call.inputs[1].null_data = call.inputs[2].null_data = are_null;
    same(p, run(p, call), what);
  }
  void check(const MoeProblem& p, const char* what) const {
    same(p, run(p, call_of(p, p, MXCHECK_WEIGHTS_CHECKED, false)), what);
  }
  // The call is refused as INVALID, and nothing is written.
  void refuses(const MoeProblem& p, int mode, bool fresh, const std::string& how) const {
    refuses(p, call_of(p, p, mode, fresh), how);
  }
  // A call that would keep p's weights in memory that holds others, but for what `wrong` makes of it.
  void refuses_to_keep(const MoeProblem& p, const InvalidCall& wrong) const {
    refuses_wrong(p, MXCHECK_WEIGHTS_KEEP, wrong, "a call that would keep other weights");
  }
  // A call of this mode, but for what `wrong` makes of it.
  void refuses_wrong(const MoeProblem& p, int mode, const InvalidCall& wrong, const std::string& what) const {
    Call call = call_of(p, p, mode, false);
    if (wrong.make(call)) refuses(p, call, what + ", but " + wrong.how);
  }

 private:
  void refuses(const MoeProblem& p, const Call& call, const std::string& how) const {
    const OperationInfo* limits = law_.context().process.operation(p.c.variant.operation);
    if (limits != nullptr && !is_within_limits(p.c, *limits)) return;
    const Outcome outcome = law_.context().process.run(call);
    const bool returned = outcome.kind == OutcomeKind::returned && outcome.ended.empty();
    const bool option = outcome.status == MXCHECK_UNSUPPORTED && operation_named(p.c.variant.operation).is_option(p.c);
    if (returned && option) return;
    std::string problem;
    if (!returned) {
      problem = "crashed or did not return";
    } else if (outcome.conduct) {
      problem = *outcome.conduct;
    } else if (outcome.status == MXCHECK_OK) {
      problem = "returned MXCHECK_OK";
    } else if (!outcome.outputs_untouched || outcome.out_of_bounds) {
      problem = "refused but wrote " + outcome.out_of_bounds.value_or("to an output");
    } else if (outcome.status != MXCHECK_INVALID) {
      problem = "refused with status " + status_text(outcome.status) + ", not as INVALID";
    } else if (outcome.message.empty()) {
      problem = "refused without a message";
    }
    if (!problem.empty()) Law::broken(how + ": the candidate " + problem);
  }
  // `answered`: the problem whose outputs the call has.
  static Call call_of(const MoeProblem& p, const MoeProblem& answered, int mode, bool fresh) {
    Call call = p.call();
    edit<mxcheck_moe_kept_policy>(call.policy, [mode](mxcheck_moe_kept_policy& policy) { policy.kept.mode = mode; });
    call.memory.is_fresh = fresh;
    call.misaligned = p.c.misaligned, call.workspace = workspace_of(p.c, call.poison);
    call.answered_as = std::make_shared<const Call>(answered.call());
    return call;
  }
  [[nodiscard]] Law::Outputs run(const MoeProblem& p, const Call& call) const {
    CallOutputs got = run_call(law_.context(), call, p.c);
    if (!got.usable()) throw Law::Verdict{propagate(law_.context(), got)};
    return std::move(got.outputs);
  }
  void same(const MoeProblem& p, const Law::Outputs& observed, const char* what) const {
    law_.all_equal(p, law_.outputs(without_memory(p)), observed, what);
  }

  const Law& law_;
};

// Other tokens for the same weights.
MoeProblem with_other_tokens(const MoeProblem& p) {
  Case c = p.c;
  c.seed = mix64(c.seed) >> 16;
  c.rows = c.rows / 2 + 1;
  fit_moe(c);
  MoeInputs in = expand_moe(c);
  in.w1 = p.in.w1, in.w2 = p.in.w2;
  return {c, std::move(in)};
}

MoeProblem with_other_weights(const MoeProblem& p) {
  Case other = p.c;
  other.seed = mix64(~other.seed) >> 16;
  const MoeInputs drawn = expand_moe(other);
  MoeInputs in = p.in;
  in.w1 = drawn.w1, in.w2 = drawn.w2;
  return {p.c, std::move(in)};
}

void kept_weights_are_used(const Law& law, const Case& c) {
  const KeptCalls calls(law);
  const MoeProblem first(c);
  calls.keep(first, true, "of a call that keeps its weights are not those of a call that keeps none");
  calls.use(first, "of kept weights are not those of the weights");
  const MoeProblem tokens = with_other_tokens(first);
  calls.use(tokens, "of kept weights are not those of the weights, of other tokens than those they were kept with");
  const MoeProblem second = with_other_weights(first);
  calls.keep(second, false,
             "of a call that keeps other weights in the same memory are not those of a call that keeps none");
  calls.use(second, "of weights that were kept in place of others are not those of the weights");
}

// --- a check finds any change

// One change of the weights; false where there is nothing to change.
struct WeightChange {
  const char* how;
  bool (*make)(MoeInputs& in, const Case& c);
};

bool flip(Words& words, std::size_t at, int bit) {
  if (at >= words.size()) return false;
  words[at] = static_cast<std::uint16_t>(words[at] ^ 1U << bit);
  return true;
}
bool exchange(std::uint16_t& a, std::uint16_t& b) {
  std::swap(a, b);
  return a != b;
}
// Two elements so far apart, from the drawn one on where they differ.
bool exchange_at(Words& words, std::size_t apart, std::uint64_t drawn) {
  if (words.size() <= apart) return false;
  const std::size_t places = words.size() - apart;
  for (std::size_t i = 0; i < places; ++i) {
    const std::size_t at = (drawn + i) % places;
    if (words[at] != words[at + apart]) return exchange(words[at], words[at + apart]);
  }
  return false;
}
bool exchange_halves(Words& words, std::size_t length) {
  if (words.size() < 2 * length || length == 0) return false;
  const auto half = words.begin() + static_cast<std::ptrdiff_t>(length);
  std::swap_ranges(words.begin(), half, half);
  return !std::equal(words.begin(), half, half);
}
std::size_t some_place(const Words& words, const Case& c, std::uint64_t salt) {
  return words.empty() ? 0 : random_word(c.seed, salt) % words.size();
}
int some_bit(const Case& c, std::uint64_t salt) { return static_cast<int>(random_word(c.seed ^ 0xB17, salt) % 16); }

constexpr std::array<WeightChange, 13> kChanges{{
    {"the lowest bit of W1's first element is another", [](MoeInputs& in, const Case&) { return flip(in.w1, 0, 0); }},
    {"the lowest bit of W1's last element is another",
     [](MoeInputs& in, const Case&) { return flip(in.w1, in.w1.size() - 1, 0); }},
    {"the sign of W2's first element is another", [](MoeInputs& in, const Case&) { return flip(in.w2, 0, 15); }},
    {"the lowest bit of W2's last element is another",
     [](MoeInputs& in, const Case&) { return flip(in.w2, in.w2.size() - 1, 0); }},
    {"the sign of W2's last element is another",
     [](MoeInputs& in, const Case&) { return flip(in.w2, in.w2.size() - 1, 15); }},
    {"one bit of W1 is another",
     [](MoeInputs& in, const Case& c) { return flip(in.w1, some_place(in.w1, c, 1), some_bit(c, 1)); }},
    {"one bit of W2 is another",
     [](MoeInputs& in, const Case& c) { return flip(in.w2, some_place(in.w2, c, 2), some_bit(c, 2)); }},
    {"two neighbours in W1 are exchanged",
     [](MoeInputs& in, const Case& c) { return exchange_at(in.w1, 1, some_place(in.w1, c, 3)); }},
    {"two elements of W2 eight columns apart are exchanged",
     [](MoeInputs& in, const Case& c) { return exchange_at(in.w2, 8, some_place(in.w2, c, 4)); }},
    {"two elements of W1 a row apart are exchanged",
     [](MoeInputs& in, const Case& c) {
       return exchange_at(in.w1, static_cast<std::size_t>(2 * moe_case(c).inner), some_place(in.w1, c, 5));
     }},
    {"the first two rows of W2 are exchanged",
     [](MoeInputs& in, const Case& c) { return exchange_halves(in.w2, static_cast<std::size_t>(c.cols)); }},
    {"the first two experts' W1 are exchanged",
     [](MoeInputs& in, const Case& c) {
       return moe_experts(c) >= 2 && exchange_halves(in.w1, static_cast<std::size_t>(2 * c.cols * moe_case(c).inner));
     }},
    {"an element of W1 and one of W2 are exchanged",
     [](MoeInputs& in, const Case&) { return !in.w1.empty() && !in.w2.empty() && exchange(in.w1[0], in.w2[0]); }},
}};

void changes_are_found(const Law& law, const Case& c) {
  const KeptCalls calls(law);
  const MoeProblem kept(c);
  calls.keep(kept, true, "of a call that keeps its weights are not those of a call that keeps none");
  calls.check(kept, "of kept weights that are checked are not those of the weights");
  for (const WeightChange& change : kChanges) {
    MoeProblem other = kept;
    if (!change.make(other.in, c)) continue;
    calls.refuses(other, MXCHECK_WEIGHTS_CHECKED, false, std::string("a check where ") + change.how);
  }
  const MoeProblem other = with_other_weights(kept);
  if (other.in.w1 != kept.in.w1) calls.refuses(other, MXCHECK_WEIGHTS_CHECKED, false, "a check of other weights");
  calls.check(kept, "of kept weights after checks that failed are not those of the weights");
}

// --- memory of another layer

// Cases whose memory is not that of c, by name: three, which are others in each case.
std::vector<std::pair<std::string, Case>> unlike_layers(const CheckContext& context, const Case& c) {
  std::vector<std::pair<std::string, Case>> all;
  const auto add = [&](std::string how, const std::function<void(Case&)>& change) {
    Case other = c;
    change(other);
    fit_moe(other);
    if (other.cols != c.cols || moe_case(std::as_const(other)).inner != moe_case(c).inner ||
        other.variant != c.variant || other.experts.size() != c.experts.size())
      all.emplace_back(std::move(how), std::move(other));
  };
  const std::int64_t inner = moe_case(c).inner;
  add("cols and inner exchanged", [&](Case& o) { o.cols = inner, moe_case(o).inner = c.cols; });
  add("an expert more", [](Case& o) { o.experts.push_back(o.experts.back()); });
  if (moe_experts(c) % 2 == 0) {
    add("half as many experts of twice the inner", [&](Case& o) {
      o.experts.resize(o.experts.size() / 2 + 1);
      moe_case(o).inner = 2 * inner;
    });
  }
  // The other pass, the other order, other recipes.
  for (const Variant& v : context.variants) {
    if (!is_moe(v) || !keeps_weights(v)) continue;
    const MoeVariant& own = moe_of(c.variant);
    const int differences = int{v.operation != c.variant.operation} + int{moe_of(v).gate_up != own.gate_up} +
                            int{moe_of(v).recipe != own.recipe};
    if (differences == 1) add(to_text(v), [&](Case& o) { o.variant = v; });
  }
  constexpr std::size_t kTried = 3;
  const auto first = static_cast<std::ptrdiff_t>(random_word(c.seed, 0x6B) % std::max<std::size_t>(all.size(), 1));
  std::rotate(all.begin(), all.begin() + first, all.end());
  if (all.size() > kTried) all.resize(kTried);
  return all;
}

void memory_of_another_layer_is_refused(const Law& law, const Case& c) {
  const KeptCalls calls(law);
  const MoeProblem kept(c);
  calls.refuses(kept, MXCHECK_WEIGHTS_KEPT, true, "memory that no call has written");
  calls.keep(kept, true, "of a call that keeps its weights are not those of a call that keeps none");
  for (const auto& [how, other] : unlike_layers(law.context(), c)) {
    const int mode = kept.c.seed % 2 == 0 ? MXCHECK_WEIGHTS_KEPT : MXCHECK_WEIGHTS_CHECKED;
    calls.refuses(MoeProblem(other), mode, false, "memory of a call that had other than " + how);
  }
  calls.use(kept, "of kept weights after calls of other layers are not those of the weights");
}

// --- a call that keeps weights and is refused

// Four of the wrong routes, which are others in each case; then memory that is a byte too small.
std::vector<InvalidCall> wrong_keeps(const Case& c) {
  std::vector<InvalidCall> all = invalid_layer_routes();
  constexpr std::size_t kTried = 4;
  std::rotate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(random_word(c.seed, 0x6C) % all.size()),
              all.end());
  all.resize(kTried);
  all.push_back({"the memory is one byte too small", [](Call& call) { return call.memory.is_small = true; }});
  return all;
}

// Other weights: half of them written over the kept ones would be the same otherwise.
void refused_calls_keep_nothing(const Law& law, const Case& c) {
  const KeptCalls calls(law);
  const MoeProblem first(c);
  const MoeProblem second = with_other_weights(first);
  calls.keep(first, true, "of a call that keeps its weights are not those of a call that keeps none");
  for (const InvalidCall& wrong : wrong_keeps(c)) {
    calls.refuses_to_keep(second, wrong);
    calls.use(first, "of kept weights, after a call that would keep others was refused, are not those of the weights");
  }
  calls.check(first,
              "of kept weights that are checked, after calls that would keep others were refused, are not those "
              "of the weights");
  calls.keep(
      second, false,
      "of a call that keeps other weights, after such calls were refused, are not those of a call that keeps none");
  calls.use(second, "of weights that were kept after refused calls are not those of the weights");
}

// --- memory that is described wrongly

// Memory past a multiple of 256 bytes: half of it, which a look at the low bits of less would not see, and less.
std::vector<InvalidCall> misaligned_memory(const Case& c) {
  const auto past = [](std::uint8_t bytes) { return [bytes](Call& call) { return call.memory.past = bytes, true; }; };
  const auto less = static_cast<std::uint8_t>(1U << random_word(c.seed, 0x6D) % 7);
  return {{"the memory is 128 bytes past a multiple of 256", past(128)},
          {"the memory is less than 128 bytes past a multiple of 256", past(less)}};
}

// Any bit of the field that is reserved.
InvalidCall reserved_in_use(const Case& c) {
  const auto bit = static_cast<std::int32_t>(std::uint32_t{1} << random_word(c.seed, 0x6E) % 32);
  return {"reserved is not 0", [bit](Call& call) {
            edit<mxcheck_moe_kept_policy>(call.policy, [bit](mxcheck_moe_kept_policy& p) { p.kept.reserved = bit; });
            return true;
          }};
}

// Memory at another place holds nothing that a call could use: only one that keeps weights there shows whether the
// library looks at the place.
void wrong_memory_is_refused(const Law& law, const Case& c) {
  const KeptCalls calls(law);
  const MoeProblem kept(c);
  const MoeProblem other = with_other_weights(kept);
  calls.keep(kept, true, "of a call that keeps its weights are not those of a call that keeps none");
  for (const InvalidCall& wrong : misaligned_memory(c)) calls.refuses_to_keep(other, wrong);
  const InvalidCall reserved = reserved_in_use(c);
  calls.refuses_to_keep(other, reserved);
  calls.refuses_wrong(kept, MXCHECK_WEIGHTS_KEPT, reserved, "a call that would use kept weights");
  calls.refuses_wrong(kept, MXCHECK_WEIGHTS_CHECKED, reserved, "a call that would check kept weights");
  calls.use(kept, "of kept weights, after calls with wrong memory were refused, are not those of the weights");
}

// Widths are multiples of 128, which every library takes. Tokens beyond 256 and few after them are computed in another
// way by some.
std::vector<Case> kept_corners(const Variant& v, Suite suite) {
  std::vector<Case> cases{moe_corner(v, 19, 128, 128, {0, 7, 0, 19}, 2, Data::normal, 1),
                          moe_corner(v, 5, 128, 256, {5, 3}, 2, Data::boundaries, 2)};
  const bool is_usual = moe_of(v).recipe == "dsv3" && moe_of(v).gate_up == MXCHECK_HALVES;
  if (suite == Suite::quick && !is_usual) return cases;
  cases.push_back(moe_corner(v, 300, 256, 128, {300, 1, 130}, 2, Data::normal, 3));
  if (suite == Suite::quick) return cases;
  cases.push_back(moe_corner(v, 3, 128, 128, {0, 0}, 2, Data::specials, 4));
  return cases;
}

Statement kept_law(std::string_view name, std::string_view sentence, LawCheck* check) {
  Statement s = law_statement(
      name, sentence, "kernels/candidate_kept_weights.h",
      [](const Variant& v, std::span<const Variant> offered) {
        if (!is_moe(v) || !keeps_weights(v)) return false;
        Variant plain = v;
        moe_of(plain).keeps_weights = false;
        return offers(offered, plain);
      },
      {Data::normal, Data::normal, Data::slots, Data::boundaries, Data::specials}, 30, false, check);
  s.corners = kept_corners;
  return s;
}

}  // namespace

std::vector<Statement> moe_kept_weights_statements() {
  return {
      kept_law("kept_weights_give_the_layer_of_the_weights",
               "a call that keeps weights, and calls that use them with any tokens, give the bits of calls that keep "
               "none; weights that are kept in place of others are used from then on",
               kept_weights_are_used),
      kept_law("a_check_of_kept_weights_finds_any_change",
               "a check of kept weights refuses w1 and w2 of which one bit differs or two elements are exchanged as "
               "INVALID and writes nothing, and accepts the weights that were kept",
               changes_are_found),
      kept_law("kept_weights_of_another_layer_are_refused",
               "memory that no call has written, or one of another operation, recipe, order or shape, is refused as "
               "INVALID, nothing is written, and what was kept stays",
               memory_of_another_layer_is_refused),
      kept_law("a_refused_call_keeps_no_weights",
               "a call that would keep other weights and is refused, for wrong routes or too little memory, leaves the "
               "memory as it was: later calls give the bits of the weights that it holds, and a check accepts them",
               refused_calls_keep_nothing),
      kept_law("wrong_memory_for_kept_weights_is_refused",
               "memory for kept weights that begins at no multiple of 256 bytes, and a reserved field that is not 0, "
               "are refused as INVALID, nothing is written, and what was kept stays",
               wrong_memory_is_refused),
  };
}

}  // namespace mxcheck
