#include "goldens/format/quantized_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "goldens/format/described_file.h"
#include "goldens/format/offsets.h"
#include "goldens/format/quantized_stream.h"
#include "goldens/io/byte_source.h"
#include "goldens/io/readers.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/names.h"
#include "numerics/scale/recipe_words.h"
#include "numerics/text.h"

namespace mxcheck {

// Private to goldens/format/: what quantized files consist of, for those written and read whole (quantized_file.h) and
// those in pieces (quantized_stream.h).

std::map<std::string, std::string> metadata_of(const QuantizedFile& file, const Recipe& recipe, Format source);

// The tensors codes and scales, and tensor_scale of two levels, of a file whose matrix has a shape and need have
// nothing else yet.
std::vector<NamedHead> tensors_of(const QuantizedFile& file);
FormatOf format_of(Format element, Format scale);

// The bytes of the tensor scales, laid out.
std::vector<std::byte> scale_bytes(const QuantizedFile& file);

// The metadata of a file from outside, parsed: shapes and formats of codes and scales, which are empty yet.
// Error{input} where it contradicts itself, or the tensors are not those that it describes; path is for messages.
QuantizedFile parse_quantized(const std::map<std::string, std::string>& metadata, std::span<const NamedHead> tensors,
                              const std::string& path);
void set_scales(QuantizedFile& file, std::span<const std::byte> bytes);  // of the tensor scales
namespace {

constexpr const char* kOuterScales = "tensor_scale";
// Metadata tensor_scale_of: whether there is an outer scale for each row.
constexpr std::array<Named<bool>, 2> kOuterBlocks{{{"tensor", false}, {"row", true}}};

}  // namespace

Format element_format_named(const std::string& name) {
  const std::optional<Format> format = find_format(name);
  if (format && spec(*format).is_quantized) return *format;
  const auto name_of = [](Format f) { return spec(f).name; };
  throw Error(ErrorKind::usage, format
                                    ? "'" + name + "' is not a format of block elements; these are " +
                                          join(kQuantizedFormats, ", ", name_of)
                                    : "unknown format '" + name + "'" + known_names(name, kQuantizedFormats, name_of));
}

void check_layout(ScaleLayout layout, Format element, BlockShape block, ScaleRule rule) {
  if (layout == ScaleLayout::compact) return;
  const std::string name = "layout " + std::string(to_text(layout));
  if (!has_layout(layout, block)) {
    throw Error(ErrorKind::usage, name + " holds scales of blocks of one row or one column; " + to_text(block) +
                                      " blocks need layout compact");
  }
  if (rule == ScaleRule::fp32) {
    throw Error(ErrorKind::usage, name + " holds bytes; rules with FP32 scales need layout compact");
  }
  if (rule == ScaleRule::e4m3 && layout == ScaleLayout::deepgemm) {
    throw Error(ErrorKind::usage, name + " holds E8M0 bytes; E4M3 scales need layout compact or tcgen05");
  }
  if (!spec(element).is_element) {
    throw Error(ErrorKind::usage, name + " belongs to matrix instructions, which have no " +
                                      std::string(spec(element).name) + "; use layout compact");
  }
}

SafetensorsFile to_safetensors(const QuantizedFile& file, const Recipe& recipe, Format source) {
  const QuantizedTensor& q = file.matrix;
  const std::vector<NamedHead> heads = tensors_of(file);
  SafetensorsFile out;
  const auto add = [&](const NamedHead& t, std::vector<std::byte> data) {
    out.tensors.push_back({t.name, t.head.dtype, t.head.shape, std::move(data)});
  };
  add(heads[0], q.codes.data);
  add(heads[1], scale_bytes(file));
  if (q.levels.size() > 1) add(heads[2], q.levels[1].scales.data);
  out.metadata = metadata_of(file, recipe, source);
  return out;
}

void write_quantized(const std::string& path, const SafetensorsFile& file,
                     const std::function<void()>& before_it_appears) {
  const ScaleRule rule = find_scale_rule(file.metadata.at("rule")).value();
  const FormatOf formats = format_of(find_format(file.metadata.at("format")).value(), format_of_scales(rule));
  write_described(path, file, formats, before_it_appears);
}

QuantizedFile from_safetensors(const SafetensorsFile& file, const std::string& path) {
  std::vector<NamedHead> heads;
  for (const Tensor& t : file.tensors) heads.push_back({t.name, {t.format, t.shape}});
  QuantizedFile out = parse_quantized(file.metadata, heads, path);
  for (const Tensor& t : file.tensors) {
    if (t.name == "scales") set_scales(out, t.data);
    if (t.name == "codes") out.matrix.codes.data = t.data;
    if (t.name == kOuterScales) out.matrix.levels.at(1).scales.data = t.data;
  }
  return out;
}

void check_quantized_path(const std::string& path, const std::string& command) {
  constexpr std::string_view kExtension = ".safetensors";
  const std::string needed = command + " takes OUT.safetensors of mxcheck quantize, which has codes and scales";
  const std::size_t colon = path.find(std::string(kExtension) + ":");
  if (colon != std::string::npos) {
    const std::string file = path.substr(0, colon + kExtension.size());
    throw Error(ErrorKind::usage, path + ": is one tensor of a file; " + needed + ": " + file);
  }
  if (path.starts_with("real:")) throw Error(ErrorKind::usage, path + ": has no scales; " + needed);
  if (is_hdf5_path(path)) throw Error(ErrorKind::usage, path + ": is an HDF5 file; " + needed);
  if (path.ends_with(".npy")) throw Error(ErrorKind::usage, path + ": is one NumPy array; " + needed);
}

namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::input, path + ": " + what);
}

// A file holds codes as integers of their width, and FP32 scales as such.
Format stored_as(const Tensor& t) {
  return t.format == Format::fp32 ? t.format : size_of(t.format) == 1 ? Format::uint8 : Format::uint16;
}

// tcgen05 tiles are bytes, DeepGEMM's scales words of four.
Format dtype_of(ScaleLayout layout) { return layout == ScaleLayout::deepgemm ? Format::uint32 : Format::uint8; }
std::vector<std::int64_t> flat_shape(ScaleLayout layout, std::int64_t bytes) {
  return {bytes / static_cast<std::int64_t>(size_of(dtype_of(layout)))};
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
  float positive(const std::string& key) const {
    char* end = nullptr;
    const std::string& words = text(key);
    const float value = std::strtof(words.c_str(), &end);
    if (end != words.c_str() && *end == '\0' && value > 0 && std::isfinite(value)) return value;
    refuse(path_, "metadata '" + key + "' is '" + words + "', which is no positive number");
  }

 private:
  const std::map<std::string, std::string>& map_;
  const std::string& path_;
};

void check_tensors(std::span<const NamedHead> tensors, const std::vector<NamedHead>& wanted, const std::string& path) {
  for (const NamedHead& want : wanted) {
    for (const NamedHead& t : tensors) {
      if (t.name != want.name || (t.head.dtype == want.head.dtype && t.head.shape == want.head.shape)) continue;
      refuse(path, "'" + t.name + "' is " + safetensors_name(t.head.dtype) + " [" + shape_to_text(t.head.shape) +
                       "]; by the metadata it should be " + safetensors_name(want.head.dtype) + " [" +
                       shape_to_text(want.head.shape) + "]");
    }
  }
}

void check_kind(const std::map<std::string, std::string>& metadata, const std::string& path) {
  const auto value = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  if (value("mxcheck_file") != "quantized")
    refuse(path, "not a file of mxcheck quantize: its metadata lacks mxcheck_file = quantized");
  if (value("file_version") != "1")
    refuse(path, "file_version is '" + value("file_version") + "'; this mxcheck reads 1");
}

// The second level of scales, by the metadata; its scales are empty yet.
ScaleLevel outer_level(const Metadata& meta, const QuantizedTensor& q) {
  const bool of_rows = meta.word("tensor_scale_of", kOuterBlocks);
  const std::int64_t rows = of_rows ? q.rows() : q.rows() == 0 ? 0 : 1;
  ScaleLevel level{of_rows ? BlockShape{1, 0} : BlockShape{0, 0},
                   ScaleRule::fp32,
                   {"", Format::fp32, {rows, q.cols() == 0 ? 0 : 1}, {}}};
  level.stored = meta.word("stored_scale", kStoredScales);
  if (level.stored == StoredScale::amax) level.unit = meta.positive("limit") * largest_value(q.element());
  return level;
}

QuantizedFile parse(const std::map<std::string, std::string>& metadata, std::span<const NamedHead> tensors,
                    const std::string& path) {
  const Metadata meta(metadata, path);
  QuantizedFile out;
  QuantizedTensor& q = out.matrix;
  const auto rule = find_scale_rule(meta.text("rule"));
  if (!rule) refuse(path, "metadata 'rule' is '" + meta.text("rule") + "', which is not known");
  const Format element = element_format_named(meta.text("format"));
  const BlockShape block = block_shape_named(meta.text("block"));
  out.layout = meta.word("layout", kScaleLayouts);
  check_layout(out.layout, element, block, *rule);
  const std::int64_t pad = meta.size("pad_byte");
  if (pad > 255) refuse(path, "metadata 'pad_byte' is over 255");
  out.pad_byte = static_cast<std::uint8_t>(pad);
  q.codes = {"", element, {meta.size("rows"), meta.size("cols")}, {}};
  std::vector<std::int64_t>& offsets = out.offsets;
  if (!meta.text("offsets").empty()) offsets = parse_offsets(meta.text("offsets"), path + ": metadata 'offsets'");
  check_offsets(offsets, q.rows());

  const auto has = [&](const char* name) {
    return std::any_of(tensors.begin(), tensors.end(), [&](const NamedHead& t) { return t.name == name; });
  };
  const bool nested = *rule == ScaleRule::e4m3;
  if (!has("codes") || !has("scales") || (nested && !has(kOuterScales)) || tensors.size() != (nested ? 3 : 2)) {
    refuse(path, std::string("it should hold the tensors 'codes'") +
                     (nested ? ", 'scales' and 'tensor_scale'" : " and 'scales'") + " and no others");
  }
  check_tensors(tensors, {{"codes", {stored_as(q.codes), q.codes.shape}}},
                path);  // which bounds what follows by the file's size
  const std::int64_t scale_cols = q.cols() == 0 ? 0 : (q.cols() - 1) / block.width(q.cols()) + 1;
  q.levels = {
      {block, *rule, {"", format_of_scales(*rule), {count_scale_rows(q.rows(), block.rows, offsets), scale_cols}, {}}}};
  if (nested) q.levels.push_back(outer_level(meta, q));
  if (q.scale_rows() != meta.size("scale_rows") || q.scale_cols() != meta.size("scale_cols")) {
    refuse(path, "its metadata's scale_rows and scale_cols should be " + std::to_string(q.scale_rows()) + " and " +
                     std::to_string(q.scale_cols()));
  }
  check_tensors(tensors, tensors_of(out), path);
  return out;
}

}  // namespace

std::map<std::string, std::string> metadata_of(const QuantizedFile& file, const Recipe& recipe, Format source) {
  const QuantizedTensor& q = file.matrix;
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : describe(recipe)) metadata[key] = value;
  for (const auto& [key, value] : file.made_with) metadata[key] = value;
  metadata["mxcheck_file"] = "quantized";
  metadata["file_version"] = "1";
  metadata["format"] = spec(q.element()).name;
  metadata["block"] = to_text(q.block());
  metadata["layout"] = to_text(file.layout);
  metadata["pad_byte"] = std::to_string(file.pad_byte);
  metadata["rows"] = std::to_string(q.rows());
  metadata["cols"] = std::to_string(q.cols());
  metadata["scale_rows"] = std::to_string(q.scale_rows());
  metadata["scale_cols"] = std::to_string(q.scale_cols());
  metadata["offsets"] = offsets_to_text(file.offsets);
  metadata["source_dtype"] = spec(source).dtype_name;
  if (q.levels.size() > 1) metadata["tensor_scale_of"] = name_in(kOuterBlocks, q.levels[1].block.rows == 1);
  return metadata;
}

std::vector<NamedHead> tensors_of(const QuantizedFile& file) {
  const QuantizedTensor& q = file.matrix;
  const TensorHead codes{stored_as(q.codes), q.codes.shape};
  TensorHead scales{stored_as(q.scales()), q.scales().shape};
  if (file.layout != ScaleLayout::compact) {
    const bool empty = q.rows() == 0 || q.cols() == 0;
    const std::int64_t bytes = empty ? 0 : layout_bytes(file.layout, scale_shape(q, file.offsets));
    scales = {dtype_of(file.layout), flat_shape(file.layout, bytes)};
  }
  std::vector<NamedHead> heads{{"codes", codes}, {"scales", scales}};
  if (q.levels.size() > 1) heads.push_back({kOuterScales, {Format::fp32, q.levels[1].scales.shape}});
  return heads;
}

FormatOf format_of(Format element, Format scale) {
  return [element, scale](const NamedHead& t) {
    const Format format = t.name == "codes" ? element : t.head.dtype == Format::fp32 ? Format::fp32 : scale;
    return spec(format).dtype_name;
  };
}

std::vector<std::byte> scale_bytes(const QuantizedFile& file) {
  const QuantizedTensor& q = file.matrix;
  // Nothing to lay out, however many rows of nothing there are.
  if (file.layout == ScaleLayout::compact || q.scales().empty()) return q.scales().data;
  return to_bytes(to_layout(file.layout, scale_shape(q, file.offsets), q.scales().as<std::uint8_t>(), file.pad_byte));
}

QuantizedFile parse_quantized(const std::map<std::string, std::string>& metadata, std::span<const NamedHead> tensors,
                              const std::string& path) {
  check_kind(metadata, path);
  try {
    return parse(metadata, tensors, path);
  } catch (const Error& e) {  // of the reference, which knows no file
    const std::string text = e.what();
    throw Error(e.kind(), text.compare(0, path.size(), path) == 0 ? text : path + ": " + text);
  }
}

void set_scales(QuantizedFile& file, std::span<const std::byte> bytes) {
  QuantizedTensor& q = file.matrix;
  if (file.layout == ScaleLayout::compact || q.rows() == 0 || q.cols() == 0) {
    q.scales().data.assign(bytes.begin(), bytes.end());
  } else {
    q.scales().data = to_bytes(from_layout(file.layout, scale_shape(q, file.offsets), values_in<std::uint8_t>(bytes)));
  }
}

QuantizedWriter::QuantizedWriter(const std::string& path, QuantizedFile head, const Recipe& recipe, Format source)
    : file_(std::move(head)),
      writer_(path, tensors_of(file_), metadata_of(file_, recipe, source),
              format_of(file_.matrix.element(), file_.matrix.scales().format)) {}

void QuantizedWriter::append_codes(std::span<const std::byte> rows) { writer_.append(0, rows); }

void QuantizedWriter::append_scales(std::vector<std::byte> compact) {
  file_.matrix.scales().data = std::move(compact);
  writer_.append(1, scale_bytes(file_));
}

void QuantizedWriter::commit(const std::function<void()>& before_it_appears) { writer_.commit(before_it_appears); }

QuantizedReader::QuantizedReader(const std::string& path) {
  auto source = std::make_unique<FileSource>(path);
  const SafetensorsHeads heads = heads_of_safetensors(*source);
  file_ = parse_quantized(heads.metadata, heads.tensors, path);
  set_scales(file_, load(*source, find_safetensors(*source, "scales")).data);
  if (file_.matrix.levels.size() > 1) {
    file_.matrix.levels[1].scales.data = load(*source, find_safetensors(*source, kOuterScales)).data;
  }
  const TensorRegion codes = find_safetensors(*source, "codes");
  codes_ = open_region(std::move(source), codes);
}

void QuantizedReader::read_codes(std::span<std::byte> to) { codes_->read(to); }

}  // namespace mxcheck
