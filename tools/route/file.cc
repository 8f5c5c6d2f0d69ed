#include "tools/route/file.h"

#include <algorithm>
#include <filesystem>

#include "goldens/format/writer.h"
#include "numerics/error.h"
#include "tools/common/text.h"

namespace mxcheck {
namespace {

template <class T>
Tensor tensor_of(const std::string& name, Dtype dtype, std::vector<std::int64_t> shape, std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {name, dtype, std::move(shape), {bytes.begin(), bytes.end()}};
}

template <class T>
Tensor list_of(const std::string& name, Dtype dtype, const std::vector<T>& values, std::int64_t count) {
  return tensor_of(name, dtype, {count}, std::span(values).first(static_cast<std::size_t>(count)));
}
template <class T>
Tensor list_of(const std::string& name, Dtype dtype, const std::vector<T>& values) {
  return list_of(name, dtype, values, static_cast<std::int64_t>(values.size()));
}

SafetensorsFile to_safetensors(const RoutesFile& file) {
  const RoundedTokens& a = file.rounded;
  const std::int64_t rows = a.offsets.back();
  SafetensorsFile out;
  out.tensors = {list_of("chosen", Dtype::i32, a.chosen),
                 list_of("offsets", Dtype::i64, a.offsets),
                 list_of("row_token", Dtype::i32, a.row_token, rows),
                 list_of("row_weight", Dtype::f32, a.row_weight, rows),
                 list_of("token_offsets", Dtype::i64, a.token_offsets),
                 list_of("token_rows", Dtype::i32, a.token_rows, rows)};
  if (file.token_rounding.rule == TokenRoundingRule::none) {
    const std::vector<std::int64_t> shape{file.routes.tokens, file.routes.top_k};
    out.tensors.push_back(tensor_of("experts", Dtype::i32, shape, std::span(file.routes.experts)));
    out.tensors.push_back(tensor_of("weights", Dtype::f32, shape, std::span(file.routes.weights)));
    out.tensors.push_back(list_of("row_slot", Dtype::i32, file.metadata.row_slot, rows));
    out.tensors.push_back(list_of("slot_row", Dtype::i32, file.metadata.slot_row));
  }
  const Router& r = file.router;
  auto& m = out.metadata;
  m["mxcheck_file"] = "routes";
  m["file_version"] = "1";
  m["source_dtype"] = spec(file.source).dtype_name;
  m["tokens"] = std::to_string(a.tokens);
  m["expert_count"] = std::to_string(a.experts);
  m["variant"] = r.variant->name;
  m["top_k"] = std::to_string(r.top_k);
  m["groups"] = std::to_string(r.groups);
  m["groups_kept"] = std::to_string(r.groups_kept);
  m["nan"] = r.nan == NanLogits::last ? "last" : "refuse";
  m["scale"] = hexfloat(r.scale);
  m["bias"] = r.bias.empty() ? "no" : "yes";
  m["rule"] = to_text(file.token_rounding.rule);
  m["tile"] = std::to_string(file.token_rounding.tile);
  m["capacity"] = std::to_string(file.token_rounding.capacity);
  m["row_weights"] = file.token_rounding.rule == TokenRoundingRule::none ? "variant"
                     : file.token_rounding.renormalize                   ? "renorm"
                                                                         : "raw";
  m["seed"] = std::to_string(file.token_rounding.seed);
  m["layer"] = std::to_string(file.token_rounding.layer);
  m["step"] = std::to_string(file.token_rounding.step);
  return out;
}

void write_hdf5(const std::string& path, const SafetensorsFile& file) {
  GoldenInfo info;
  for (const auto& [key, value] : file.metadata) {
    if (key != "mxcheck_file") info.attributes.emplace_back(key, value);  // the writer's own
  }
  for (const Tensor& t : file.tensors) {
    const bool fp32 = t.dtype == Dtype::f32;
    const char* format = fp32 ? "float32" : t.dtype == Dtype::i32 ? "int32" : "int64";
    info.datasets.push_back({t.name, Role::output, format, fp32 ? Dtype::u32 : t.dtype, t.shape, {}});
  }
  GoldenWriter writer(path, info, {0, "routes"});
  for (std::size_t i = 0; i < file.tensors.size(); ++i) writer.append(i, file.tensors[i].data);
  writer.commit();
}

bool is_hdf5(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  return extension == ".h5" || extension == ".hdf5";
}

}  // namespace

void check_routes_output(const std::string& output, const std::vector<std::string>& inputs) {
  if (!is_hdf5(output) && std::filesystem::path(output).extension() != ".safetensors") {
    throw Error(ErrorKind::usage, output + ": name the output OUT.safetensors or OUT.h5");
  }
  std::error_code error;
  for (const std::string& input : inputs) {  // a file's name may hold colons, and one precedes the tensor's
    for (std::size_t end = input.size(); end != std::string::npos && end > 0; end = input.rfind(':', end - 1)) {
      if (std::filesystem::equivalent(input.substr(0, end), output, error) && !error) {
        throw Error(ErrorKind::usage, output + ": is an input file; choose another output");
      }
    }
  }
}

void write_routes(const std::string& output, const RoutesFile& file) {
  const SafetensorsFile tensors = to_safetensors(file);
  is_hdf5(output) ? write_hdf5(output, tensors) : write_safetensors(output, tensors);
}

}  // namespace mxcheck
