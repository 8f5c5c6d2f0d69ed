#include "tools/matmul/operands.h"

#include <algorithm>
#include <string_view>

#include "numerics/error.h"
#include "numerics/text.h"

namespace mxcheck {

Stack stack_of(const Tensor& t, const std::string& location) {
  if (t.shape.size() != 2 && t.shape.size() != 3) {
    throw Error(ErrorKind::input, location + ": has " + std::to_string(t.shape.size()) +
                                      " dimensions; a matrix, or a batch of matrices, is needed");
  }
  Stack s;
  s.batched = t.shape.size() == 3;
  s.count = s.batched ? t.shape[0] : 1;
  s.rows = t.shape[t.shape.size() - 2], s.cols = t.shape.back();
  return s;
}

Format code_format(const std::string& name, const Tensor& t, const std::string& location) {
  const auto width = static_cast<int>(size_of(t.dtype)) * 8;
  if (name.empty()) {
    switch (t.dtype) {
      case Dtype::u8: return Format::e4m3;
      case Dtype::u16:
      case Dtype::bf16: return Format::bf16;
      case Dtype::f16: return Format::fp16;
      case Dtype::f32:
      case Dtype::u32: return Format::fp32;
      default: break;
    }
    throw Error(ErrorKind::input,
                location + ": is " + safetensors_name(t.dtype) + "; codes are U8 or U16, values BF16, F16 or F32");
  }
  const auto format = find_format(name);
  if (!format) throw Error(ErrorKind::usage, "'" + name + "' is no format; mxcheck formats lists them");
  const int needed = spec(*format).bits <= 8 ? 8 : spec(*format).bits <= 16 ? 16 : 32;
  const bool integers = t.dtype == Dtype::u8 || t.dtype == Dtype::u16 || t.dtype == Dtype::u32;
  const bool itself = (t.dtype == Dtype::bf16 && format == Format::bf16) ||
                      (t.dtype == Dtype::f16 && format == Format::fp16) ||
                      (t.dtype == Dtype::f32 && format == Format::fp32);
  if ((!integers && !itself) || width != needed) {
    throw Error(ErrorKind::input, location + ": is " + safetensors_name(t.dtype) + "; " +
                                      std::string(spec(*format).name) + " codes are U" + std::to_string(needed));
  }
  return *format;
}

void check_codes(Format format, std::span<const std::byte> codes, const std::string& location) {
  const int bits = spec(format).bits;
  if (bits >= 8) return;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const int code = std::to_integer<int>(codes[i]);
    if (code >> bits == 0) continue;
    throw Error(ErrorKind::input, location + ": code " + std::to_string(code) + " at place " + std::to_string(i) +
                                      ": " + std::string(spec(format).name) + " codes are 0 to " +
                                      std::to_string((1 << bits) - 1) + ", one a byte");
  }
}

std::pair<std::int64_t, std::int64_t> parse_place(const std::string& text, const std::string& flag) {
  const std::size_t comma = std::min(text.find(','), text.size());
  const auto row = parse_number<std::int64_t>(std::string_view(text).substr(0, comma));
  const auto col = parse_number<std::int64_t>(std::string_view(text).substr(std::min(comma + 1, text.size())));
  if (!row || !col || *row < 0 || *col < 0) {
    throw Error(ErrorKind::usage, flag + " " + text + ": an output is named ROW,COLUMN");
  }
  return {*row, *col};
}

void write_result(const std::string& output, Tensor d, const std::function<void()>& before_it_appears) {
  if (output.ends_with(".npy")) return write_npy(output, d, before_it_appears);
  write_safetensors(output, {{std::move(d)}, {}}, before_it_appears);
}

void refuse_c(const std::string& location, const Tensor& c, const std::string& wanted) {
  throw Error(ErrorKind::input,
              location + ": is " + safetensors_name(c.dtype) + " of " + shape_to_text(c.shape) + "; " + wanted);
}

Json explained_json(std::pair<std::int64_t, std::int64_t> place, const std::vector<std::string>& lines) {
  return {{"row", place.first}, {"column", place.second}, {"steps", lines}};
}

}  // namespace mxcheck
