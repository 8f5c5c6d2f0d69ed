// A matrix to MXFP8: E4M3 codes, and one E8M0 scale for every 32 values of a row.

#include <mxcheck/mxcheck.h>

#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

int main() {
  constexpr std::int64_t kRows = 2;
  constexpr std::int64_t kCols = 64;
  std::vector<float> x(kRows * kCols);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * i) / 100 - 10;

  // A view of memory that stays the caller's: values of FP32, BF16 or FP16, row-major, rows kCols elements apart.
  const auto bytes = std::as_bytes(std::span(x));
  const mxcheck::MatrixView view{mxcheck::Format::fp32, bytes.data(), kRows, kCols, kCols};

  // The recipe decides every bit: "rceil" is the norm, "te" what Transformer Engine writes (docs/numerics.md).
  const mxcheck::Recipe recipe = mxcheck::recipe_named("rceil");
  const mxcheck::QuantizedTensor q = mxcheck::quantize(view, mxcheck::Format::e4m3, {1, 32}, recipe);
  const std::vector<float> back = mxcheck::dequantize(q);

  const auto scales = q.scales().as<std::uint8_t>();
  for (std::size_t i = 0; i < scales.size(); ++i) {
    std::printf("block %zu: scale 0x%02X = 2^%d\n", i, scales[i], scales[i] - 127);
  }
  for (const std::size_t i : {0, 31, 32, 127}) {
    std::printf("x[%3zu] = %7.2f   code 0x%02X   back %7.2f\n", i, x[i], q.codes.code(i), back[i]);
  }
}
