// Operands gathered from every layout that they can have in shared memory.

#include "emulation/sm100/tensor_core/shared_matrix.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <vector>

#include "numerics/error.h"
#include "tests/emulation/sm100/tensor_core/layouts.h"

namespace mxcheck::emulation::sm100 {
namespace {

std::vector<std::byte> random_bytes(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random() & 0xFF);
  return bytes;
}

TEST(Gather, an_operand_comes_out_by_row_from_every_layout) {
  const std::vector<std::byte> around = random_bytes(232448, 7);
  for (const std::uint32_t bytes : {1U, 2U}) {
    for (const std::uint32_t rows : {16U, 96U, 128U, 256U}) {
      const std::vector<std::byte> operand = random_bytes(static_cast<std::size_t>(rows) * 32, rows + bytes);
      for (const test::Placed& p : test::placements(rows, bytes, 10240)) {
        std::vector<std::byte> shared = around;
        for (std::size_t i = 0; i < p.offsets.size(); ++i) {
          for (std::size_t byte = 0; byte < bytes; ++byte) shared[p.offsets[i] + byte] = operand[i * bytes + byte];
        }
        std::vector<std::uint8_t> out(operand.size() + 1, 0xA5);
        gather(p.matrix, p.layout, shared, out.data());
        for (std::size_t i = 0; i < operand.size(); ++i) {
          ASSERT_EQ(out[i], static_cast<std::uint8_t>(operand[i]))
              << p.name << ", " << rows << " rows of " << bytes << " bytes: row " << i / 32 << ", byte " << i % 32;
        }
        ASSERT_EQ(out.back(), 0xA5) << p.name << ": written past the end";
      }
    }
  }
}

TEST(Gather, an_operand_outside_of_shared_memory_is_refused) {
  std::vector<std::uint8_t> out(128 * 32);
  const SharedMatrix matrix{0, 0, 1024, Swizzle::b128, 0};
  const OperandLayout layout{false, 1, 128, 32};
  EXPECT_NO_THROW(gather(matrix, layout, std::vector<std::byte>(128 * 128), out.data()));
  EXPECT_THROW(gather(matrix, layout, std::vector<std::byte>(128 * 128 - 1), out.data()), Error);
}

}  // namespace
}  // namespace mxcheck::emulation::sm100
