#include "goldens/layer/layer_data.h"

#include <utility>

namespace mxcheck {
namespace {

using Shape = std::vector<std::int64_t>;

// A list of tensors that grows step by step.
class Tensors {
 public:
  std::vector<LayerTensor> all;
  std::string step;
  Role role = Role::output;

  template <class T>
  void add(const std::string& name, Shape shape, std::vector<T>& values, Dtype dtype, std::string_view format) {
    all.push_back(
        {name, step, std::string(format), role, dtype, std::move(shape), std::as_writable_bytes(std::span(values))});
  }
  void add(const std::string& name, Shape shape, std::vector<std::uint16_t>& bf16) {
    add(name, std::move(shape), bf16, Dtype::bf16, "bfloat16");
  }
  void add(const std::string& name, Shape shape, std::vector<float>& fp32) {
    add(name, std::move(shape), fp32, Dtype::f32, "float32");
  }
  void add(const std::string& name, std::vector<std::int32_t>& indices) {
    add(name, {std::ssize(indices)}, indices, Dtype::i32, "int32");
  }
  void add(const std::string& name, std::vector<std::int64_t>& offsets) {
    add(name, {std::ssize(offsets)}, offsets, Dtype::i64, "int64");
  }
  void add(const std::string& name, LayerOperand& x) {
    if (!x.is_quantized) return;
    Quantized& q = x.quantized;
    const std::string_view format = spec(q.element).dtype_name;
    if (q.element == Format::e5m6) {
      add(name + "_codes", {q.rows, q.cols}, q.codes16, Dtype::u16, format);
    } else {
      add(name + "_codes", {q.rows, q.cols}, q.codes, Dtype::u8, format);
    }
    const Shape shape{q.scale_rows, q.scale_cols};
    q.scales_fp32.empty() ? add(name + "_scales", shape, q.scales, Dtype::u8, spec(Format::e8m0).dtype_name)
                          : add(name + "_scales", shape, q.scales_fp32);
  }
};

void add_inputs(LayerData& d, Tensors& to) {
  const LayerShape& s = d.shape;
  to.step = "input", to.role = Role::input;
  to.add("X", {s.tokens, s.width}, d.x);
  to.add("W1", {s.experts, s.width, 2 * s.inner}, d.w1);
  to.add("W2", {s.experts, s.inner, s.width}, d.w2);
  to.step = "routes";
  to.add("offsets", d.routes.offsets);
  to.add("row_token", d.routes.row_token);
  to.add("row_weight", {d.rows()}, d.routes.row_weight);
  to.add("token_offsets", d.routes.token_offsets);
  to.add("token_rows", d.routes.token_rows);
  to.role = Role::output;
}

void add_forward(LayerData& d, Tensors& to) {
  const LayerShape& s = d.shape;
  LayerForward& f = d.forward;
  to.step = "up";
  to.add("up_a", f.up_a), to.add("up_b", f.up_b);
  to.add("H", {d.rows(), 2 * s.inner}, f.h);
  to.step = "swiglu";
  to.add("A", {d.rows(), s.inner}, f.a);
  to.step = "down";
  to.add("down_a", f.down_a), to.add("down_b", f.down_b);
  to.add("Y", {d.rows(), s.width}, f.y);
  to.step = "aggregate";
  to.add("O", {s.tokens, s.width}, f.o);
  to.step = "keep";
  to.add("kept_h", f.kept.h);
}

void add_backward(LayerData& d, Tensors& to) {
  const LayerShape& s = d.shape;
  LayerBackward& b = d.backward;
  to.step = "d_down", to.role = Role::input;
  to.add("dO", {s.tokens, s.width}, d.d_o);
  to.role = Role::output;
  to.add("d_down_a", b.d_down_a), to.add("d_down_b", b.d_down_b);
  to.add("P", {d.rows(), s.inner}, b.p);
  to.step = "swiglu_backward";
  to.add("A_again", {d.rows(), s.inner}, b.a);
  to.add("scaled_A", {d.rows(), s.inner}, b.scaled_a);
  to.add("dH", {d.rows(), 2 * s.inner}, b.dh);
  to.add("dS", {d.rows()}, b.ds);
  to.step = "d_w2";
  to.add("d_w2_a", b.d_w2_a), to.add("d_w2_b", b.d_w2_b);
  to.add("dW2", {s.experts, s.inner, s.width}, b.dw2);
  to.step = "d_up";
  to.add("d_up_a", b.d_up_a), to.add("d_up_b", b.d_up_b);
  to.add("dX_rows", {d.rows(), s.width}, b.dx_rows);
  to.step = "d_w1";
  to.add("d_w1_a", b.d_w1_a), to.add("d_w1_b", b.d_w1_b);
  to.add("dW1", {s.experts, s.width, 2 * s.inner}, b.dw1);
  to.step = "d_aggregate";
  to.add("dX", {s.tokens, s.width}, b.dx);
  to.step = "d_router";
  if (d.d_logits) to.add("d_logits", {s.tokens, s.experts}, *d.d_logits);
}

}  // namespace

void compute(LayerData& d) {
  d.forward = layer_forward(d.layer(), d.x, d.routes);
  if (d.has_backward) d.backward = layer_backward(d.layer(), d.forward.kept, d.d_o, d.routes);
}

std::vector<LayerTensor> tensors_of(LayerData& data) {
  Tensors to;
  add_inputs(data, to);
  add_forward(data, to);
  if (data.has_backward) add_backward(data, to);
  return std::move(to.all);
}

}  // namespace mxcheck
