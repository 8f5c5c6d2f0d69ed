// D = A B^T to the bit, as it is summed by different hardware: E4M3 with an FP32 scale for 1 x 128 of A, 128 x 128 of
// B.

#include <mxcheck/mxcheck.h>

#include <cstdio>
#include <span>
#include <vector>

mxcheck::QuantizedTensor quantized(std::int64_t rows, std::int64_t depth, mxcheck::BlockShape block,
                                   std::uint32_t seed) {
  std::vector<float> x(static_cast<std::size_t>(rows * depth));
  for (float& v : x) v = static_cast<float>((seed = seed * 1664525 + 1013904223) >> 8) / 0x1p23F - 1;  // in [-1, 1)
  const mxcheck::MatrixView view{mxcheck::Format::fp32, std::as_bytes(std::span(x)).data(), rows, depth, depth};
  return mxcheck::quantize(view, mxcheck::Format::e4m3, block, mxcheck::recipe_named("fp32"));
}

// Pointers into codes and scales, with their strides.
mxcheck::MatmulOperand operand_of(const mxcheck::QuantizedTensor& q) {
  mxcheck::MatmulOperand operand{q.element(), q.codes.data.data(), q.rows(), q.cols(), q.cols()};
  operand.block = q.block();
  operand.scale_format = mxcheck::Format::fp32;
  operand.scales = q.scales().data.data();
  operand.scale_row_stride = q.scale_cols();
  return operand;
}

int main() {
  const mxcheck::QuantizedTensor a = quantized(2, 512, {1, 128}, 1);
  const mxcheck::QuantizedTensor b = quantized(3, 512, {128, 128}, 2);
  mxcheck::Matmul multiply;
  multiply.a = operand_of(a);
  multiply.b = operand_of(b);
  for (const char* contract : {"exact", "ieee_fp32", "sm90_fp8+promote128"}) {  // docs/contracts.md has them all
    multiply.contract = mxcheck::parse_matmul_contract(contract);
    std::vector<float> d(2 * 3);
    mxcheck::matmul(multiply, d.data());
    std::printf("%-19s  d[0][0] = %.9g  d[1][2] = %.9g\n", contract, d[0], d[5]);
  }
}
