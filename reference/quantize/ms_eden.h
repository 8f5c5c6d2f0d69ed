#pragma once
// MS-EDEN: quantizing to two levels of scales such that rounding the scales at random makes the result unbiased, while
// the codes are rounded to nearest (Quartet II). The input is a matrix after a randomized Hadamard transform
// (reference/quantize/hadamard.h). Rows are cut into groups of `group` elements, these into blocks of 16.
//
//   s = RN(RN(amax / scale_max) / code_max)                    of the matrix; 1 if amax or s is 0
//   q = E4M3(RN(RN(a / code_max) / s))                         of a block, a its amax, to nearest; 1 if it is 0
//   code = E2M1(RN(x / RN(q * s)))                             to nearest, ties to even
//   c = RN(sum of x * x / sum of x * code * q * s)             of a group, both sums exact; 1 if the second is not
//   above 0 scale = E4M3(RN(q * c)), rounded stochastically            with the block's random word
//
// So the mean of the scale over all words is q * c, and the mean of the dot product of a group with its quantized self
// is that with itself, up to the roundings RN.
//
//   const QuantizedTensor q = ms_eden(view, {}, words);   // words: rows * cols / 16
//
// ms_eden_of_lines is the same for lines of any length: rows, or the columns of each expert's rows, in the stretches of
// reference/quantize/stretches.h. A group has the size of its stretch. What is in no group, fewer than 16 numbers at
// the end of a line, is a block whose codes are rounded stochastically, so that its mean is right too:
//
//   q = E4M3(RN(RN(a / 6) / s))                                rounded up, so that no element saturates; 1 if a is 0
//   code = E2M1(RN(x / RN(q * s)))                             rounded stochastically; scale = q
//
// There is a word for each element, row-major, of which a block of a group takes the one of its first element. Without
// words all roundings are to nearest (q of a rest still upwards). s is that of the finite elements; a group, or a rest,
// that holds a NaN or an infinity has codes 0 and NaN scales (0x7F), and so has a block whose q * c is a NaN.
//
// Sources: Quartet II (arXiv 2601.22813) and its repository at 8776a90, whose kernels differ from one another: code_max
// and scale_max are those of its backward pass, ties are those of its CUDA kernel, the sums are exact here since no two
// of its kernels have one order.
//
// Errors: Error{usage} for columns that are no multiple of the group, a group that is no multiple of 16, other numbers
// of words, and what check_matrix refuses; Error{input} of ms_eden for a NaN or an infinity.

#include <cstdint>
#include <span>

#include "reference/common/matrix.h"
#include "reference/quantize/hadamard.h"
#include "reference/quantize/quantized_tensor.h"

namespace mxcheck {

struct MsEden {
  float code_max = static_cast<float>(6 / ((17.0 / 16) * 0.93));
  float scale_max = 256;
  std::int64_t group = 128;
};

QuantizedTensor ms_eden(const MatrixView& input, const MsEden& parameters, std::span<const std::uint32_t> words,
                        int threads = 0);

// Blocks are 1x16 along rows, 16x1 along columns; these start again at each expert. p.group: the largest group.
QuantizedTensor ms_eden_of_lines(const MatrixView& input, const MsEden& p, Along along,
                                 std::span<const std::int64_t> offsets, std::span<const std::uint32_t> words,
                                 int threads = 0);

}  // namespace mxcheck
