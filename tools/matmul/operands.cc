#include "tools/matmul/operands.h"

#include <charconv>
#include <filesystem>

#include "numerics/error.h"

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
  std::int64_t place[2] = {-1, -1};
  const std::size_t comma = text.find(',');
  bool right = comma != std::string::npos;
  for (int n = 0; right && n < 2; ++n) {
    const char* begin = text.data() + (n == 0 ? 0 : comma + 1);
    const char* end = text.data() + (n == 0 ? comma : text.size());
    const auto [last, error] = std::from_chars(begin, end, place[n]);
    right = error == std::errc() && last == end && place[n] >= 0;
  }
  if (!right) throw Error(ErrorKind::usage, flag + " " + text + ": an output is named ROW,COLUMN");
  return {place[0], place[1]};
}

void check_product_output(const std::string& output, const std::vector<std::string>& inputs) {
  const std::filesystem::path out(output);
  if (out.extension() != ".npy" && out.extension() != ".safetensors") {
    throw Error(ErrorKind::usage, output + ": name the output OUT.npy or OUT.safetensors");
  }
  for (const std::string& input : inputs) {
    std::error_code error;
    const std::string file = input.substr(
        0, input.rfind(".safetensors:") == std::string::npos ? std::string::npos : input.rfind(".safetensors:") + 12);
    if (!input.empty() && std::filesystem::equivalent(file, out, error) && !error) {
      throw Error(ErrorKind::usage, output + ": is an input file; choose another output");
    }
  }
}

void write_product(const std::string& output, Tensor d) {
  if (output.ends_with(".npy")) return write_npy(output, d);
  write_safetensors(output, {{std::move(d)}, {}});
}

}  // namespace mxcheck
