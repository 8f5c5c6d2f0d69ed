#include "goldens/io/routes_file.h"

#include "goldens/format/described_file.h"
#include "numerics/bytes.h"
#include "numerics/scale/recipe_words.h"

namespace mxcheck {
namespace {

template <class T>
Tensor list_of(const std::string& name, Dtype dtype, const std::vector<T>& values, std::int64_t count) {
  return {name, dtype, {count}, to_bytes(std::span(values).first(static_cast<std::size_t>(count)))};
}
template <class T>
Tensor list_of(const std::string& name, Dtype dtype, const std::vector<T>& values) {
  return list_of(name, dtype, values, static_cast<std::int64_t>(values.size()));
}

void add_padded(const RouteMetadata& m, SafetensorsFile& out) {
  const std::int64_t rows = m.offsets.back();
  out.tensors.push_back(list_of("padded_offsets", Dtype::i64, m.offsets));
  out.tensors.push_back(list_of("padded_row_slot", Dtype::i32, m.row_slot, rows));
  out.tensors.push_back(list_of("padded_row_token", Dtype::i32, m.row_token, rows));
  out.tensors.push_back(list_of("padded_row_expert", Dtype::i32, m.row_expert, rows));
  out.tensors.push_back(list_of("padded_slot_row", Dtype::i32, m.slot_row));
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
    out.tensors.push_back(Tensor{"experts", Dtype::i32, shape, to_bytes(file.routes.experts)});
    out.tensors.push_back(Tensor{"weights", Dtype::f32, shape, to_bytes(file.routes.weights)});
    out.tensors.push_back(list_of("row_slot", Dtype::i32, file.metadata.row_slot, rows));
    out.tensors.push_back(list_of("slot_row", Dtype::i32, file.metadata.slot_row));
  }
  if (file.padded) add_padded(*file.padded, out);
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

}  // namespace

void write_routes(const std::string& output, const RoutesFile& file, const std::function<void()>& before_it_appears) {
  const auto format_of = [](const NamedHead& t) {
    return t.head.dtype == Dtype::f32 ? "float32" : t.head.dtype == Dtype::i32 ? "int32" : "int64";
  };
  write_described(output, to_safetensors(file), format_of, before_it_appears);
}

}  // namespace mxcheck
