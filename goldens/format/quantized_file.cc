#include "goldens/format/quantized_file.h"

#include "goldens/format/described_file.h"
#include "goldens/format/quantized_parts.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/text.h"

namespace mxcheck {

Format element_format_named(const std::string& name) {
  const std::optional<Format> format = find_format(name);
  if (format && spec(*format).is_quantized) return *format;
  throw Error(ErrorKind::usage, (format ? "'" + name + "' is not a format of block elements; these are "
                                        : "unknown format '" + name + "'; known are ") +
                                    join(kQuantizedFormats, ", ", [](Format f) { return spec(f).name; }));
}

void check_layout(ScaleLayout layout, Format element, BlockShape block, ScaleRule rule) {
  if (layout == ScaleLayout::compact) return;
  const std::string name = "layout " + std::string(to_text(layout));
  if (!has_layout(layout, block)) {
    throw Error(ErrorKind::usage, name + " holds scales of blocks of one row or one column; " + to_text(block) +
                                      " blocks need layout compact");
  }
  if (rule == ScaleRule::fp32) {
    throw Error(ErrorKind::usage, name + " holds E8M0 bytes; rules with FP32 scales need layout compact");
  }
  if (element == Format::e5m6) {
    throw Error(ErrorKind::usage, name + " belongs to matrix instructions, which have no e5m6; use layout compact");
  }
}

SafetensorsFile to_safetensors(const QuantizedFile& file, const Recipe& recipe, Format source) {
  const Quantized& q = file.matrix;
  const std::vector<NamedHead> heads = tensors_of(file, recipe.rule == ScaleRule::fp32);
  SafetensorsFile out;
  const auto add = [&](const NamedHead& t, std::vector<std::byte> data) {
    out.tensors.push_back({t.name, t.head.dtype, t.head.shape, std::move(data)});
  };
  add(heads[0], q.element == Format::e5m6 ? to_bytes(q.codes16) : to_bytes(q.codes));
  add(heads[1], scale_bytes(file));
  out.metadata = metadata_of(file, recipe, source);
  return out;
}

void write_quantized(const std::string& path, const SafetensorsFile& file,
                     const std::function<void()>& before_it_appears) {
  write_described(path, file, format_of(find_format(file.metadata.at("format")).value()), before_it_appears);
}

QuantizedFile from_safetensors(const SafetensorsFile& file, const std::string& path) {
  std::vector<NamedHead> heads;
  for (const Tensor& t : file.tensors) heads.push_back({t.name, {t.dtype, t.shape}});
  ParsedHead head = parse_quantized(file.metadata, heads, path);
  for (const Tensor& t : file.tensors) {
    if (t.name == "scales") set_scales(head, t.data);
    if (t.name == "codes" && t.dtype == Dtype::u8) head.file.matrix.codes = values_in<std::uint8_t>(t.data);
    if (t.name == "codes" && t.dtype == Dtype::u16) head.file.matrix.codes16 = values_in<std::uint16_t>(t.data);
  }
  return std::move(head.file);
}

}  // namespace mxcheck
