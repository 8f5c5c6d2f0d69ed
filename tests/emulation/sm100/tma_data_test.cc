// TMA (PTX ISA 9.0, 9.7.9.27): boxes in every swizzle against loops over elements.

#include <array>
#include <cstring>

#include "tests/emulation/sm100/tensor.h"

namespace mxcheck::sm100::test {
namespace {

void load(const TensorMap* map, int rank, std::array<int, 3> at) {
  if (rank == 3) return tma_load(tile(), map, barrier(0), at[0], at[1], at[2]);
  if (rank == 2) return tma_load(tile(), map, barrier(0), at[0], at[1]);
  emulation::sm100::tma_load({.to = tile(), .map = map, .at = std::span(at).first(1), .barrier = barrier(0)});
}
void store(const TensorMap* map, int rank, std::array<int, 3> at) {
  if (rank == 3) return tma_store(map, tile(), at[0], at[1], at[2]);
  if (rank == 2) return tma_store(map, tile(), at[0], at[1]);
  emulation::sm100::tma_store(map, std::span(at).first(1), tile());
}
struct Box {
  int rank, element;
  std::array<unsigned, 3> extent, box;
  Swizzle swizzle;
  std::array<int, 3> at;
};
constexpr std::array kBoxes{
    Box{1, 1, {100, 1, 1}, {64, 1, 1}, Swizzle::none, {5, 0, 0}},
    Box{1, 4, {100, 1, 1}, {64, 1, 1}, Swizzle::none, {70, 0, 0}},
    Box{2, 1, {150, 40, 1}, {128, 20, 1}, Swizzle::b128, {3, 7, 0}},
    Box{2, 1, {150, 40, 1}, {128, 20, 1}, Swizzle::b128, {-60, 30, 0}},
    Box{2, 2, {150, 40, 1}, {32, 24, 1}, Swizzle::b64, {130, -5, 0}},
    Box{2, 4, {50, 40, 1}, {8, 24, 1}, Swizzle::b32, {-3, 20, 0}},
    Box{2, 2, {150, 40, 1}, {8, 24, 1}, Swizzle::b32, {11, 20, 0}},
    Box{2, 1, {150, 40, 1}, {16, 16, 1}, Swizzle::none, {200, 0, 0}},
    Box{3, 1, {70, 9, 5}, {64, 4, 4}, Swizzle::b64, {10, 7, 3}},
    Box{3, 4, {20, 9, 5}, {32, 4, 4}, Swizzle::b128, {-7, -2, -1}},
    Box{3, 2, {70, 9, 5}, {32, 4, 4}, Swizzle::none, {1, 2, -9}},
};
std::string text(const Box& b) {
  return "rank " + std::to_string(b.rank) + ", elements of " + std::to_string(b.element) + ", box of " +
         std::to_string(b.box[0]) + ", swizzle " + std::to_string(static_cast<int>(b.swizzle));
}

TEST(TmaData, loads_are_the_boxes_elements_and_zeros_outside) {
  for (const Box& b : kBoxes) {
    SCOPED_TRACE(text(b));
    const Tensor tensor(b.rank, b.element, b.extent, b.box, b.swizzle);
    const TensorMap map = tensor.map();
    const unsigned bytes = tensor.box_bytes();
    std::vector<std::uint8_t> got(kTileBytes);
    // Rows shorter than the span lie one after another: the swizzle is of addresses.
    expect_right(
        kTileOneWarp,
        [&] {
          open_barriers();
          if (elect()) {
            barrier_arrive_expect<Scope::cta>(barrier(0), bytes);
            load(&map, b.rank, b.at);
          }
          barrier_wait<Scope::cta>(barrier(0), 0);
          for (unsigned i = 4 * lane_index(); i < bytes; i += 128) {
            const auto word = load_shared<std::uint32_t>(tile() + i);
            std::memcpy(got.data() + i, &word, 4);
          }
        },
        [&] {
          for (unsigned i = 0; i < bytes; ++i) {
            const std::int64_t from = tensor.offset(b.at, i);
            ASSERT_EQ(got[placed(b.swizzle, i)], from < 0 ? 0 : tensor.bytes[static_cast<std::size_t>(from)]) << i;
          }
        });
  }
}
TEST(TmaData, stores_write_the_boxes_elements_and_nothing_outside) {
  for (const Box& b : kBoxes) {
    SCOPED_TRACE(text(b));
    Tensor tensor(b.rank, b.element, b.extent, b.box, b.swizzle);
    const TensorMap map = tensor.map();
    const unsigned bytes = tensor.box_bytes();
    const auto value = [](unsigned i) { return static_cast<std::uint8_t>(255 - i * 11); };
    const auto before = tensor.bytes;
    expect_right(
        kTileOneWarp,
        [&] {
          for (unsigned i = 4 * lane_index(); i < bytes; i += 128) {
            std::array<std::uint8_t, 4> four{};
            for (unsigned k = 0; k < 4; ++k) four[k] = value(i + k);
            std::uint32_t word = 0;
            std::memcpy(&word, four.data(), 4);
            store_shared(tile() + i, word);
          }
          fence_proxy_async();
          sync_warp();
          if (elect()) {
            store(&map, b.rank, b.at);
            bulk_commit_group();
            bulk_wait_group<0>();
          }
        },
        [&] {
          auto right = before;
          for (unsigned i = 0; i < bytes; ++i) {
            const std::int64_t to = tensor.offset(b.at, i);
            if (to >= 0) right[static_cast<std::size_t>(to)] = value(placed(b.swizzle, i));
          }
          ASSERT_TRUE(tensor.bytes == right);
          tensor.bytes = before;
        });
  }
}

}  // namespace
}  // namespace mxcheck::sm100::test
