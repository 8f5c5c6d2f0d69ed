#pragma once
// Operands as TMA, or a kernel's own stores, leave them in shared memory: written down from what each layout looks like
// there, not from descriptors.

#include <cstdint>
#include <string>
#include <vector>

#include "emulation/sm100/tensor_core/shared_matrix.h"

namespace mxcheck::emulation::sm100::test {

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

}  // namespace mxcheck::emulation::sm100::test
