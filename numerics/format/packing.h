#pragma once
// Codes narrower than a byte, or wider, in the words that kernels store. Unpacked codes are one a byte or uint16.
//
// E2M1: two codes a byte, the first in the low nibble (the order of PyTorch's float4_e2m1fn_x2 and CUDA's fp4x2).
// E5M6: eight codes in three 32-bit words, the first in the highest bits of the first word, so that the third code
//   straddles words 0 and 1 and the sixth words 1 and 2 (DeepSeek TileKernels 36d9e45, cast_e5m6).
//
// Errors: Error{input} for a code with bits beyond its format; Error{usage} for a count that does not fit.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mxcheck {

inline constexpr std::size_t kE5m6CodesPerGroup = 8;
inline constexpr std::size_t kE5m6WordsPerGroup = 3;

// An odd count leaves the last byte's high nibble zero.
std::vector<std::uint8_t> pack_e2m1(std::span<const std::uint8_t> codes);

// The first `count` codes; bytes.size() must be ceil(count / 2), and an unused last nibble must be zero.
std::vector<std::uint8_t> unpack_e2m1(std::span<const std::uint8_t> bytes, std::size_t count);

// Rows of `cols` E2M1 codes, each packed by itself: the last byte of a row of odd length has a high nibble of zero, of
// which unpacking takes no notice. What is no whole row is left out.
std::vector<std::byte> packed_rows(std::span<const std::uint8_t> codes, std::int64_t cols);
std::vector<std::uint8_t> unpacked_rows(std::span<const std::byte> bytes, std::int64_t cols);

// codes.size() must be a multiple of eight: the source defines no partial group.
std::vector<std::uint32_t> pack_e5m6(std::span<const std::uint16_t> codes);

// words.size() must be a multiple of three.
std::vector<std::uint16_t> unpack_e5m6(std::span<const std::uint32_t> words);

}  // namespace mxcheck
