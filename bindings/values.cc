// Casts and scales, element by element.

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "bindings/formats.h"
#include "bindings/guard.h"
#include "bindings/mxcheck_c.h"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe_words.h"

namespace mxcheck::c {
namespace {

template <class Word>
Word word_at(const void* from, std::int64_t i) {
  Word word;
  std::memcpy(&word, static_cast<const std::byte*>(from) + i * static_cast<std::int64_t>(sizeof word), sizeof word);
  return word;
}

void cast(std::string_view from, const void* values, std::int64_t count, Format to, Rounding rounding,
          Overflow overflow, void* codes) {
  const Format source = value_format_of(from);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t bits =
        source == Format::fp32 ? word_at<std::uint32_t>(values, i) : word_at<std::uint16_t>(values, i);
    const std::uint32_t code = encode(to, decode(source, bits), rounding, overflow, 0);
    if (spec(to).bits <= 8) {
      static_cast<std::uint8_t*>(codes)[i] = static_cast<std::uint8_t>(code);
    } else {
      const auto wide = static_cast<std::uint16_t>(code);
      std::memcpy(static_cast<std::uint8_t*>(codes) + i * 2, &wide, 2);
    }
  }
}

void scales(const Recipe& recipe, Format format, const float* amax, std::int64_t count, std::uint8_t* bytes,
            float* values) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (!std::isnan(amax[i]) && std::signbit(amax[i])) {
      refuse("amax[" + std::to_string(i) + "] is negative: it is the largest magnitude of a block");
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const bool nan = std::isnan(amax[i]);
    if (!recipe.has_e8m0_scales()) {
      values[i] = block_scale(recipe, format, {nan ? 0 : amax[i], nan}).scale;
      continue;
    }
    const std::uint8_t byte = scale_byte_for_amax(recipe, format, amax[i]);
    if (bytes != nullptr) bytes[i] = byte;
    if (values != nullptr) values[i] = static_cast<float>(decode(Format::e8m0, byte));
  }
}

}  // namespace
}  // namespace mxcheck::c

using namespace mxcheck;
using namespace mxcheck::c;

int32_t mxcheck_c_cast(const char* from, const void* values, int64_t count, const char* to, const char* rounding,
                       const char* overflow, void* codes) {
  return guarded([&] {
    check_count(count, "count");
    check_pointer(values, count, "values");
    check_pointer(codes, count, "codes");
    const Format format = format_of(text_of(to, "to"));
    if (format == Format::fp32) refuse("a cast to fp32 is none: the formats of 16 bits and fewer are offered");
    cast(text_of(from, "from"), values, count, format,
         entry_named(kElementRoundings, "rounding", text_of(rounding, "rounding")).value,
         entry_named(kOverflows, "overflow", text_of(overflow, "overflow")).value, codes);
  });
}

int32_t mxcheck_c_decode(const char* format, const void* codes, int64_t count, double* values) {
  return guarded([&] {
    check_count(count, "count");
    check_pointer(codes, count, "codes");
    check_pointer(values, count, "values");
    const Format of = format_of(text_of(format, "format"));
    const int bits = spec(of).bits;
    std::vector<double> decoded(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t code = bits <= 8    ? word_at<std::uint8_t>(codes, i)
                                 : bits <= 16 ? word_at<std::uint16_t>(codes, i)
                                              : word_at<std::uint32_t>(codes, i);
      if (bits < 32 && code >> bits != 0) {
        throw Error(ErrorKind::input, "codes[" + std::to_string(i) + "] is " + std::to_string(code) + ": " +
                                          std::string(spec(of).name) + " has " + std::to_string(bits) + " bits");
      }
      decoded[static_cast<std::size_t>(i)] = decode(of, code);
    }
    std::memcpy(values, decoded.data(), decoded.size() * sizeof(double));
  });
}

int32_t mxcheck_c_scale(const char* recipe, const char* format, const float* amax, int64_t count, uint8_t* bytes,
                        float* values) {
  return guarded([&] {
    check_count(count, "count");
    check_pointer(amax, count, "amax");
    const Recipe of = recipe_named(text_of(recipe, "recipe"));
    if (!of.has_e8m0_scales()) check_pointer(values, count, "scales");
    scales(of, element_of(text_of(format, "format")), amax, count, bytes, values);
  });
}
