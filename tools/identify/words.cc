#include "tools/identify/words.h"

#include <cstring>

#include "numerics/error.h"
#include "numerics/format/codec.h"

namespace mxcheck {

std::vector<std::uint32_t> words_of(const Tensor& t) {
  const std::size_t width = size_of(t.dtype);
  if (width > 4)
    throw Error(ErrorKind::input, std::string("a tensor of ") + safetensors_name(t.dtype) + " has no words of 32 bits");
  std::vector<std::uint32_t> words(t.data.size() / width);
  for (std::size_t i = 0; i < words.size(); ++i) std::memcpy(&words[i], t.data.data() + i * width, width);
  return words;
}

std::vector<float> values_of(const Tensor& t, const std::string& location, Format& type) {
  switch (t.dtype) {
    case Dtype::f32: type = Format::fp32; break;
    case Dtype::bf16: type = Format::bf16; break;
    case Dtype::f16: type = Format::fp16; break;
    default:
      throw Error(ErrorKind::input, location + ": is " + safetensors_name(t.dtype) + "; F32, BF16 or F16 is needed");
  }
  std::vector<float> values;
  for (std::uint32_t word : words_of(t)) values.push_back(static_cast<float>(decode(type, word)));
  return values;
}

}  // namespace mxcheck
