#include "properties/goldens/kind.h"

#include "goldens/io/tensor_file.h"

namespace mxcheck {

namespace {

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

std::int64_t count_of(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;  // of tensors in memory
  return count;
}

// A type of the same bits as the golden's: int8 and F8_E4M3 for codes, float32 for the bits of float32.
bool same_bits(const DatasetInfo& expected, Format observed) {
  if (observed == expected.dtype) return true;
  if (expected.dtype == Format::uint8)
    return observed == Format::int8 || spec(observed).dtype_name == expected.format;  // F8_E4M3 of E4M3 codes
  if (expected.format == "bfloat16") return observed == Format::bf16;
  if (expected.format == "float16") return observed == Format::fp16;
  if (expected.format == "float32") return observed == Format::fp32 || observed == Format::int32;
  return expected.dtype == Format::uint32 && observed == Format::int32;
}

std::string dtype_advice(const DatasetInfo& expected, Format observed) {
  const std::string have = safetensors_name(observed);
  const std::string want = std::string(safetensors_name(expected.dtype)) + " bits of " + expected.format;
  const bool number =
      observed == Format::fp32 || observed == Format::fp64 || observed == Format::fp16 || observed == Format::bf16;
  if (expected.dtype == Format::uint8 && number) {
    return "has dtype " + have + "; " + want +
           " are needed: are these dequantized values, or codes as numbers? Write the bytes (.view(uint8))";
  }
  if (expected.dtype == Format::uint8 &&
      (observed == Format::int32 || observed == Format::int64 || observed == Format::uint32)) {
    return "has dtype " + have + "; " + want +
           " are needed: several codes a word, or one code widened? Write one byte a code";
  }
  if (expected.dtype == Format::int32 || expected.dtype == Format::int64) {
    return "has dtype " + have + "; " + safetensors_name(expected.dtype) + " is needed";
  }
  return "has dtype " + have + "; " + want + " are needed";
}

std::string shape_advice(const DatasetInfo& expected, const std::vector<std::int64_t>& have) {
  const std::vector<std::int64_t>& want = expected.shape;
  std::string text = "has shape " + text_of(have) + "; " + text_of(want) + " is needed";
  if (want.size() == 2 && have.size() == 2 && have[0] == want[1] && have[1] == want[0]) return text + ": the transpose";
  const std::int64_t count = count_of(have), needed = count_of(want);
  const bool rows = expected.name.starts_with("row_") || expected.name.starts_with("token_rows");
  if (rows && have.size() == 1 && count != needed) {
    return text + (count > needed ? ": does it go on behind the last row? Leave that out"
                                  : ": fewer rows than there should be");
  }
  if (count == needed) return text + ": the same elements in another shape";
  if (needed % 2 == 0 && count == needed / 2) return text + ": two codes a byte? Unpack them, one code a byte";
  if (want.size() == 2 && have.size() == 2) {
    const bool rows = have[0] >= want[0] && have[0] % 128 == 0 && have[0] - want[0] < 128;
    const bool cols = have[1] >= want[1] && (have[1] % 4 == 0) && have[1] - want[1] < 128;
    if (rows && cols) return text + ": padded? Leave the padding out";
    if (have[0] == want[0] && have[1] == want[1] * 2) return text + ": blocks of half the width?";
    if (have[0] == want[0] && have[1] * 4 == want[1]) return text + ": blocks of four times the width (1x128)?";
    if (have[1] == want[1] && have[0] * 32 >= want[0] && have[0] * 32 < want[0] + 32) {
      return text + ": one scale for 32 rows (32x32 blocks)?";
    }
  }
  if (have.size() == 1 && want.size() == 2 && have[0] >= needed && have[0] % 512 == 0) {
    return text + ": is it in the tcgen05 layout? The compact one is needed here";
  }
  return text;
}

}  // namespace

Form form_of(const DatasetInfo& expected, const Tensor& observed) {
  Form form;
  if (!same_bits(expected, observed.format)) {
    form.dtype = false;
    form.notes.push_back(dtype_advice(expected, observed.format));
  } else if (observed.format != expected.dtype) {
    form.notes.push_back(std::string("has dtype ") + safetensors_name(observed.format) + ", taken as the bits of " +
                         expected.format);
  }
  if (observed.shape != expected.shape) {
    form.shape = false;
    form.notes.push_back(shape_advice(expected, observed.shape));
  }
  const bool as_wide = size_of(observed.format) == size_of(expected.dtype);
  form.comparable = form.dtype && as_wide && count_of(observed.shape) == count_of(expected.shape);
  if (!form.shape && form.comparable) form.notes.emplace_back("its bits are compared in the order of its elements");
  return form;
}

}  // namespace mxcheck
