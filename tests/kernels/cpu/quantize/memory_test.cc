// Where the CPU library's tensors may lie: any element, any row stride, nowhere at all when they are empty.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include "tests/kernels/candidate_call.h"

namespace mxcheck {
namespace {

const mxcheck_operation& quantize() {
  static const mxcheck_operation& quantize = operation(load_candidate(MXCHECK_CPU_LIBRARY), "quantize");
  return quantize;
}

// The bytes of quantizing the same 5 x 70 values however they lie in memory.
std::vector<std::uint8_t> quantized(std::int64_t stride, std::size_t x_shift, std::size_t codes_shift) {
  CandidateCall call(make_policy("e4m3", "rceil", 1, 32));
  call.policy.rows = 5;
  call.policy.cols = 70;
  TestTensor& x = call.matrix(kBf16Type, 5, 70, stride);
  TestTensor& room = call.flat(kU8Type, 5 * 70 + 64);
  TestTensor& scales = call.matrix(kU8Type, 5, 3);
  std::memset(x.memory.data(), 0xFF, x.memory.size());  // NaN in the gaps: must not be looked at
  const std::int64_t step = stride == 0 ? 70 : stride;
  if (x_shift != 0) x.shape[0] = 4;  // the last row is given up for the shift
  for (std::int64_t r = 0; r < 4; ++r) {
    for (std::int64_t c = 0; c < 70; ++c) {
      const std::uint16_t bits = static_cast<std::uint16_t>(0x3F00 + 37 * r + 5 * c);
      std::memcpy(x.memory.data() + x_shift + static_cast<std::size_t>(r * step + c) * 2, &bits, 2);
    }
  }
  call.policy.rows = 4;
  x.shape[0] = scales.shape[0] = 4;
  x.dl.byte_offset = x_shift;
  TestTensor codes{GuardedMemory(0), {4, 70}, {}, room.dl};
  codes.dl.ndim = 2;
  codes.dl.shape = codes.shape.data();
  codes.dl.byte_offset = codes_shift;
  EXPECT_EQ(call.run(quantize(), {&x}, {&codes, &scales}), MXCHECK_OK) << call.message.data();
  EXPECT_TRUE(call.kept_inside());
  const std::vector<std::uint8_t> all = room.bytes();
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(codes_shift);
  EXPECT_EQ(std::count(all.begin(), first, GuardedMemory::kPoison), static_cast<std::ptrdiff_t>(codes_shift));
  EXPECT_EQ(std::count(first + 280, all.end(), GuardedMemory::kPoison), all.end() - first - 280);
  std::vector<std::uint8_t> result(first, first + 280);
  const std::vector<std::uint8_t> scale_bytes = scales.bytes();
  result.insert(result.end(), scale_bytes.begin(), scale_bytes.begin() + 12);
  return result;
}

TEST(CandidateMemory, values_may_lie_at_any_element_and_any_row_stride) {
  const std::vector<std::uint8_t> expected = quantized(0, 0, 0);
  EXPECT_NE(std::set<std::uint8_t>(expected.begin(), expected.end()).size(), 1U);
  for (const std::int64_t stride : {0, 70, 71, 96, 200}) {
    for (const std::size_t x_shift : {0U, 2U, 4U, 62U}) {
      for (const std::size_t codes_shift : {0U, 1U, 3U, 63U}) {
        EXPECT_EQ(quantized(stride, x_shift, codes_shift), expected)
            << stride << ", " << x_shift << ", " << codes_shift;
      }
    }
  }
}

TEST(CandidateMemory, empty_tensors_need_no_data) {
  for (const std::array<std::int64_t, 2> shape : {std::array<std::int64_t, 2>{0, 70}, {5, 0}, {0, 0}}) {
    CandidateCall call(make_policy("e4m3", "rceil", 1, 32));
    call.policy.rows = shape[0];
    call.policy.cols = shape[1];
    TestTensor& x = call.matrix(kBf16Type, shape[0], shape[1]);
    TestTensor& codes = call.matrix(kU8Type, shape[0], shape[1]);
    TestTensor& scales = call.matrix(kU8Type, shape[0], (shape[1] + 31) / 32);
    x.dl.data = codes.dl.data = scales.dl.data = nullptr;
    EXPECT_EQ(call.run(quantize(), {&x}, {&codes, &scales}), MXCHECK_OK) << call.message.data();
  }
}

}  // namespace
}  // namespace mxcheck
