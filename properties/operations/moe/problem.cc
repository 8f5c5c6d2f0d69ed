#include "properties/operations/moe/problem.h"

#include <algorithm>
#include <utility>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "properties/core/check.h"
#include "properties/operations/layer/tensors.h"
#include "properties/operations/moe/operation.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

using Words = std::vector<std::uint16_t>;

GateUp order_of(const Variant& v) { return moe_of(v).gate_up == MXCHECK_HALVES ? GateUp::halves : GateUp::interleaved; }

CallTensor bf16_tensor(const Words& words, std::int64_t rows, std::int64_t cols) {
  CallTensor t;
  t.dtype = Format::bf16;
  t.shape = {rows, cols};
  t.data = reinterpret_cast<const std::byte*>(words.data());
  t.bytes = words.size() * sizeof(words[0]);
  return t;
}

Case case_of_moe(const Call& call) {
  const auto policy = read<mxcheck_moe_policy>(call.policy);
  Case c;
  c.variant.operation = call.operation;
  moe_of(c.variant).recipe = layer_recipe_named(policy.policy.recipe).name;
  moe_of(c.variant).gate_up = policy.gate_up;
  if (policy.gate_up != MXCHECK_HALVES && policy.gate_up != MXCHECK_INTERLEAVED)
    throw Error(ErrorKind::usage, "gate_up is 0 or 1");
  c.rows = policy.policy.rows, c.cols = policy.policy.cols, c.threads = policy.policy.threads;
  moe_case(c).inner = policy.inner;
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

MoeProblem::MoeProblem(const Case& from) : MoeProblem(from, expand_moe(from)) {}

MoeProblem::MoeProblem(const Case& from, MoeInputs of)
    : Problem(from), in(std::move(of)), routes(in.slots.routes(moe_experts(from))) {
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
  return l;
}

Call MoeProblem::call() const {
  const std::int64_t n = moe_case(c).inner;
  const bool backward = is_moe_backward(c.variant);
  Call call;
  call.operation = c.variant.operation;
  call.policy = operation_named(c.variant.operation).policy(c);
  call.inputs = {bf16_tensor(backward ? in.d_o : in.x, c.rows, c.cols),
                 bf16_tensor(in.w1, moe_experts(c) * c.cols, 2 * n), bf16_tensor(in.w2, moe_experts(c) * n, c.cols)};
  for (const KeptTensor& t : h) call.inputs.push_back(t.call_tensor());
  for (const KeptTensor& t : x) call.inputs.push_back(t.call_tensor());
  call.inputs.push_back(index_tensor(routes.row_token));
  call.inputs.push_back(fp32_tensor(routes.row_weight, {std::ssize(routes.row_weight)}));
  call.inputs.push_back(offsets_tensor(routes.token_offsets));
  call.inputs.push_back(index_tensor(routes.token_rows));
  call.inputs.push_back(offsets_tensor(routes.offsets));
  for (const TensorInfo& info : outputs) call.outputs.push_back(output_tensor(info, info.name == "ds"));
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

std::vector<SavedTensor> MoeProblem::saved() const {
  const std::int64_t n = moe_case(c).inner;
  std::vector<SavedTensor> saved;
  if (is_moe_backward(c.variant)) {
    save(saved, values_info("d_o", Format::bf16, c.rows, c.cols), to_bytes(in.d_o));
    for (const std::vector<KeptTensor>* kept : {&h, &x}) {
      for (const KeptTensor& t : *kept) save(saved, t.info, t.bytes);
    }
  } else {
    save(saved, values_info("x", Format::bf16, c.rows, c.cols), to_bytes(in.x));
  }
  save(saved, values_info("w1", Format::bf16, moe_experts(c) * c.cols, 2 * n), to_bytes(in.w1));
  save(saved, values_info("w2", Format::bf16, moe_experts(c) * n, c.cols), to_bytes(in.w2));
  save_vector(saved, "row_token", routes.row_token);
  save_vector(saved, "row_weight", routes.row_weight);
  save_vector(saved, "token_offsets", routes.token_offsets);
  save_vector(saved, "token_rows", routes.token_rows);
  save_vector(saved, "offsets", routes.offsets);
  return saved;
}

}  // namespace mxcheck
