#include "properties/operations/moe/problem.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include "goldens/data/embedded.h"
#include "kernels/candidate_kept_weights.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/packing.h"
#include "numerics/scale/recipe.h"
#include "properties/core/check.h"
#include "properties/core/input.h"
#include "properties/core/rng.h"
#include "properties/operations/layer/tensors.h"
#include "properties/operations/moe/operation.h"
#include "reference/common/checked_size.h"
#include "reference/layer/swiglu.h"

namespace mxcheck {
namespace {

using Words = std::vector<std::uint16_t>;

GateUp order_of(const Variant& v) { return moe_of(v).gate_up == MXCHECK_HALVES ? GateUp::halves : GateUp::interleaved; }

Case case_of_moe(const Call& call) {
  const auto policy = read<mxcheck_moe_policy>(call.policy);
  Case c;
  c.variant.operation = call.operation;
  moe_of(c.variant).recipe = layer_recipe_named(policy.policy.recipe).name;
  moe_of(c.variant).gate_up = policy.gate_up;
  moe_of(c.variant).keeps_weights = call.policy.num_bytes >= sizeof(mxcheck_moe_kept_policy);
  if (policy.gate_up != MXCHECK_HALVES && policy.gate_up != MXCHECK_INTERLEAVED)
    throw Error(ErrorKind::usage, "gate_up is 0 or 1");
  c.rows = policy.policy.rows, c.cols = policy.policy.cols, c.threads = policy.policy.threads;
  moe_case(c).inner = policy.inner;
  moe_case(c).random = {policy.seed, static_cast<std::uint32_t>(policy.step), policy.layer};
  if (policy.step != 0 && policy.step >> 32 == 0) moe_case(c).zero = 4;
  if (policy.step != 0 && policy.step << 32 == 0) moe_case(c).zero = 7;
  return c;
}

// A call's inputs in order, each of the number of bytes that it must have.
class Inputs {
 public:
  explicit Inputs(const Call& call) : call_(call) {}
  template <class T>
  std::vector<T> next(std::int64_t rows, std::int64_t cols) {
    const CallTensor& t = input_number(call_, next_++);
    const std::int64_t bytes = checked_product(checked_product(rows, cols, "an input"), sizeof(T), "an input");
    if (t.bytes != static_cast<std::uint64_t>(bytes)) throw Error(ErrorKind::usage, "an input of another size");
    return values_in<T>({t.data, t.bytes});
  }
  // A vector whose length is its own.
  template <class T>
  std::vector<T> vector_of_any_length() {
    const CallTensor& t = input_number(call_, next_++);
    return values_in<T>({t.data, t.bytes});
  }
  std::vector<KeptTensor> kept(const std::string& name, const OperandRule& rule, std::int64_t rows, std::int64_t cols) {
    std::vector<KeptTensor> all;
    for (TensorInfo& info : kept_infos(name, rule, rows, cols)) {
      const auto width = static_cast<std::int64_t>(bytes_of_element(info));
      std::vector<std::byte> bytes = next<std::byte>(info.rows, checked_product(info.cols, width, "what is kept"));
      all.push_back({std::move(info), std::move(bytes)});
    }
    return all;
  }

 private:
  const Call& call_;
  std::size_t next_ = 0;
};

}  // namespace

LayerRandom random_of(const Case& c) {
  if (moe_case(c).random) return *moe_case(c).random;
  const std::uint64_t word = random_word(c.seed, 0x6D6F65);
  LayerRandom random{random_word(c.seed, 0x73656564), static_cast<std::uint32_t>(word),
                     static_cast<std::uint32_t>(word >> 48)};
  // The first layer and the first step are usual, and a seed of 0 is one like others.
  const int zero = moe_case(c).zero;
  if (zero == 1) random.seed = 0;
  if (zero == 2) random.step = 0;
  if (zero == 3) random.layer = 0;
  if (zero == 4) random = {random.seed % 1000, 1 + random.step % 1000, 1 + random.layer % 61};
  if (zero == 5) random = {0, 0, 0};
  if (zero == 6) random = {~std::uint64_t{0}, ~std::uint32_t{0}, 0xFFFF};
  if (zero == 7) random = {random.seed >> 32 << 32, 0, 1};
  return random;
}

MoeProblem::MoeProblem(const Case& from) : MoeProblem(from, expand_moe(from)) {}

MoeProblem::MoeProblem(const Case& from, MoeInputs of)
    : Problem(from), in(std::move(of)), routes(in.slots.routes(moe_experts(from))) {
  random = random_of(from);
  describe_outputs();
  if (!is_moe_backward(from.variant)) return;
  const LayerRecipe& recipe = layer_recipe_of(from.variant);
  const LayerKept kept = layer_forward(layer(), in.x, routes).kept;
  h = kept_tensors("h", recipe.kept_h, kept.h);
  x = kept_tensors("x", kept_x_rule(recipe), kept.x);
}

MoeProblem::MoeProblem(const Call& call) : Problem(case_of_moe(call)) {
  const auto policy = read<mxcheck_moe_policy>(call.policy);
  const std::int64_t d = c.cols;
  const std::int64_t n = policy.inner;
  if (policy.experts < 1 || policy.routed < 0 || policy.policy.rows < 0 || d < 1 || n < 1)
    throw Error(ErrorKind::usage, "an extent of a layer is negative, or none where one is needed");
  if (policy.layer > 0xFFFF) throw Error(ErrorKind::usage, "layer is below 65536");
  random = random_of(c);
  const LayerRecipe& recipe = layer_recipe_of(c.variant);
  Inputs inputs(call);
  (is_moe_backward(c.variant) ? in.d_o : in.x) = inputs.next<std::uint16_t>(c.rows, d);
  in.w1 = inputs.next<std::uint16_t>(checked_product(policy.experts, d, "W1"), checked_product(n, 2, "W1"));
  in.w2 = inputs.next<std::uint16_t>(checked_product(policy.experts, n, "W2"), d);
  if (is_moe_backward(c.variant)) {
    h = inputs.kept("h", recipe.kept_h, policy.routed, 2 * n);
    x = inputs.kept("x", kept_x_rule(recipe), c.rows, d);
  }
  routes.row_token = inputs.next<std::int32_t>(1, policy.routed);
  routes.row_weight = inputs.next<float>(1, policy.routed);
  routes.token_offsets = inputs.next<std::int64_t>(1, checked_product(c.rows + 1, 1, "token_offsets"));
  routes.token_rows = inputs.vector_of_any_length<std::int32_t>();
  routes.offsets = inputs.next<std::int64_t>(1, checked_product(policy.experts + 1, 1, "offsets"));
  if (routes.offsets.back() != policy.routed) throw Error(ErrorKind::usage, "the last offset is not routed");
  c.experts = routes.offsets;
  describe_outputs();
}

void MoeProblem::describe_outputs() {
  const std::int64_t n = moe_case(c).inner;
  const std::int64_t experts = moe_experts(c);
  const std::int64_t routed = moe_routed(c);
  const LayerRecipe& recipe = layer_recipe_of(c.variant);
  if (is_moe_backward(c.variant)) {
    outputs = {values_info("dx", Format::bf16, c.rows, c.cols),
               values_info("dw1", Format::fp32, experts * c.cols, 2 * n),
               values_info("dw2", Format::fp32, experts * n, c.cols), values_info("ds", Format::fp32, 1, routed)};
    outputs.back().is_vector = true;
    return;
  }
  outputs = {values_info("o", Format::bf16, c.rows, c.cols)};
  const auto add = [&](std::vector<TensorInfo> infos) {
    for (TensorInfo& info : infos) outputs.push_back(std::move(info));
  };
  add(kept_infos("h", recipe.kept_h, routed, 2 * n));
  if (recipe.keeps_quantized_x) add(kept_infos("x", kept_x_rule(recipe), c.rows, c.cols));
}

Layer MoeProblem::layer() const {
  Layer l;
  l.shape = {c.rows, c.cols, moe_case(c).inner, moe_experts(c)};
  l.recipe = &layer_recipe_of(c.variant);
  l.gate_up = order_of(c.variant);
  l.w1 = in.w1, l.w2 = in.w2;
  l.random = random;
  return l;
}

std::vector<ProblemInput> MoeProblem::inputs() const {
  const std::int64_t n = moe_case(c).inner;
  const auto matrix = [](const char* name, std::int64_t rows, std::int64_t cols, const Words& words) {
    return matrix_input(values_info(name, Format::bf16, rows, cols), words);
  };
  const bool backward = is_moe_backward(c.variant);
  std::vector<ProblemInput> all{matrix(backward ? "d_o" : "x", c.rows, c.cols, backward ? in.d_o : in.x),
                                matrix("w1", moe_experts(c) * c.cols, 2 * n, in.w1),
                                matrix("w2", moe_experts(c) * n, c.cols, in.w2)};
  for (const std::vector<KeptTensor>* kept : {&h, &x}) {
    for (const KeptTensor& t : *kept) all.push_back(matrix_input(t.info, t.bytes));
  }
  all.push_back(vector_input("row_token", routes.row_token));
  all.push_back(vector_input("row_weight", routes.row_weight));
  all.push_back(vector_input("token_offsets", routes.token_offsets));
  all.push_back(vector_input("token_rows", routes.token_rows));
  all.push_back(vector_input("offsets", routes.offsets));
  return all;
}

Call MoeProblem::call() const {
  Call call = Problem::call();
  if (keeps_weights(c.variant)) call.memory.policy_offset = offsetof(mxcheck_moe_kept_policy, kept);
  return call;
}

std::vector<ExpectedTensor> MoeProblem::answer() const { return answer_with(layer(), routes); }

std::vector<ExpectedTensor> MoeProblem::answer_with(const Layer& of, const LayerRoutes& with) const {
  const LayerRecipe& recipe = *of.recipe;
  const LayerRecipe& own = layer_recipe_of(c.variant);
  if (recipe.keeps_quantized_x != own.keeps_quantized_x || recipe.kept_h != own.kept_h) return {};
  std::vector<ExpectedTensor> answer;
  const auto add = [&](std::vector<std::byte> bytes) { answer.push_back({outputs[answer.size()], std::move(bytes)}); };
  if (is_moe_backward(c.variant)) {
    const LayerKept kept{kept_operand(kept_x_rule(recipe), x, c.rows, c.cols, true),
                         kept_operand(recipe.kept_h, h, moe_routed(c), 2 * moe_case(c).inner, false)};
    const LayerBackward b = layer_backward(of, kept, in.d_o, with);
    add(to_bytes(b.dx)), add(to_bytes(b.dw1)), add(to_bytes(b.dw2)), add(to_bytes(b.ds));
    return answer;
  }
  const LayerForward f = layer_forward(of, in.x, with);
  add(to_bytes(f.o));
  for (KeptTensor& t : kept_tensors("h", recipe.kept_h, f.kept.h)) add(std::move(t.bytes));
  if (!recipe.keeps_quantized_x) return answer;
  for (KeptTensor& t : kept_tensors("x", kept_x_rule(recipe), f.kept.x)) add(std::move(t.bytes));
  return answer;
}

namespace {

// value * 2^exponent, the product exact. Millions of weights are drawn in a run: neither ldexp nor a codec.
std::uint16_t bf16(float value, int exponent = 0) {
  return layer_bf16(value * std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23));
}
float bell(std::uint64_t word) { return static_cast<float>(four_uniforms(word) * 1.75); }  // of 20 bits
std::uint64_t place_of(std::int64_t i, std::int64_t j) { return static_cast<std::uint64_t>(i << 31 | j); }

constexpr int kRowBits = 20;  // of the place of a row among those of all experts

constexpr std::array<std::uint16_t, 12> kSpecials{0x7FC0, 0x7F80, 0xFF80, 0xFFFF, 0x8000, 0x0000,
                                                  0x0001, 0x8001, 0x0080, 0x7F7F, 0xFF7F, 0x3F80};

// The tensor of an element, which decides where the element comes from, and how large it usually is.
enum class What : std::uint8_t { x, w1, w2, d_o };

class MoeElements {
 public:
  explicit MoeElements(const Case& c) : c_(c), data_(c.data) {}

  // Element (i, j) of X, dO, and of the weights of all experts, whose rows follow one another; depth: the elements of a
  // sum that it is part of. `line` is what special values are chosen by: a token, an expert.
  [[nodiscard]] std::uint16_t at(What what, std::int64_t i, std::int64_t j, std::int64_t depth,
                                 std::int64_t line) const {
    const std::uint64_t word = random_word(salted(what), place_of(i, j));
    const bool is_weight = what == What::w1 || what == What::w2;
    switch (data_) {
      case Data::zeros: return 0;
      case Data::boundaries: return cancelling(what, i, j, depth, line);
      case Data::codes: return few_bits(what, depth, word);
      case Data::wide: return wide(what, i, word);
      case Data::sparse:
        if (random_word(salted(what) ^ 0x5BA2, place_of(i / (is_weight ? 32 : 1), j / 32)) % 4 != 0)
          return (word & 3) == 0 ? 0x8000 : 0;
        break;
      case Data::slots: return of_place(what, i, j, depth);
      case Data::every_word:
        if (!is_weight) return j == (i * 7 + static_cast<std::int64_t>(c_.seed % 1024)) % depth ? 0x3F80 : 0;
        break;
      case Data::real: return real(what, i, j);
      case Data::specials:
        if (is_special(what, line, i, j)) return kSpecials[(word >> 16) % kSpecials.size()];
        break;
      default: break;
    }
    return usual(what, i, depth, word);
  }

 private:
  [[nodiscard]] std::uint64_t salted(What what) const {
    return c_.seed ^ mix64(0x3A7E + static_cast<std::uint64_t>(what));
  }
  // log2 of what an element of this tensor is about.
  static int magnitude(What what, std::int64_t depth) {
    if (what == What::x) return 0;
    if (what == What::d_o) return -10;
    return -static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(1, depth))) / 2);
  }

  [[nodiscard]] std::uint16_t usual(What what, std::int64_t i, std::int64_t depth, std::uint64_t word) const {
    int exponent = magnitude(what, depth);
    if (what == What::w1 || what == What::w2) return bf16(bell(word), exponent);
    const std::uint64_t row = random_word(salted(what) ^ 0x2074, static_cast<std::uint64_t>(i));
    if (what == What::x) exponent += static_cast<int>(row % 4) - 2 + (mix64(word) % 256 == 0 ? 3 : 0);
    if (what == What::d_o) exponent += static_cast<int>(row % 8) - 4 + (mix64(word) % 256 == 0 ? 5 : 0);
    return bf16(bell(word), exponent);
  }

  // Experts in threes: the second has W1 of the first and -W2, the third a W2 that is 2^-18 of the others'. Rows of a
  // token cancel, so that sums in another order differ in more than the last bits of FP32, which BF16 does not show.
  [[nodiscard]] std::uint16_t cancelling(What what, std::int64_t i, std::int64_t j, std::int64_t depth,
                                         std::int64_t line) const {
    const bool is_weight = what == What::w1 || what == What::w2;
    const bool is_second = is_weight && line % 3 == 1;
    if (is_second) i -= std::int64_t{1} << kRowBits;
    const std::uint16_t element = edge(what, i, j, depth, random_word(salted(what), place_of(i, j)));
    if (what != What::w2 || line % 3 == 0) return element;
    if (is_second) return static_cast<std::uint16_t>(element ^ 0x8000);
    return bf16(std::bit_cast<float>(std::uint32_t{element} << 16), -18);
  }

  // Every 32nd element is the block's largest: 448, its neighbours in BF16, or a power of two; others are midpoints of
  // E4M3, with or without a bit below.
  [[nodiscard]] std::uint16_t edge(What what, std::int64_t i, std::int64_t j, std::int64_t depth,
                                   std::uint64_t word) const {
    const std::uint64_t tile = random_word(salted(what) ^ 0x7113, place_of(i / 32, j / 32));
    const int exponent = magnitude(what, depth) - 8 + static_cast<int>(tile % 5) - 2;
    static constexpr std::array<float, 6> kLargest{448, 450, 446, 256, 512, 464};
    const float sign = (word & 1) != 0 ? -1.0F : 1.0F;
    if ((i + j) % 32 == static_cast<std::int64_t>((tile >> 8) % 32))
      return bf16(sign * kLargest[(tile >> 16) % kLargest.size()], exponent);
    const float midpoint = 16 + static_cast<float>((word >> 8) % 16);  // of four bits: three are an E4M3 code's
    const float beside = static_cast<float>((word >> 16) % 3) - 1;
    return bf16(sign * (midpoint + beside * 0.125F), exponent + static_cast<int>((word >> 24) % 5) - 2);
  }

  static std::uint16_t few_bits(What what, std::int64_t depth, std::uint64_t word) {
    return bf16(static_cast<float>(word % 15) - 7, magnitude(what, depth) - 2);
  }

  [[nodiscard]] std::uint16_t wide(What what, std::int64_t i, std::uint64_t word) const {
    const std::uint64_t row = random_word(salted(what) ^ 0x2074, static_cast<std::uint64_t>(i));
    const int low = what == What::x ? -20 : -40;
    const int exponent = low + static_cast<int>(row % 21) + static_cast<int>((word >> 40) % 20);
    return bf16(bell(word), exponent);
  }

  [[nodiscard]] std::uint16_t of_place(What what, std::int64_t i, std::int64_t j, std::int64_t depth) const {
    const auto number = static_cast<std::uint64_t>(i * 131 + j * 17) + c_.seed;
    const int exponent = magnitude(what, depth) - static_cast<int>((i * 3 + j) % 5);
    return bf16((number % 3 == 0 ? -1.0F : 1.0F) * (128 + static_cast<float>(number % 128)), exponent - 7);
  }

  // A few columns of one row of X or dO in eight, one element in 256 of every other expert's weights.
  [[nodiscard]] bool is_special(What what, std::int64_t line, std::int64_t i, std::int64_t j) const {
    const std::uint64_t word = random_word(salted(what) ^ 0x5BEC, static_cast<std::uint64_t>(line));
    const bool is_weight = what == What::w1 || what == What::w2;
    if (is_weight ? (static_cast<std::uint64_t>(line) + c_.seed) % 2 != 0 : word % 8 != 0) return false;
    if (is_weight && (word >> 8) % 8 != static_cast<std::uint64_t>(i % 8)) return false;
    return (word >> 16) % 8 == static_cast<std::uint64_t>(j % 8) && mix64(word ^ place_of(i, j / 8)) % 4 == 0;
  }

  [[nodiscard]] std::uint16_t real(What what, std::int64_t i, std::int64_t j) const {
    static constexpr std::array<std::array<std::string_view, 2>, 4> kNames{
        {{"layer0.x", "layer3.x"}, {"layer0.w1", "layer3.w1"}, {"layer0.w2", "layer3.w2"}, {"layer0.dO", "layer3.dO"}}};
    const Tensor& t = real_tensor(kNames[static_cast<std::size_t>(what)][c_.seed % 2]);
    const std::int64_t row = (i + static_cast<std::int64_t>(c_.seed / 2 % 97)) % t.shape[0];
    return static_cast<std::uint16_t>(t.code(static_cast<std::size_t>(row * t.shape[1] + j % t.shape[1])));
  }

  const Case& c_;
  Data data_;
};

}  // namespace

MoeInputs expand_moe(const Case& c) {
  const MoeElements elements(c);
  const std::int64_t d = c.cols;
  const std::int64_t n = moe_case(c).inner;
  const std::int64_t experts = moe_experts(c);
  MoeInputs in;
  const auto tokens = [&](What what) {
    std::vector<std::uint16_t> to;
    to.reserve(static_cast<std::size_t>(c.rows * d));
    for (std::int64_t t = 0; t < c.rows; ++t) {
      for (std::int64_t j = 0; j < d; ++j) to.push_back(elements.at(what, t, j, d, t));
    }
    return to;
  };
  in.x = tokens(What::x);
  if (is_moe_backward(c.variant)) in.d_o = tokens(What::d_o);
  const bool halves = moe_of(c.variant).gate_up == MXCHECK_HALVES;
  // The same gates and up values in either order.
  const auto row_of_expert = [](std::int64_t e, std::int64_t i) { return e << kRowBits | i; };
  in.w1.reserve(static_cast<std::size_t>(experts * d * 2 * n));
  for (std::int64_t e = 0; e < experts; ++e) {
    for (std::int64_t i = 0; i < d; ++i) {
      for (std::int64_t j = 0; j < 2 * n; ++j) {
        const std::int64_t pair = halves ? j % n : j / 2;
        const bool is_up = halves ? j >= n : j % 2 == 1;
        in.w1.push_back(elements.at(What::w1, row_of_expert(e, i), pair << 1 | (is_up ? 1 : 0), d, e));
      }
    }
  }
  in.w2.reserve(static_cast<std::size_t>(experts * n * d));
  for (std::int64_t e = 0; e < experts; ++e) {
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < d; ++j) in.w2.push_back(elements.at(What::w2, row_of_expert(e, i), j, n, e));
    }
  }
  in.slots = expand_moe_slots(c);
  return in;
}

// Routes of a case: which tokens each expert has, and in which slots.

namespace {

constexpr std::uint64_t kDropped = std::uint64_t{1} << 40;  // added to a number that no expert has

std::uint64_t word_of(const Case& c, std::uint64_t salt, std::int64_t token, std::uint64_t what) {
  return random_word(c.seed ^ salt, static_cast<std::uint64_t>(token) << 44 ^ what);
}

// All tokens in an order that the salt decides.
std::vector<std::int64_t> shuffled(const Case& c, std::uint64_t salt) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(c.rows));
  std::iota(tokens.begin(), tokens.end(), std::int64_t{0});
  std::sort(tokens.begin(), tokens.end(), [&](std::int64_t a, std::int64_t b) {
    const std::uint64_t x = word_of(c, salt, a, 0);
    const std::uint64_t y = word_of(c, salt, b, 0);
    return x != y ? x < y : a < b;
  });
  return tokens;
}

// The experts of each token, ascending. With k the experts take turns in one order of the tokens, so that no token has
// more than k; without it each has an order of its own.
std::vector<std::vector<std::int32_t>> experts_of_tokens(const Case& c) {
  std::vector<std::vector<std::int32_t>> of(static_cast<std::size_t>(c.rows));
  const bool takes_turns = moe_case(c).k > 0;
  std::vector<std::int64_t> order = takes_turns ? shuffled(c, 0x70CE) : std::vector<std::int64_t>();
  std::size_t next = 0;
  for (std::int64_t e = 0; e < moe_experts(c); ++e) {
    const auto at = static_cast<std::size_t>(e);
    const auto size = static_cast<std::size_t>(c.experts[at + 1] - c.experts[at]);
    if (!takes_turns && size != 0) order = shuffled(c, mix64(static_cast<std::uint64_t>(e)) ^ 0x70CE);
    if (!takes_turns) next = 0;
    for (std::size_t i = 0; i < size; ++i, ++next)
      of[static_cast<std::size_t>(order[next % order.size()])].push_back(static_cast<std::int32_t>(e));
  }
  return of;
}

// Weights that are special: zeros, one that vanishes beside others, what no router gives.
constexpr std::array<float, 8> kWeights{0,
                                        -0.0F,
                                        -1,
                                        0x1p-149F,
                                        0x1p-100F,
                                        0x1p100F,
                                        std::numeric_limits<float>::infinity(),
                                        std::numeric_limits<float>::quiet_NaN()};

float weight_of(const Case& c, std::int64_t token, std::int32_t expert) {
  const std::uint64_t word = word_of(c, 0x3E16, token, static_cast<std::uint64_t>(expert));
  const float usual = (1 + static_cast<float>(word >> 41) * 0x1p-23F) * (word % 5 == 0 ? 0x1p-5F : 0x1p-1F);
  switch (c.data) {
    case Data::zeros: return 1;
    case Data::codes: return word % 2 == 0 ? 0.5F : 0.25F;
    case Data::specials: return (word >> 8) % 8 == 0 ? kWeights[(word >> 16) % kWeights.size()] : usual;
    case Data::wide: return usual * (word % 3 == 0 ? 0x1p-30F : 1.0F);
    case Data::boundaries: {
      static constexpr std::array<float, 6> kFew{1, 0.5F, 1 + 0x1p-23F, 0.75F, 1 - 0x1p-24F, 0x1.555556p-2F};
      return kFew[word_of(c, 0x3E16, token, kDropped) % kFew.size()];  // of all of a token's rows, which cancel
    }
    default: return usual;
  }
}

struct Slot {
  std::uint64_t key;
  std::int32_t expert;
};

// Best first is any order of experts, with dropped routes anywhere.
std::vector<Slot> slots_of_choice(const Case& c, std::int64_t token, const std::vector<std::int32_t>& experts) {
  std::vector<Slot> slots;
  for (const std::int32_t e : experts) slots.push_back({word_of(c, 0x5107, token, static_cast<std::uint64_t>(e)), e});
  for (std::uint64_t i = 0; std::ssize(slots) < moe_case(c).k; ++i)
    slots.push_back({word_of(c, 0x5107, token, kDropped + i), -1});
  std::sort(slots.begin(), slots.end(), [](const Slot& a, const Slot& b) { return a.key < b.key; });
  return slots;
}

std::vector<Slot> slots_of_rounding(const Case& c, std::int64_t token, const std::vector<std::int32_t>& experts) {
  std::vector<Slot> slots;
  for (const std::int32_t e : experts) slots.push_back({0, e});
  const std::uint64_t word = word_of(c, 0xD209, token, kDropped);
  if (word % 100 < static_cast<std::uint64_t>(moe_case(c).drops))
    slots.insert(slots.begin() + static_cast<std::ptrdiff_t>((word >> 32) % (slots.size() + 1)), {0, -1});
  return slots;
}

}  // namespace

MoeSlots expand_moe_slots(const Case& c) {
  MoeSlots all{{0}, {}, {}};
  const std::vector<std::vector<std::int32_t>> experts = experts_of_tokens(c);
  for (std::int64_t t = 0; t < c.rows; ++t) {
    const auto& of_token = experts[static_cast<std::size_t>(t)];
    for (const Slot& slot : moe_case(c).k > 0 ? slots_of_choice(c, t, of_token) : slots_of_rounding(c, t, of_token)) {
      all.experts.push_back(slot.expert);
      all.weights.push_back(weight_of(c, t, slot.expert));
    }
    all.token_offsets.push_back(std::ssize(all.experts));
  }
  return all;
}

namespace {

constexpr std::int64_t kGroup = kE5m6CodesPerGroup;
constexpr std::int64_t kGroupBytes = 4 * kE5m6WordsPerGroup;

std::size_t size_of(std::int64_t rows, std::int64_t cols) { return static_cast<std::size_t>(rows * cols); }

// Codes of more than a byte are kept packed: E5M6's.
bool is_packed(Format format) { return mxcheck::size_of(format) > 1; }

// Each row by itself, its last group filled up with zeros.
std::vector<std::byte> packed_rows(const QuantizedTensor& q) {
  const std::int64_t padded = ceil_div(q.cols(), kGroup) * kGroup;
  std::vector<std::uint16_t> codes(size_of(q.rows(), padded));
  for (std::int64_t row = 0; row < q.rows(); ++row)
    std::copy_n(q.codes.as<std::uint16_t>().begin() + row * q.cols(), q.cols(), codes.begin() + row * padded);
  return to_bytes(pack_e5m6(codes));
}

std::vector<std::byte> unpacked_rows(std::span<const std::byte> bytes, std::int64_t rows, std::int64_t cols) {
  const std::int64_t padded = ceil_div(cols, kGroup) * kGroup;
  const std::vector<std::uint16_t> all = unpack_e5m6(values_in<std::uint32_t>(bytes));
  std::vector<std::uint16_t> codes(size_of(rows, cols));
  for (std::int64_t row = 0; row < rows; ++row)
    std::copy_n(all.begin() + row * padded, cols, codes.begin() + row * cols);
  return to_bytes(codes);
}

}  // namespace

OperandRule kept_x_rule(const LayerRecipe& recipe) {
  return recipe.keeps_quantized_x ? recipe.gemm(LayerGemm::up).a : OperandRule();
}

std::vector<TensorInfo> kept_infos(const std::string& name, const OperandRule& rule, std::int64_t rows,
                                   std::int64_t cols) {
  if (!rule.quantized()) return {values_info(name, Format::bf16, rows, cols)};
  TensorInfo codes = codes_info(name + " codes", rule.format, rows, cols, rule.block.cols);
  // Bytes of twelve-bit codes, which no format names.
  if (is_packed(rule.format))
    codes = {name + " packed codes", Format::e4m3, rows, ceil_div(cols, kGroup) * kGroupBytes};
  return {codes, scales_info(name + " scales", recipe_named(rule.scales), rows, ceil_div(cols, rule.block.cols))};
}

std::vector<KeptTensor> kept_tensors(const std::string& name, const OperandRule& rule, const LayerOperand& from) {
  std::vector<TensorInfo> infos = kept_infos(name, rule, from.rows, from.cols);
  if (!rule.quantized()) return {{std::move(infos[0]), to_bytes(from.values)}};
  const QuantizedTensor& q = from.quantized;
  return {{std::move(infos[0]), is_packed(rule.format) ? packed_rows(q) : q.codes.data},
          {std::move(infos[1]), q.scales().data}};
}

LayerOperand kept_operand(const OperandRule& rule, const std::vector<KeptTensor>& from, std::int64_t rows,
                          std::int64_t cols, bool by_token) {
  LayerOperand o;
  o.rows = rows, o.cols = cols, o.by_token = by_token;
  if (!rule.quantized()) {
    o.values = values_in<std::uint16_t>(from[0].bytes);
    return o;
  }
  o.is_quantized = true;
  const ScaleRule scales = recipe_named(rule.scales).rule;
  o.quantized.codes = {
      "", rule.format, {rows, cols}, is_packed(rule.format) ? unpacked_rows(from[0].bytes, rows, cols) : from[0].bytes};
  o.quantized.levels = {
      {rule.block, scales, {"", format_of_scales(scales), {rows, ceil_div(cols, rule.block.cols)}, from[1].bytes}}};
  return o;
}

}  // namespace mxcheck
