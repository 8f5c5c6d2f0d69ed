#pragma once
// Codes along tokens of the device, every byte and scale compared with the reference's.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/sm90/layer/steps/steps.h"
#include "tests/kernels/sm90/moe/transposed_codes.h"

namespace mxcheck::test {

// Launches `job`, whose source and index are there, and compares with the reference's codes of `values`.
template <class T>
void expect_columns(mxcheck_kernels::sm90::TransposeJob job, const Way& way, const std::vector<T>& values,
                    const Experts& experts, const Target& to, bool vector, const std::string& what) {
  const std::int64_t block = way.coding.block;
  const QuantizedTensor q = quantize(view_of(values, experts.rows(), job.cols), way.format, {block, 1},
                                     recipe_named(way.recipe), experts.offsets);
  const std::vector<std::uint8_t> codes = transposed_codes(q, experts, to);
  const std::vector<std::uint32_t> scales = scale_bits(q);
  const std::int64_t bands = experts.bands.back();
  Output<std::uint8_t> device_codes(static_cast<std::int64_t>(codes.size()));
  Output<std::uint8_t> bytes(job.cols * bands);
  Output<std::uint32_t> words(job.cols * bands);
  job.rows = experts.tiled;
  job.out = {device_codes.data(), bytes.data(), bands, way.coding, to.stride, to.padded};
  if (way.coding.fp32) job.out.scales = words.data();
  ASSERT_EQ(mxcheck_kernels::sm90::launch_transpose(job, vector, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const std::string of = what + ", " + way.recipe + (way.format == Format::e4m3 ? " e4m3" : " e5m2") + ", " +
                         std::to_string(block) + (to.padded ? ", padded" : "");
  EXPECT_EQ(first_difference(codes, device_codes.read(), to.stride == 0 ? experts.rows() : to.stride), "") << of;
  std::vector<std::uint32_t> got = words.read();
  if (!way.coding.fp32) {
    const std::vector<std::uint8_t> b = bytes.read();
    got.assign(b.begin(), b.end());
  }
  std::vector<std::uint32_t> expected(got.size());
  for (std::int64_t b = 0; b < bands; ++b) {
    for (std::int64_t j = 0; j < job.cols; ++j) {
      expected[static_cast<std::size_t>(j * bands + b)] = scales[static_cast<std::size_t>(b * job.cols + j)];
    }
  }
  EXPECT_EQ(first_difference(expected, got, bands), "") << of << ", scales";
}

}  // namespace mxcheck::test
