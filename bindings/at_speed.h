#pragma once
// Large tensors quantized and dequantized by the SIMD library (bindings/simd), straight into the caller's memory; the
// reference computes the first and the last row of blocks and one in 1024 of the others, and compares every bit.
//
// Sampling costs some 3 % of the library's time for 1 GiB of BF16 in 1x32 blocks (benchmarks/python/large_tensors.py).
// That all bytes are equal is for the gate and python/tests/test_engines.py to show, not for the sample.

#include <cstdint>
#include <span>
#include <string_view>

#include "bindings/simd/simd.h"
#include "numerics/format/format.h"
#include "reference/common/matrix.h"

namespace mxcheck::c {

enum class Engine : std::uint8_t { automatic, simd, reference };
Engine engine_of(std::string_view name);
[[noreturn]] void refuse_simd();  // Error{usage}: what the library offers

// blocks.layout: any. Only what offers_simd() and offers_simd_values() say is asked for. Error{internal} where library
// and reference differ.
void quantize_checked(const MatrixView& x, const SimdBlocks& blocks, const Recipe& recipe, std::uint8_t* codes,
                      std::span<std::uint8_t> scales);
void dequantize_checked(const std::uint8_t* codes, std::span<const std::uint8_t> scales, std::int64_t rows,
                        std::int64_t cols, const SimdBlocks& blocks, Format values, void* to);

// Formats by the names that callers have for them: "e4m3", or as PyTorch and ml_dtypes have it, "float8_e4m3fn".

Format format_of(std::string_view name);        // Error{usage} lists all
Format value_format_of(std::string_view name);  // fp32, bf16 or fp16
Format element_of(std::string_view name);       // what blocks are quantized to
BlockShape block_of(std::string_view text);     // a name, or ROWSxCOLS of 1 or more each

}  // namespace mxcheck::c
