#include "goldens/io/quantized_file.h"

#include <charconv>
#include <cstring>
#include <filesystem>

#include "goldens/format/writer.h"
#include "goldens/io/readers.h"
#include "numerics/error.h"
#include "numerics/format/element_format.h"
#include "numerics/scale/recipe_words.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::input, path + ": " + what);
}

template <class T>
Tensor tensor_of(const std::string& name, Dtype dtype, std::vector<std::int64_t> shape, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {name, dtype, std::move(shape), {bytes.begin(), bytes.end()}};
}

template <class T>
std::vector<T> values_of(const Tensor& tensor) {
  std::vector<T> values(tensor.data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

std::int64_t flat_size(std::size_t size) { return static_cast<std::int64_t>(size); }

Tensor scales_tensor(const QuantizedFile& file) {
  const Quantized& q = file.matrix;
  const std::vector<std::int64_t> compact{q.scale_rows, q.scale_cols};
  if (!q.scales_fp32.empty()) return tensor_of("scales", Dtype::f32, compact, q.scales_fp32);
  if (file.layout == ScaleLayout::compact) return tensor_of("scales", Dtype::u8, compact, q.scales);
  const std::vector<std::int64_t> experts = count_scale_rows_by_expert(q, file.offsets);
  const bool row_blocks = has_row_blocks(q.block);
  if (q.scales.empty()) {  // nothing to lay out, however many rows of nothing there are
    return {"scales", file.layout == ScaleLayout::tcgen05 ? Dtype::u8 : Dtype::u32, {0}, {}};
  }
  if (file.layout == ScaleLayout::tcgen05) {
    const auto tiles = scales_to_tcgen05(q.scales, q.scale_cols, row_blocks, experts, file.pad_byte);
    return tensor_of("scales", Dtype::u8, {flat_size(tiles.size())}, tiles);
  }
  const auto words = scales_to_deepgemm(q.scales, q.scale_cols, row_blocks, experts, file.pad_byte);
  return tensor_of("scales", Dtype::u32, {flat_size(words.size())}, words);
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
    const std::string& t = text(key);
    std::int64_t n = 0;
    const auto [end, error] = std::from_chars(t.data(), t.data() + t.size(), n);
    if (error != std::errc() || end != t.data() + t.size() || n < 0) {
      refuse(path_, "metadata '" + key + "' is '" + t + "', which is no size");
    }
    return n;
  }
  template <class T>
  T word(const std::string& key, const std::vector<std::pair<std::string, T>>& table) const {
    for (const auto& [known, value] : table) {
      if (known == text(key)) return value;
    }
    refuse(path_, "metadata '" + key + "' is '" + text(key) + "', which is not known");
  }

 private:
  const std::map<std::string, std::string>& map_;
  const std::string& path_;
};

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t n : shape) text += (text.empty() ? "" : " x ") + std::to_string(n);
  return "[" + text + "]";
}

void check_tensor_is(const Tensor& tensor, Dtype dtype, const std::vector<std::int64_t>& shape,
                     const std::string& path) {
  if (tensor.dtype == dtype && tensor.shape == shape) return;
  refuse(path, "'" + tensor.name + "' is " + safetensors_name(tensor.dtype) + " " + shape_text(tensor.shape) +
                   "; by the metadata it should be " + safetensors_name(dtype) + " " + shape_text(shape));
}

void take_scales(QuantizedFile& file, bool fp32, const Tensor& scales, const std::string& path) {
  Quantized& q = file.matrix;
  const std::vector<std::int64_t> compact{q.scale_rows, q.scale_cols};
  if (fp32) {
    check_tensor_is(scales, Dtype::f32, compact, path);
    q.scales_fp32 = values_of<float>(scales);
  } else if (file.layout == ScaleLayout::compact) {
    check_tensor_is(scales, Dtype::u8, compact, path);
    q.scales = values_of<std::uint8_t>(scales);
  } else if (q.rows == 0 || q.cols == 0) {
    check_tensor_is(scales, file.layout == ScaleLayout::tcgen05 ? Dtype::u8 : Dtype::u32, {0}, path);
  } else {
    const std::vector<std::int64_t> experts = count_scale_rows_by_expert(q, file.offsets);
    const bool row_blocks = has_row_blocks(q.block);
    if (file.layout == ScaleLayout::tcgen05) {
      check_tensor_is(scales, Dtype::u8, {scales_tcgen05_bytes(q.scale_cols, row_blocks, experts)}, path);
      q.scales = scales_from_tcgen05(values_of<std::uint8_t>(scales), q.scale_cols, row_blocks, experts);
    } else {
      check_tensor_is(scales, Dtype::u32, {scales_deepgemm_words(q.scale_cols, row_blocks, experts)}, path);
      q.scales = scales_from_deepgemm(values_of<std::uint32_t>(scales), q.scale_cols, row_blocks, experts);
    }
  }
}

QuantizedFile parse(const SafetensorsFile& file, const std::string& path) {
  const Metadata meta(file.metadata, path);
  QuantizedFile out;
  Quantized& q = out.matrix;
  const auto rule = scale_rule_by_name(meta.text("rule"));
  if (!rule) refuse(path, "metadata 'rule' is '" + meta.text("rule") + "', which is not known");
  q.element = element_format_by_name(meta.text("format"));
  q.block = block_shape_by_name(meta.text("block"));
  out.layout = meta.word("layout", layout_words());
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
    q.codes16 = values_of<std::uint16_t>(*codes);
  } else {
    q.codes = values_of<std::uint8_t>(*codes);
  }
  take_scales(out, *rule == ScaleRule::fp32, *scales, path);
  return out;
}

}  // namespace

const std::vector<std::pair<std::string, ScaleLayout>>& layout_words() {
  static const std::vector<std::pair<std::string, ScaleLayout>> words{
      {"compact", ScaleLayout::compact}, {"tcgen05", ScaleLayout::tcgen05}, {"deepgemm", ScaleLayout::deepgemm}};
  return words;
}

void check_layout(ScaleLayout layout, Format element, BlockShape block, ScaleRule rule) {
  if (layout == ScaleLayout::compact) return;
  const std::string name = "layout " + word_of(layout_words(), layout);
  if (block.rows != 1 && block.cols != 1) {
    throw Error(ErrorKind::usage, name + " holds scales of blocks of one row or one column; " +
                                      block_shape_name(block) + " blocks need layout compact");
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
  out.tensors.push_back(q.element == Format::e5m6 ? tensor_of("codes", Dtype::u16, shape, q.codes16)
                                                  : tensor_of("codes", Dtype::u8, shape, q.codes));
  out.tensors.push_back(scales_tensor(file));
  // An empty matrix has no vector of either kind of scales to tell them apart by.
  if (recipe.rule == ScaleRule::fp32) out.tensors.back().dtype = Dtype::f32;
  for (const auto& [key, value] : describe(recipe)) out.metadata[key] = value;
  out.metadata["mxcheck_file"] = "quantized";
  out.metadata["file_version"] = "1";
  out.metadata["format"] = spec(q.element).name;
  out.metadata["block"] = block_shape_name(q.block);
  out.metadata["layout"] = word_of(layout_words(), file.layout);
  out.metadata["pad_byte"] = std::to_string(file.pad_byte);
  out.metadata["rows"] = std::to_string(q.rows);
  out.metadata["cols"] = std::to_string(q.cols);
  out.metadata["scale_rows"] = std::to_string(q.scale_rows);
  out.metadata["scale_cols"] = std::to_string(q.scale_cols);
  out.metadata["offsets"] = offsets_text(file.offsets);
  out.metadata["source_dtype"] = spec(source).dtype_name;
  return out;
}

bool is_quantized_path(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  return extension == ".safetensors" || extension == ".h5" || extension == ".hdf5";
}

void write_quantized(const std::string& path, const SafetensorsFile& file) {
  if (std::filesystem::path(path).extension() == ".safetensors") return write_safetensors(path, file);
  GoldenInfo info;
  for (const auto& [key, value] : file.metadata) {
    if (key != "mxcheck_file") info.attributes.emplace_back(key, value);  // the writer's own
  }
  const std::optional<Format> element = format_by_name(file.metadata.at("format"));
  for (const Tensor& t : file.tensors) {
    const bool fp32 = t.dtype == Dtype::f32;
    const Format format = t.name == "codes" ? element.value() : fp32 ? Format::fp32 : Format::e8m0;
    info.datasets.push_back(
        {t.name, Role::output, std::string(spec(format).dtype_name), fp32 ? Dtype::u32 : t.dtype, t.shape, {}});
  }
  GoldenWriter writer(path, info, {0, "quantized"});
  for (std::size_t i = 0; i < file.tensors.size(); ++i) writer.append(i, file.tensors[i].data);
  writer.commit();
}

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

std::vector<std::int64_t> parse_offsets(const std::string& text, const std::string& where) {
  std::vector<std::int64_t> offsets;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto skip = [&] {
    while (at != end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')) ++at;
  };
  for (skip(); at != end; skip()) {
    std::int64_t n = 0;
    const auto [next, error] = std::from_chars(at, end, n);
    if (error != std::errc() || n < 0) throw Error(ErrorKind::usage, where + ": expected numbers like 0,96,192");
    offsets.push_back(n);
    at = next;
    skip();
    if (at != end && *at == ',') ++at;
  }
  if (offsets.empty()) throw Error(ErrorKind::usage, where + ": no numbers; expected something like 0,96,192");
  return offsets;
}

std::string offsets_text(const std::vector<std::int64_t>& offsets) {
  std::string text;
  for (const std::int64_t n : offsets) text += (text.empty() ? "" : ",") + std::to_string(n);
  return text;
}

}  // namespace mxcheck
