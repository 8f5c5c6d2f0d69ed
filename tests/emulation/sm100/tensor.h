#pragma once
// A tensor in global memory whose elements tell where they are, and a tile of shared memory for its boxes.

#include <array>
#include <cstdint>

#include "kernels/sm100/tcgen05/tma.h"
#include "tests/emulation/sm100/micro.h"

namespace mxcheck::sm100::test {

inline constexpr unsigned kTile = 4096;  // in shared memory, at a multiple of 1024
inline constexpr unsigned kTileBytes = 8192;
inline SharedAddress tile() { return shared_base() + kTile; }

// Launch shapes with the tile's bytes.
inline constexpr LaunchShape kTileOneWarp{.threads = 32, .shared_bytes = kTile + kTileBytes};
inline constexpr LaunchShape kTileTwoWarps{.threads = 64, .shared_bytes = kTile + kTileBytes};
inline constexpr LaunchShape kTilePair{.blocks = 2, .threads = 32, .cluster = 2, .shared_bytes = kTile + kTileBytes};

// A tensor of up to three dimensions whose elements tell where they are. Strides are larger than rows.
struct Tensor {
  alignas(16) std::array<std::uint8_t, 40'000> bytes{};
  TensorMapDescription d;

  Tensor(int rank, int element, std::array<unsigned, 3> extent, std::array<unsigned, 3> box, Swizzle swizzle) {
    d.base = bytes.data(), d.rank = rank, d.element_bytes = element, d.swizzle = swizzle;
    std::uint64_t stride = static_cast<unsigned>(element);
    for (unsigned i = 0; i < 3; ++i) {
      d.extent[i] = extent[i], d.box[i] = box[i], d.stride[i] = stride;
      stride = (stride * extent[i] + 31) / 16 * 16;
    }
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 37 + i / 256 + 1);
  }
  [[nodiscard]] TensorMap map() const {
    TensorMap map;
    EXPECT_EQ(encode(d, map), "");
    return map;
  }
  [[nodiscard]] unsigned box_bytes() const {
    return d.box[0] * (d.rank > 1 ? d.box[1] : 1) * (d.rank > 2 ? d.box[2] : 1) *
           static_cast<unsigned>(d.element_bytes);
  }
  // Byte b of the box at `at`: 0 outside of the tensor; and where in the tensor it is, -1 outside.
  [[nodiscard]] std::int64_t offset(std::array<int, 3> at, unsigned b) const {
    const auto element = static_cast<unsigned>(d.element_bytes);
    unsigned rest = b / element;
    std::int64_t offset = b % element;
    for (int i = 0; i < d.rank; ++i) {
      const std::int64_t x = at[static_cast<std::size_t>(i)] + static_cast<std::int64_t>(rest % d.box[i]);
      if (x < 0 || x >= static_cast<std::int64_t>(d.extent[i])) return -1;
      offset += x * static_cast<std::int64_t>(d.stride[i]);
      rest /= d.box[i];
    }
    return offset;
  }
};

inline Tensor plain() { return {2, 1, {128, 32, 1}, {128, 16, 1}, Swizzle::b128}; }

// Where byte b of a box of rows of a span's bytes lies (a row of the box is `row` bytes): units of 16 bytes are
// exchanged by bits of the line of 128 bytes that they are in.
inline unsigned placed(Swizzle swizzle, unsigned b) {
  const unsigned line = b / 128 % 8;
  switch (swizzle) {
    case Swizzle::b128: return b ^ line * 16;
    case Swizzle::b64: return b ^ line % 4 * 16;
    case Swizzle::b32: return b ^ line % 2 * 16;
    default: return b;
  }
}

inline void open_barriers(unsigned count = 1) {
  init_barriers({count, count, count, count});
  cluster_sync();
}

}  // namespace mxcheck::sm100::test
