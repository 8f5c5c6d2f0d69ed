#include "numerics/format/packing.h"

#include <string>

#include "numerics/error.h"
#include "numerics/format/format.h"

namespace mxcheck {
namespace {

constexpr int kE5m6Bits = spec(Format::e5m6).bits;
static_assert(kE5m6CodesPerGroup * kE5m6Bits == kE5m6WordsPerGroup * 32);

void require_width(Format format, std::uint32_t code, std::size_t index) {
  if (code >> spec(format).bits == 0) return;
  throw Error(ErrorKind::input, "code " + std::to_string(code) + " at index " + std::to_string(index) + " is no " +
                                    std::string(spec(format).name) + " code; the largest is " +
                                    std::to_string((1U << spec(format).bits) - 1));
}

void require_multiple(std::size_t size, std::size_t of, const char* what) {
  if (size % of == 0) return;
  throw Error(ErrorKind::usage, std::to_string(size) + " e5m6 " + what +
                                    " do not fill groups: the count must be a multiple of " + std::to_string(of));
}

// Bits [at, at + 32) of a group, counted from the highest bit of its first code, lie in word at / 32.
struct Place {
  std::size_t word;
  int shift;  // left shift of a code within the word; negative: its low bits continue in the next word
};

Place place_of(std::size_t index_in_group) {
  const int first_bit = static_cast<int>(index_in_group) * kE5m6Bits;
  return {static_cast<std::size_t>(first_bit / 32), 32 - kE5m6Bits - first_bit % 32};
}

}  // namespace

std::vector<std::uint8_t> pack_e2m1(std::span<const std::uint8_t> codes) {
  std::vector<std::uint8_t> bytes(codes.size() / 2 + codes.size() % 2);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    require_width(Format::e2m1, codes[i], i);
    bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] | codes[i] << (i % 2 * 4));
  }
  return bytes;
}

std::vector<std::uint8_t> unpack_e2m1(std::span<const std::uint8_t> bytes, std::size_t count) {
  if (bytes.size() != count / 2 + count % 2) {
    throw Error(ErrorKind::usage, std::to_string(count) + " e2m1 codes take " + std::to_string(count / 2 + count % 2) +
                                      " bytes, not " + std::to_string(bytes.size()));
  }
  if (count % 2 != 0 && bytes.back() >> 4 != 0) {
    throw Error(ErrorKind::input,
                "the unused high nibble of the last byte of " + std::to_string(count) + " e2m1 codes is not zero");
  }
  std::vector<std::uint8_t> codes(count);
  for (std::size_t i = 0; i < count; ++i) codes[i] = static_cast<std::uint8_t>(bytes[i / 2] >> (i % 2 * 4) & 0xF);
  return codes;
}

std::vector<std::uint32_t> pack_e5m6(std::span<const std::uint16_t> codes) {
  require_multiple(codes.size(), kE5m6CodesPerGroup, "codes");
  std::vector<std::uint32_t> words(codes.size() / kE5m6CodesPerGroup * kE5m6WordsPerGroup);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    require_width(Format::e5m6, codes[i], i);
    const Place place = place_of(i % kE5m6CodesPerGroup);
    std::uint32_t* word = &words[i / kE5m6CodesPerGroup * kE5m6WordsPerGroup + place.word];
    const std::uint32_t code = codes[i];
    if (place.shift >= 0) {
      word[0] |= code << place.shift;
    } else {
      word[0] |= code >> -place.shift;
      word[1] |= code << (32 + place.shift);
    }
  }
  return words;
}

std::vector<std::uint16_t> unpack_e5m6(std::span<const std::uint32_t> words) {
  require_multiple(words.size(), kE5m6WordsPerGroup, "words");
  std::vector<std::uint16_t> codes(words.size() / kE5m6WordsPerGroup * kE5m6CodesPerGroup);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const Place place = place_of(i % kE5m6CodesPerGroup);
    const std::uint32_t* word = &words[i / kE5m6CodesPerGroup * kE5m6WordsPerGroup + place.word];
    const std::uint32_t bits =
        place.shift >= 0 ? word[0] >> place.shift : word[0] << -place.shift | word[1] >> (32 + place.shift);
    codes[i] = static_cast<std::uint16_t>(bits & ((1U << kE5m6Bits) - 1));
  }
  return codes;
}

}  // namespace mxcheck
