#include "goldens/layer/layer_file.h"

#include <algorithm>
#include <utility>

#include "goldens/format/described_file.h"
#include "goldens/format/writer.h"
#include "goldens/layer/recipe_json.h"
#include "numerics/error.h"
#include "numerics/names.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

constexpr const char* kKind = "layer";

// Two dimensions at most: an expert's rows follow another's.
std::vector<std::int64_t> hdf5_shape(const std::vector<std::int64_t>& shape) {
  if (shape.size() < 3) return shape;
  return {shape[0] * shape[1], shape[2]};
}

Format hdf5_dtype(Format dtype) {
  return dtype == Format::fp32 ? Format::uint32 : dtype == Format::bf16 ? Format::uint16 : dtype;
}

void write_hdf5(const std::string& path, const std::vector<LayerTensor>& tensors,
                const std::map<std::string, std::string>& metadata, const std::function<void()>& before_it_appears) {
  GoldenInfo info;
  for (const auto& [key, value] : metadata) info.attributes.emplace_back(key, value);
  info.datasets = layer_datasets(tensors);
  GoldenWriter writer(path, info, {0, kKind});
  for (std::size_t i = 0; i < tensors.size(); ++i) writer.append(i, tensors[i].data);
  writer.commit(before_it_appears);
}

void write_safetensors(const std::string& path, const std::vector<LayerTensor>& tensors,
                       std::map<std::string, std::string> metadata, const std::function<void()>& before_it_appears) {
  std::vector<NamedHead> heads;
  metadata["mxcheck_file"] = kKind;
  for (const LayerTensor& t : tensors) {
    heads.push_back({t.name, {t.dtype, t.shape}});
    if (t.dtype == Format::uint8 || t.dtype == Format::uint16) metadata["format." + t.name] = t.format;
  }
  SafetensorsWriter writer(path, heads, metadata);
  for (std::size_t i = 0; i < tensors.size(); ++i) writer.append(i, tensors[i].data);
  writer.commit(before_it_appears);
}

}  // namespace

std::map<std::string, std::string> layer_metadata(const LayerData& d) {
  std::map<std::string, std::string> m = layer_recipe_attributes(d.recipe);
  m["file_version"] = "1";
  m["tokens"] = std::to_string(d.shape.tokens);
  m["width"] = std::to_string(d.shape.width);
  m["inner"] = std::to_string(d.shape.inner);
  m["experts"] = std::to_string(d.shape.experts);
  m["rows"] = std::to_string(d.rows());
  m["gate_up"] = d.gate_up == GateUp::halves ? "halves" : "interleaved";
  if (is_stochastic(d.recipe)) {
    m["random_seed"] = std::to_string(d.random.seed);
    m["random_step"] = std::to_string(d.random.step);
    m["random_layer"] = std::to_string(d.random.layer);
  }
  return m;
}

std::vector<DatasetInfo> layer_datasets(const std::vector<LayerTensor>& tensors) {
  std::vector<DatasetInfo> all;
  for (const LayerTensor& t : tensors) {
    all.push_back({t.name,
                   t.role,
                   t.format,
                   hdf5_dtype(t.dtype),
                   hdf5_shape(t.shape),
                   {{"step", t.step}, {"shape", shape_to_text(t.shape)}}});
  }
  return all;
}

std::vector<LayerTensor> tensors_named(LayerData& data, const std::vector<std::string>& only) {
  std::vector<LayerTensor> all = tensors_of(data);
  const auto name_of = [](const LayerTensor& t) { return t.name; };
  for (const std::string& name : only) {
    if (std::any_of(all.begin(), all.end(), [&](const LayerTensor& t) { return t.name == name; })) continue;
    throw Error(ErrorKind::usage, "'" + name + "' is no tensor of this run, which has " + join(all, ", ", name_of) +
                                      did_you_mean(name, names_in(all)));
  }
  std::erase_if(all, [&](const LayerTensor& t) {
    return !only.empty() && std::find(only.begin(), only.end(), t.name) == only.end();
  });
  return all;
}

void write_layer(const std::string& path, LayerData& data, const std::vector<std::string>& only,
                 const std::map<std::string, std::string>& about, const std::function<void()>& before_it_appears) {
  const std::vector<LayerTensor> tensors = tensors_named(data, only);
  std::map<std::string, std::string> metadata = layer_metadata(data);
  metadata.insert(about.begin(), about.end());
  is_hdf5_path(path) ? write_hdf5(path, tensors, metadata, before_it_appears)
                     : write_safetensors(path, tensors, metadata, before_it_appears);
}

namespace {

using Shape = std::vector<std::int64_t>;

// A list of tensors that grows step by step.
class Tensors {
 public:
  std::vector<LayerTensor> all;
  std::string step;
  Role role = Role::output;

  template <class T>
  void add(const std::string& name, Shape shape, std::vector<T>& values, Format dtype, std::string_view format) {
    all.push_back(
        {name, step, std::string(format), role, dtype, std::move(shape), std::as_writable_bytes(std::span(values))});
  }
  void add(const std::string& name, Shape shape, std::vector<std::uint16_t>& bf16) {
    add(name, std::move(shape), bf16, Format::bf16, "bfloat16");
  }
  void add(const std::string& name, Shape shape, std::vector<float>& fp32) {
    add(name, std::move(shape), fp32, Format::fp32, "float32");
  }
  void add(const std::string& name, std::vector<std::int32_t>& indices) {
    add(name, {std::ssize(indices)}, indices, Format::int32, "int32");
  }
  void add(const std::string& name, std::vector<std::int64_t>& offsets) {
    add(name, {std::ssize(offsets)}, offsets, Format::int64, "int64");
  }
  void add(const std::string& name, LayerOperand& x) {
    if (!x.is_quantized) return;
    if (!x.rotated.empty()) add(name + "_rotated", {x.rows, x.cols}, x.rotated);
    add(name + "_codes", x.quantized.codes);
    add(name + "_scales", x.quantized.scales());
    if (x.quantized.levels.size() > 1) add(name + "_outer", x.quantized.levels[1].scales);
  }
  void add(const std::string& name, Tensor& t) {
    add(name, t.shape, t.data, t.format == Format::fp32 ? t.format : bits_of(t.format), spec(t.format).dtype_name);
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
