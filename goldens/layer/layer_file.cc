#include "goldens/layer/layer_file.h"

#include <algorithm>

#include "goldens/format/described_file.h"
#include "goldens/format/writer.h"
#include "goldens/layer/recipe_json.h"
#include "numerics/error.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

constexpr const char* kKind = "layer";

// Two dimensions at most: an expert's rows follow another's.
std::vector<std::int64_t> hdf5_shape(const std::vector<std::int64_t>& shape) {
  if (shape.size() < 3) return shape;
  return {shape[0] * shape[1], shape[2]};
}

Dtype hdf5_dtype(Dtype dtype) { return dtype == Dtype::f32 ? Dtype::u32 : dtype == Dtype::bf16 ? Dtype::u16 : dtype; }

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
    if (t.dtype == Dtype::u8 || t.dtype == Dtype::u16) metadata["format." + t.name] = t.format;
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
    throw Error(ErrorKind::usage, "'" + name + "' is no tensor of this run, which has " + join(all, ", ", name_of));
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

}  // namespace mxcheck
