#include "goldens/format/quantized_file.h"

#include <iterator>

#include "goldens/format/described_file.h"
#include "goldens/format/offsets.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/scale/recipe_words.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::input, path + ": " + what);
}

// tcgen05 tiles are bytes, DeepGEMM's scales words of four.
Dtype dtype_of(ScaleLayout layout) { return layout == ScaleLayout::deepgemm ? Dtype::u32 : Dtype::u8; }
std::vector<std::int64_t> flat_shape(ScaleLayout layout, std::int64_t bytes) {
  return {bytes / static_cast<std::int64_t>(size_of(dtype_of(layout)))};
}

Tensor scales_tensor(const QuantizedFile& file) {
  const Quantized& q = file.matrix;
  const std::vector<std::int64_t> compact{q.scale_rows, q.scale_cols};
  if (!q.scales_fp32.empty()) return {"scales", Dtype::f32, compact, to_bytes(q.scales_fp32)};
  if (file.layout == ScaleLayout::compact) return {"scales", Dtype::u8, compact, to_bytes(q.scales)};
  // Nothing to lay out, however many rows of nothing there are.
  if (q.scales.empty()) return {"scales", dtype_of(file.layout), {0}, {}};
  const auto bytes = to_layout(file.layout, scale_shape(q, file.offsets), q.scales, file.pad_byte);
  return {"scales", dtype_of(file.layout), flat_shape(file.layout, std::ssize(bytes)), to_bytes(bytes)};
}

std::map<std::string, std::string> metadata_of(const QuantizedFile& file, const Recipe& recipe, Format source) {
  const Quantized& q = file.matrix;
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : describe(recipe)) metadata[key] = value;
  metadata["mxcheck_file"] = "quantized";
  metadata["file_version"] = "1";
  metadata["format"] = spec(q.element).name;
  metadata["block"] = to_text(q.block);
  metadata["layout"] = to_text(file.layout);
  metadata["pad_byte"] = std::to_string(file.pad_byte);
  metadata["rows"] = std::to_string(q.rows);
  metadata["cols"] = std::to_string(q.cols);
  metadata["scale_rows"] = std::to_string(q.scale_rows);
  metadata["scale_cols"] = std::to_string(q.scale_cols);
  metadata["offsets"] = offsets_to_text(file.offsets);
  metadata["source_dtype"] = spec(source).dtype_name;
  return metadata;
}

// The tensors of a file whose matrix has a shape and nothing else yet.
std::vector<NamedHead> tensors_of(const QuantizedFile& file, bool fp32) {
  const Quantized& q = file.matrix;
  const TensorHead codes{q.element == Format::e5m6 ? Dtype::u16 : Dtype::u8, {q.rows, q.cols}};
  TensorHead scales{fp32 ? Dtype::f32 : Dtype::u8, {q.scale_rows, q.scale_cols}};
  if (file.layout != ScaleLayout::compact) {
    const bool empty = q.rows == 0 || q.cols == 0;
    const std::int64_t bytes = empty ? 0 : layout_bytes(file.layout, scale_shape(q, file.offsets));
    scales = {dtype_of(file.layout), flat_shape(file.layout, bytes)};
  }
  return {{"codes", codes}, {"scales", scales}};
}

FormatOf format_of(Format element) {
  return [element](const NamedHead& t) {
    const Format format = t.name == "codes" ? element : t.head.dtype == Dtype::f32 ? Format::fp32 : Format::e8m0;
    return spec(format).dtype_name;
  };
}

// The metadata of a file from outside, each value checked as it is taken.
class Metadata {
 public:
  Metadata(const std::map<std::string, std::string>& map, const std::string& path) : map_(map), path_(path) {}

  const std::string& text(const std::string& key) const {
    const auto found = map_.find(key);
    if (found == map_.end()) refuse(path_, "its metadata has no '" + key + "'");
    return found->second;
  }
  std::int64_t size(const std::string& key) const {
    const auto number = parse_number<std::int64_t>(text(key));
    if (!number || *number < 0) refuse(path_, "metadata '" + key + "' is '" + text(key) + "', which is no size");
    return *number;
  }
  template <class Table>
  auto word(const std::string& key, const Table& table) const {
    if (const auto value = value_in(table, text(key))) return *value;
    refuse(path_, "metadata '" + key + "' is '" + text(key) + "', which is not known");
  }

 private:
  const std::map<std::string, std::string>& map_;
  const std::string& path_;
};

void check_tensor_is(const Tensor& tensor, Dtype dtype, const std::vector<std::int64_t>& shape,
                     const std::string& path) {
  if (tensor.dtype == dtype && tensor.shape == shape) return;
  refuse(path, "'" + tensor.name + "' is " + safetensors_name(tensor.dtype) + " [" + shape_to_text(tensor.shape) + "]" +
                   "; by the metadata it should be " + safetensors_name(dtype) + " [" + shape_to_text(shape) + "]");
}

void take_scales(QuantizedFile& file, bool fp32, const Tensor& scales, const std::string& path) {
  Quantized& q = file.matrix;
  const std::vector<std::int64_t> compact{q.scale_rows, q.scale_cols};
  if (fp32) {
    check_tensor_is(scales, Dtype::f32, compact, path);
    q.scales_fp32 = values_in<float>(scales.data);
  } else if (file.layout == ScaleLayout::compact) {
    check_tensor_is(scales, Dtype::u8, compact, path);
    q.scales = values_in<std::uint8_t>(scales.data);
  } else if (q.rows == 0 || q.cols == 0) {
    check_tensor_is(scales, dtype_of(file.layout), {0}, path);
  } else {
    const ScaleShape shape = scale_shape(q, file.offsets);
    check_tensor_is(scales, dtype_of(file.layout), flat_shape(file.layout, layout_bytes(file.layout, shape)), path);
    q.scales = from_layout(file.layout, shape, values_in<std::uint8_t>(scales.data));
  }
}

QuantizedFile parse(const SafetensorsFile& file, const std::string& path) {
  const Metadata meta(file.metadata, path);
  QuantizedFile out;
  Quantized& q = out.matrix;
  const auto rule = find_scale_rule(meta.text("rule"));
  if (!rule) refuse(path, "metadata 'rule' is '" + meta.text("rule") + "', which is not known");
  q.element = element_format_named(meta.text("format"));
  q.block = block_shape_named(meta.text("block"));
  out.layout = meta.word("layout", kScaleLayouts);
  check_layout(out.layout, q.element, q.block, *rule);
  const std::int64_t pad = meta.size("pad_byte");
  if (pad > 255) refuse(path, "metadata 'pad_byte' is over 255");
  out.pad_byte = static_cast<std::uint8_t>(pad);
  q.rows = meta.size("rows");
  q.cols = meta.size("cols");
  if (!meta.text("offsets").empty()) out.offsets = parse_offsets(meta.text("offsets"), path + ": metadata 'offsets'");
  check_offsets(out.offsets, q.rows);

  const Tensor* codes = nullptr;
  const Tensor* scales = nullptr;
  for (const Tensor& t : file.tensors) {
    if (t.name == "codes") codes = &t;
    if (t.name == "scales") scales = &t;
  }
  if (codes == nullptr || scales == nullptr || file.tensors.size() != 2) {
    refuse(path, "it should hold the tensors 'codes' and 'scales' and no others");
  }
  const bool wide = q.element == Format::e5m6;
  check_tensor_is(*codes, wide ? Dtype::u16 : Dtype::u8, {q.rows, q.cols}, path);
  q.scale_rows = count_scale_rows(q.rows, q.block.rows, out.offsets);
  q.scale_cols = q.block.cols == 0 ? std::int64_t{q.cols > 0} : q.cols / q.block.cols + (q.cols % q.block.cols != 0);
  if (q.scale_rows != meta.size("scale_rows") || q.scale_cols != meta.size("scale_cols")) {
    refuse(path, "its metadata's scale_rows and scale_cols should be " + std::to_string(q.scale_rows) + " and " +
                     std::to_string(q.scale_cols));
  }
  if (wide) {
    q.codes16 = values_in<std::uint16_t>(codes->data);
  } else {
    q.codes = values_in<std::uint8_t>(codes->data);
  }
  take_scales(out, *rule == ScaleRule::fp32, *scales, path);
  return out;
}

}  // namespace

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
  SafetensorsFile out;
  const std::vector<std::int64_t> shape{q.rows, q.cols};
  out.tensors.push_back(q.element == Format::e5m6 ? Tensor{"codes", Dtype::u16, shape, to_bytes(q.codes16)}
                                                  : Tensor{"codes", Dtype::u8, shape, to_bytes(q.codes)});
  out.tensors.push_back(scales_tensor(file));
  // An empty matrix has no vector of either kind of scales to tell them apart by.
  if (recipe.rule == ScaleRule::fp32) out.tensors.back().dtype = Dtype::f32;
  out.metadata = metadata_of(file, recipe, source);
  return out;
}

void write_quantized(const std::string& path, const SafetensorsFile& file) {
  write_described(path, file, format_of(find_format(file.metadata.at("format")).value()));
}

QuantizedWriter::QuantizedWriter(const std::string& path, QuantizedFile head, const Recipe& recipe, Format source)
    : file_(std::move(head)),
      writer_(path, tensors_of(file_, recipe.rule == ScaleRule::fp32), metadata_of(file_, recipe, source),
              format_of(file_.matrix.element)) {}

void QuantizedWriter::append_codes(std::span<const std::byte> rows) { writer_.append(0, rows); }

void QuantizedWriter::append_scales(std::vector<std::uint8_t> e8m0, std::vector<float> fp32) {
  file_.matrix.scales = std::move(e8m0), file_.matrix.scales_fp32 = std::move(fp32);
  if (file_.layout == ScaleLayout::compact && file_.matrix.scales_fp32.empty())
    return writer_.append(1, std::as_bytes(std::span(file_.matrix.scales)));
  writer_.append(1, scales_tensor(file_).data);
}

void QuantizedWriter::commit() { writer_.commit(); }

QuantizedFile from_safetensors(SafetensorsFile file, const std::string& path) {
  const auto kind = file.metadata.find("mxcheck_file");
  if (kind == file.metadata.end() || kind->second != "quantized") {
    refuse(path, "not a file of mxcheck quantize: its metadata lacks mxcheck_file = quantized");
  }
  const std::string& version = file.metadata["file_version"];
  if (version != "1") refuse(path, "file_version is '" + version + "'; this mxcheck reads 1");
  try {
    return parse(file, path);
  } catch (const Error& e) {  // of the reference, which knows no file
    const std::string text = e.what();
    throw Error(e.kind(), text.compare(0, path.size(), path) == 0 ? text : path + ": " + text);
  }
}

}  // namespace mxcheck
