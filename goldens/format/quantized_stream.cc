#include "goldens/format/quantized_stream.h"

#include <utility>

#include "goldens/format/quantized_parts.h"
#include "goldens/io/byte_source.h"
#include "goldens/io/readers.h"

namespace mxcheck {

QuantizedWriter::QuantizedWriter(const std::string& path, QuantizedFile head, const Recipe& recipe, Format source)
    : file_(std::move(head)),
      writer_(path, tensors_of(file_, recipe.rule == ScaleRule::fp32), metadata_of(file_, recipe, source),
              format_of(file_.matrix.element)) {}

void QuantizedWriter::append_codes(std::span<const std::byte> rows) { writer_.append(0, rows); }

void QuantizedWriter::append_scales(std::vector<std::uint8_t> e8m0, std::vector<float> fp32) {
  file_.matrix.scales = std::move(e8m0), file_.matrix.scales_fp32 = std::move(fp32);
  writer_.append(1, scale_bytes(file_));
}

void QuantizedWriter::commit(const std::function<void()>& before_it_appears) { writer_.commit(before_it_appears); }

QuantizedReader::QuantizedReader(const std::string& path) {
  auto source = std::make_unique<FileSource>(path);
  const SafetensorsHeads heads = heads_of_safetensors(*source);
  ParsedHead head = parse_quantized(heads.metadata, heads.tensors, path);
  set_scales(head, load(*source, find_safetensors(*source, "scales")).data);
  file_ = std::move(head.file);
  const TensorRegion codes = find_safetensors(*source, "codes");
  codes_ = open_region(std::move(source), codes);
}

void QuantizedReader::read_codes(std::span<std::byte> to) { codes_->read(to); }

}  // namespace mxcheck
