#pragma once
// The randomized Hadamard transform (RHT) that recipes of NVFP4 apply before they quantize. It spreads an outlier over
// its group, and it cancels in a product whose two operands are transformed alike along K.
//
// Each group of n elements along the rows (or down the columns) becomes
//
//   y_j = c * sum over i of (-1)^popcount(i & j) * s_i * x_i,      c = 1 / sqrt(n),   i, j = 0 ... n - 1
//
// which is Sylvester's matrix (the natural order) times a diagonal of signs s. With exact sums the transform is
// orthogonal: the transform without signs gives s_i * x_i back.
//
// The sum is one of three, since implementations differ in bits:
//
//   exact      one rounding of c times the exact sum to the type of the result. c is 1/4 or 1/8 for 16 and 64;
//              for 32 and 128 it is RN(1 / sqrt(n)) in FP32
//   butterfly  log2(n) stages h = 1, 2, 4, ...: of every pair (i, i + h) the sum goes to i, the difference to i + h,
//              each rounded to FP32; then RN(v * c), and a rounding to the type of the result
//   matrix     a product with the matrix, as GEMM kernels do it: x rounded to BF16, entries +-RN(c) in BF16, summed
//              under the contract sm90_bf16 (or any other of BF16 operands), then rounded to the type of the result
//
//   const Tensor y = hadamard(x, {.size = 16, .signs = {0x2D4B}, .result = Format::bf16}, Along::rows);
//
// Sources: Sylvester (1867); NVIDIA, Pretraining Large Language Models with NVFP4 (arXiv 2509.25149), appendix C;
// Quartet II (arXiv 2601.22813).
//
// Errors: Error{usage} for a size that is none of 16, 32, 64, 128, a result that is none of FP32, BF16 and FP16, a
// contract that takes no BF16, columns (or rows, or an expert's rows) that are no multiple of the size, and whatever
// check_matrix refuses; Error{environment} without memory. Threads (0: the machine's) change nothing but the time.
//
// Does not promise: the sign or payload of a NaN: every NaN of the result is the format's own code.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "numerics/names.h"
#include "numerics/tensor.h"
#include "reference/common/matrix.h"

namespace mxcheck {

enum class HadamardSum : std::uint8_t { exact, butterfly, matrix };

inline constexpr std::array<Named<HadamardSum>, 3> kHadamardSums{
    {{"exact", HadamardSum::exact}, {"butterfly", HadamardSum::butterfly}, {"matrix", HadamardSum::matrix}}};

inline constexpr std::array<int, 4> kHadamardSizes{16, 32, 64, 128};

struct Hadamard {
  int size = 16;
  std::array<std::uint32_t, 4> signs{};  // bit i % 32 of word i / 32: element i of every group changes its sign
  HadamardSum sum = HadamardSum::exact;
  std::string contract = "sm90_bf16";  // of HadamardSum::matrix
  Format result = Format::bf16;
};

// Groups are consecutive elements of a row, or of a column. With expert offsets groups of a column restart at every
// expert's first row.
enum class Along : std::uint8_t { rows, columns };

// The matrix, transformed: a tensor of `result` and the input's shape.
Tensor hadamard(const MatrixView& input, const Hadamard& transform, Along along,
                std::span<const std::int64_t> offsets = {}, int threads = 0);

}  // namespace mxcheck
