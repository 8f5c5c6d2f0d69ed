// Matrix descriptors bit by bit, and the addresses that they stand for against tiles as TMA writes them.

#include "emulation/sm100/tensor_core/shared_matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "numerics/error.h"

namespace mxcheck::emulation::sm100 {
namespace test {

// Operands as TMA, or a kernel's own stores, leave them in shared memory: written down from what each layout looks like
// there, not from descriptors.

// A box of rows of 32, 64 or 128 bytes that TMA wrote with that swizzle: byte c of row r, from the box's start (at a
// multiple of 1024). The 16-byte units of each 128-byte line are exchanged by the line's number.
inline std::uint32_t in_box(std::uint32_t span, std::uint32_t r, std::uint32_t c) {
  switch (span) {
    case 128: return r * 128 + (c ^ (r % 8 * 16));
    case 64: return r * 64 + (c ^ (r / 2 % 4 * 16));
    default: return r * 32 + (c ^ (r / 4 % 2 * 16));
  }
}

// Core matrices of 8 rows of 16 bytes, `row_step` bytes between those of neighbouring 8 rows, `unit_step` bytes between
// those of neighbouring 16 bytes.
inline std::uint32_t in_cores(std::uint32_t row_step, std::uint32_t unit_step, std::uint32_t r, std::uint32_t c) {
  return r / 8 * row_step + c / 16 * unit_step + r % 8 * 16 + c % 16;
}

struct Placed {
  std::string name;
  SharedMatrix matrix;
  OperandLayout layout;
  std::vector<std::uint32_t> offsets;  // of element [row * k + k]'s first byte
};

inline Swizzle swizzle_of(std::uint32_t span) {
  return span == 128 ? Swizzle::b128 : span == 64 ? Swizzle::b64 : span == 32 ? Swizzle::b32 : Swizzle::none;
}

// Every layout of an operand of `rows` rows, at `start` (a multiple of 1024).
inline std::vector<Placed> placements(std::uint32_t rows, std::uint32_t bytes, std::uint32_t start) {
  std::vector<Placed> all;
  const std::uint32_t k = 32 / bytes;
  const std::uint32_t row_bytes = rows * bytes;  // of one k, along MN
  const auto add = [&](const std::string& name, bool mn_major, const SharedMatrix& matrix, auto&& offset) {
    Placed p{name, matrix, {mn_major, static_cast<int>(bytes), static_cast<int>(rows), static_cast<int>(k)}, {}};
    for (std::uint32_t r = 0; r < rows; ++r) {
      for (std::uint32_t i = 0; i < k; ++i) p.offsets.push_back(start + offset(r, i));
    }
    all.push_back(p);
  };
  for (const std::uint32_t span : {32U, 64U, 128U}) {
    const Swizzle swizzle = swizzle_of(span);
    // K-major: a box of `rows` rows; each step of K starts 32 bytes further in the first row.
    for (std::uint32_t step = 0; step < span / 32; ++step) {
      const SharedMatrix matrix{start + step * 32, 16, 8 * span, swizzle, 0};
      add("K-major, " + std::to_string(span) + ", step " + std::to_string(step), false, matrix,
          [&](std::uint32_t r, std::uint32_t i) { return in_box(span, r, step * 32 + i * bytes); });
    }
    // MN-major: boxes of 48 k by `span` bytes of MN, one after another; the operand is from k 8 on.
    if (row_bytes % span != 0) continue;
    const std::uint32_t box = 48 * span + (48 * span % 1024 == 0 ? 0 : 512);
    add("MN-major, " + std::to_string(span), true, {start + 8 * span, box, 8 * span, swizzle, 0},
        [&](std::uint32_t r, std::uint32_t i) {
          return r * bytes / span * box + in_box(span, i + 8, r * bytes % span);
        });
  }
  // No swizzle: units next to each other, or rows next to each other with a gap.
  add("K-major, none, units first", false, {start, 128, 256, Swizzle::none, 0},
      [&](std::uint32_t r, std::uint32_t i) { return in_cores(256, 128, r, i * bytes); });
  add("K-major, none, rows first", false, {start + 48, rows * 16 + 16, 128, Swizzle::none, 0},
      [&](std::uint32_t r, std::uint32_t i) { return 48 + in_cores(128, rows * 16 + 16, r, i * bytes); });
  add("MN-major, none, units first", true, {start, row_bytes * 8, 128, Swizzle::none, 0},
      [&](std::uint32_t r, std::uint32_t i) { return in_cores(row_bytes * 8, 128, i, r * bytes); });
  add("MN-major, none, k first", true, {start + 16, 128, 1040, Swizzle::none, 0},
      [&](std::uint32_t r, std::uint32_t i) { return 16 + in_cores(128, 1040, i, r * bytes); });
  return all;
}

}  // namespace test

namespace {

constexpr std::uint32_t kShared = 232448;  // what a CTA can have of it on sm_100
constexpr std::uint64_t kConstant = std::uint64_t{1} << 46;

constexpr std::uint64_t field_at(std::uint64_t value, int low) { return value << low; }

std::string one_of(const std::vector<std::string>& problems) {
  EXPECT_EQ(problems.size(), 1U);
  return problems.empty() ? "" : problems[0];
}

void expect_text(const std::vector<std::string>& problems, const std::string& text) {
  const std::string found = one_of(problems);
  EXPECT_NE(found.find(text), std::string::npos) << found << "\nhas not: " << text;
}

TEST(SharedMatrix, every_field_is_read) {
  const auto d = [](std::uint64_t bits) { return decode_shared_matrix(kConstant | bits); };
  EXPECT_EQ(d(0).matrix, SharedMatrix{});
  EXPECT_EQ(d(field_at(0x3FFF, 0)).matrix, (SharedMatrix{.start = 0x3FFF0}));
  EXPECT_EQ(d(field_at(0x3FFF, 16)).matrix, (SharedMatrix{.leading = 0x3FFF0}));
  EXPECT_EQ(d(field_at(0x3FFF, 32)).matrix, (SharedMatrix{.stride = 0x3FFF0}));
  EXPECT_EQ(d(field_at(2, 61)).matrix.swizzle, Swizzle::b128);
  EXPECT_EQ(d(field_at(4, 61)).matrix.swizzle, Swizzle::b64);
  EXPECT_EQ(d(field_at(6, 61)).matrix.swizzle, Swizzle::b32);
  for (int bit = 0; bit < 46; ++bit) {
    const bool reserved = bit == 14 || bit == 15 || bit == 30 || bit == 31;
    EXPECT_EQ(d(field_at(1, bit)).problems.empty(), !reserved) << bit;
  }
  // The descriptor of MXFP8's tiles: 128-byte rows at 0x8400, step 1 of K.
  const DecodedMatrix usual = decode_shared_matrix(0x4000404000010842);
  EXPECT_TRUE(usual.problems.empty());
  EXPECT_EQ(usual.matrix, (SharedMatrix{0x8420, 16, 1024, Swizzle::b128, 0}));
}

TEST(SharedMatrix, problems_of_descriptors_say_where_they_are) {
  const auto problems = [](std::uint64_t bits) { return decode_shared_matrix(bits).problems; };
  expect_text(problems(kConstant | field_at(2, 14)), "bits 15:14 = 2 where 0 is right");
  expect_text(problems(kConstant | field_at(1, 30)), "bits 31:30 = 1 where 0 is right");
  expect_text(problems(0), "bits 48:46 = 0 where 1 is right");
  expect_text(problems(field_at(3, 46)), "bits 48:46 = 3 where 1 is right");
  expect_text(problems(kConstant | field_at(5, 49)), "bits 51:49 = 5 is a base offset, which is not modelled");
  EXPECT_EQ(decode_shared_matrix(kConstant | field_at(5, 49)).matrix.base_offset, 5);
  expect_text(problems(kConstant | field_at(1, 52)), "bit 52 = 1 makes the leading offset absolute");
  expect_text(problems(kConstant | field_at(0x80, 53)), "bits 60:53 = 128 where 0 is right");
  expect_text(problems(kConstant | field_at(1, 61)), "bits 63:61 = 1 is the 128-byte swizzle with 32-byte atoms");
  for (const std::uint64_t swizzle : {3U, 5U, 7U}) {
    expect_text(problems(kConstant | field_at(swizzle, 61)),
                "bits 63:61 = " + std::to_string(swizzle) + " is no swizzle");
  }
  EXPECT_EQ(problems(~std::uint64_t{0}).size(), 7U);
}

TEST(SharedMatrix, swizzles_exchange_the_units_of_a_line) {
  EXPECT_EQ(swizzled(Swizzle::none, 0x3FF), 0x3FFU);
  EXPECT_EQ(swizzled(Swizzle::b32, 0x080), 0x090U);
  EXPECT_EQ(swizzled(Swizzle::b32, 0x100), 0x100U);
  EXPECT_EQ(swizzled(Swizzle::b64, 0x185), 0x1B5U);
  EXPECT_EQ(swizzled(Swizzle::b128, 0x3F0), 0x380U);
  EXPECT_EQ(swizzled(Swizzle::b128, 0x400), 0x400U);
  EXPECT_EQ(swizzle_span(Swizzle::none), 16U);
  EXPECT_EQ(swizzle_span(Swizzle::b32), 32U);
  EXPECT_EQ(swizzle_span(Swizzle::b64), 64U);
  EXPECT_EQ(swizzle_span(Swizzle::b128), 128U);
}

TEST(SharedMatrix, elements_are_where_tma_and_core_matrices_put_them) {
  for (const std::uint32_t bytes : {1U, 2U}) {
    for (const std::uint32_t rows : {16U, 64U, 128U, 256U}) {
      for (const test::Placed& p : test::placements(rows, bytes, 3072)) {
        ASSERT_EQ(operand_problems(p.matrix, p.layout, kShared), std::vector<std::string>{}) << p.name;
        for (int row = 0; row < p.layout.rows; ++row) {
          for (int k = 0; k < p.layout.k; ++k) {
            ASSERT_EQ(element_address(p.matrix, p.layout, row, k),
                      p.offsets[static_cast<std::size_t>(row * p.layout.k + k)])
                << p.name << ", " << rows << " rows of " << bytes << " bytes: row " << row << ", k " << k;
          }
        }
      }
    }
  }
}

TEST(SharedMatrix, units_are_those_of_the_elements_in_their_order) {
  for (const std::uint32_t bytes : {1U, 2U}) {
    for (const test::Placed& p : test::placements(128, bytes, 1024)) {
      const std::vector<std::uint32_t> units = operand_units(p.matrix, p.layout);
      std::set<std::uint32_t> touched;
      for (const std::uint32_t offset : p.offsets) touched.insert(offset / 16 * 16);
      EXPECT_EQ(units.size(), touched.size()) << p.name;
      EXPECT_EQ(std::set(units.begin(), units.end()), touched) << p.name;
      const int per_unit = 16 / static_cast<int>(bytes);
      for (std::size_t i = 0; i < units.size(); ++i) {
        const int n = static_cast<int>(i) * per_unit;
        const bool mn = p.layout.mn_major;
        const int row = mn ? n % p.layout.rows : n / p.layout.k;
        const int k = mn ? n / p.layout.rows : n % p.layout.k;
        EXPECT_EQ(units[i], element_address(p.matrix, p.layout, row, k)) << p.name;
      }
    }
  }
}

TEST(SharedMatrix, a_swizzled_operand_starts_in_the_first_row_of_an_atom) {
  const OperandLayout k_major{false, 1, 128, 32};
  for (const std::uint32_t span : {32U, 64U, 128U}) {
    for (std::uint32_t start = 0; start < 16 * span; start += 16) {
      const SharedMatrix matrix{start, 0, 8 * span, test::swizzle_of(span), 0};
      const bool first_row = start % (8 * span) < span;
      const bool fits = start % span + 32 <= span;
      EXPECT_EQ(operand_problems(matrix, k_major, kShared).size(), (first_row ? 0U : 1U) + (fits ? 0U : 1U))
          << span << " " << start;
    }
  }
  expect_text(operand_problems({1024 + 384, 0, 1024, Swizzle::b128, 0}, k_major, kShared),
              "starts at 1408, in row 3 of a 128-byte swizzle: the first row, up to 112 after a multiple of 1024");
  expect_text(operand_problems({1024 + 112, 0, 1024, Swizzle::b128, 0}, k_major, kShared),
              "reads 32 bytes at 112 of a row of a 128-byte swizzle, past its end");
  expect_text(operand_problems({1024, 0, 1152, Swizzle::b128, 0}, k_major, kShared),
              "the stride offset 1152 with a 128-byte swizzle: only multiples of 1024");
  // An operand along MN: part of a span, one span, several of them.
  const SharedMatrix within{1024 + 64, 2048, 1024, Swizzle::b128, 0};
  EXPECT_TRUE(operand_problems(within, {true, 1, 64, 32}, kShared).empty());
  expect_text(operand_problems(within, {true, 1, 128, 32}, kShared), "reads 128 bytes at 64 of a row");
  expect_text(operand_problems(within, {true, 1, 256, 32}, kShared), "reads 128 bytes at 64 of a row");
  EXPECT_TRUE(operand_problems({1024, 16, 1024, Swizzle::b128, 0}, {true, 1, 128, 32}, kShared).empty());
  expect_text(operand_problems({1024, 16, 1024, Swizzle::b128, 0}, {true, 1, 256, 32}, kShared),
              "the leading offset 16 with a 128-byte swizzle: only multiples of 1024");
}

TEST(SharedMatrix, an_operand_ends_within_shared_memory) {
  for (const std::uint32_t bytes : {1U, 2U}) {
    for (const test::Placed& p : test::placements(128, bytes, 2048)) {
      const std::uint32_t end = *std::max_element(p.offsets.begin(), p.offsets.end()) + bytes;
      EXPECT_TRUE(operand_problems(p.matrix, p.layout, end).empty()) << p.name;
      expect_text(operand_problems(p.matrix, p.layout, end - 1), "shared memory has " + std::to_string(end - 1));
    }
  }
  expect_text(operand_problems({0, 0x3FFF0, 0x3FFF0, Swizzle::none, 0}, {false, 1, 128, 32}, kShared),
              "the operand reads 16 bytes at 262128 (row 0, unit 1): shared memory has 232448");
}

TEST(SharedMatrix, copies_read_rows_of_units) {
  // A 128x4 chunk of scales: row r of 32 has 16 bytes, one after another.
  const SharedMatrix chunk{5120, 0, 128, Swizzle::none, 0};
  for (int row = 0; row < 32; ++row) EXPECT_EQ(cp_address(chunk, row, 0), 5120U + static_cast<std::uint32_t>(row) * 16);
  for (const std::uint32_t span : {32U, 64U, 128U}) {
    const SharedMatrix box{2048, 0, 8 * span, test::swizzle_of(span), 0};
    for (std::uint32_t row = 0; row < 128; ++row) {
      for (std::uint32_t unit = 0; unit < 2; ++unit) {
        EXPECT_EQ(cp_address(box, static_cast<int>(row), static_cast<int>(unit)),
                  2048 + test::in_box(span, row, unit * 16));
      }
    }
  }
  EXPECT_EQ(cp_address({0, 4096, 256, Swizzle::none, 0}, 11, 1), 4096U + 256 + 3 * 16);
  EXPECT_TRUE(cp_problems(chunk, CpShape::rows32x128b_warpx4, 5120 + 512).empty());
  expect_text(cp_problems(chunk, CpShape::rows32x128b_warpx4, 5120 + 511),
              "the copy reads 16 bytes at 5616 (row 31, unit 0): shared memory has 5631");
  expect_text(cp_problems({128, 0, 1024, Swizzle::b128, 0}, CpShape::rows4x256b, kShared), "the copy starts at 128");
  expect_text(cp_problems({16, 0, 256, Swizzle::b32, 0}, CpShape::rows128x256b, kShared),
              "the copy reads 32 bytes at 16");
  EXPECT_TRUE(cp_problems({16, 0, 256, Swizzle::b32, 0}, CpShape::rows128x128b, kShared).empty());
}

// By the pictures of the PTX ISA: each shape fills the lanes that it names, every row as often as it says.
TEST(SharedMatrix, copies_reach_the_lanes_of_their_shape) {
  const auto lanes = [](CpShape shape, int row) {
    std::vector<int> all;
    for (int copy = 0; copy < cp_source(shape).lanes; ++copy) all.push_back(cp_lane(shape, row, copy));
    return all;
  };
  EXPECT_EQ(lanes(CpShape::rows32x128b_warpx4, 5), (std::vector{5, 37, 69, 101}));
  EXPECT_EQ(lanes(CpShape::rows128x128b, 77), std::vector{77});
  EXPECT_EQ(lanes(CpShape::rows128x256b, 127), std::vector{127});
  EXPECT_EQ(lanes(CpShape::rows4x256b, 3), std::vector{96});
  EXPECT_EQ(lanes(CpShape::rows64x128b_02_13, 33), (std::vector{33, 97}));
  EXPECT_EQ(lanes(CpShape::rows64x128b_01_23, 33), (std::vector{65, 97}));
  for (const CpShape shape : {CpShape::rows32x128b_warpx4, CpShape::rows128x128b, CpShape::rows128x256b,
                              CpShape::rows64x128b_02_13, CpShape::rows64x128b_01_23}) {
    std::set<int> all;
    for (int row = 0; row < cp_source(shape).rows; ++row) {
      for (const int lane : lanes(shape, row)) EXPECT_TRUE(all.insert(lane).second);
    }
    EXPECT_EQ(all.size(), 128U);
  }
  EXPECT_EQ(cp_source(CpShape::rows4x256b).units, 2);
  EXPECT_EQ(cp_source(CpShape::rows128x256b).units, 2);
  EXPECT_EQ(cp_source(CpShape::rows32x128b_warpx4).units, 1);
}

TEST(SharedMatrix, wrong_requests_are_refused) {
  EXPECT_THROW(operand_units({}, {false, 1, 128, 16}), Error);
  EXPECT_THROW(operand_units({}, {false, 4, 128, 8}), Error);
  EXPECT_THROW(operand_units({}, {false, 1, 0, 32}), Error);
  EXPECT_THROW(operand_units({}, {true, 1, 8, 32}), Error);
  EXPECT_NO_THROW(operand_units({}, {true, 2, 8, 16}));
  EXPECT_THROW(operand_problems({.swizzle = Swizzle::b128_atom32}, {false, 1, 128, 32}, kShared), Error);
}

// --- gather
// Operands gathered from every layout that they can have in shared memory.

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
