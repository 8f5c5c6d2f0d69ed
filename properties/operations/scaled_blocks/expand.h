#pragma once
// Expands a case to its tensors. Element (i, j) is a pure function of the case and its coordinates.
//
// Distributions are drawn in units of the variant's own blocks, so that boundaries are boundaries for the block shape
// under test: every block has a power of two 2^e of its own (mostly moderate, now and then anywhere in the type's
// range, smallest and largest included). Next to it:
//   boundaries  an element is a value or midpoint of the element format times 2^e, moved by -1, 0 or +1 ulp of x's
//               type; two blocks in eight have an amax on the edges where the scale byte changes (vmax * 2^e and the
//               power of two above it, -1/0/+1 ulp)
//   codes       a value of the element format times 2^e; the block's first element has the largest exponent, so that
//               the scale is 2^e under both round-up and floor, and every element is exactly representable
//   sparse      one nonzero element a block, anywhere in it
//   slots       every block has another scale and every element of it another code
//   every_bf16  31 patterns a row of 32, the 32nd element pins the scale byte; patterns above it are replaced by 0.
//               Rows run through the bytes 0 to 247, which is as far as a finite BF16 takes E4M3's (other formats: less
//               far, and the last bytes repeat): row r has byte (r / 2115) % 248 and patterns from 31 * (r % 2115)

#include <cstddef>
#include <cstdint>
#include <vector>

#include "properties/core/input.h"
#include "properties/operations/scaled_blocks/fields.h"

namespace mxcheck {

// The matrix x of a case.
Input expand(const Case& c);

// Random codes and scale bytes for operations that start from them, in the compact shapes of the case; scale bytes are
// drawn from all 256, with the extremes often. data=slots: block after block without experts has the next byte, and the
// codes run on through it, so that 256 blocks of 256 elements (or more, smaller ones) hold every pair. data=zeros:
// codes 0 and scale bytes 127. A plant of dequantize is a code and, in the byte above it, the scale byte of its block.
std::vector<std::uint8_t> expand_codes(const Case& c);
std::vector<std::uint8_t> expand_scale_bytes(const Case& c, std::int64_t count);

// Rows of every_bf16 that cover each pattern at each byte once.
inline constexpr std::int64_t kEveryBf16RowsPerByte = 2115;  // 31 * 2115 >= 65536
inline constexpr std::int64_t kEveryBf16Bytes = 248;
inline constexpr std::int64_t kEveryBf16Rows = kEveryBf16RowsPerByte * kEveryBf16Bytes;

}  // namespace mxcheck
