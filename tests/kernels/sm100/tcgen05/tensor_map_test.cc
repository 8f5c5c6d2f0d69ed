// A tensor map's description and what is refused of it; the map is the emulation's.
#include "kernels/sm100/tcgen05/tensor_map.h"

#include <gtest/gtest.h>

#include <string>

namespace mxcheck::sm100 {
namespace {

alignas(16) unsigned char memory[32];

TensorMapDescription tile() {
  TensorMapDescription d;
  d.base = memory;
  d.extent[0] = 1024, d.extent[1] = 300;
  d.stride[0] = 1, d.stride[1] = 1024;
  d.box[0] = 128, d.box[1] = 128;
  d.swizzle = Swizzle::b128;
  return d;
}

template <class Change>
std::string refusal_after(Change change) {
  TensorMapDescription d = tile();
  change(d);
  TensorMap map;
  map.rank = 77;
  const std::string refusal = encode(d, map);
  EXPECT_EQ(map.rank == 77, !refusal.empty()) << "a refused map is as it was";
  return refusal;
}

TEST(TensorMap, holds_its_description) {
  TensorMap map;
  ASSERT_EQ(encode(tile(), map), "");
  EXPECT_EQ(map.base, memory);
  EXPECT_EQ(map.rank, 2);
  EXPECT_EQ(map.element_bytes, 1);
  EXPECT_EQ(map.extent[0], 1024u);
  EXPECT_EQ(map.extent[1], 300u);
  EXPECT_EQ(map.stride[1], 1024u);
  EXPECT_EQ(map.box[1], 128u);
  EXPECT_EQ(map.swizzle, emulation::sm100::Swizzle::b128);
  EXPECT_EQ(map.extent[2], 0u);
}

TEST(TensorMap, swizzles_keep_their_values) {
  for (const Swizzle swizzle : {Swizzle::none, Swizzle::b128_atom32, Swizzle::b128, Swizzle::b64, Swizzle::b32}) {
    TensorMapDescription d = tile();
    d.box[0] = 16;
    d.swizzle = swizzle;
    TensorMap map;
    ASSERT_EQ(encode(d, map), "");
    EXPECT_EQ(static_cast<int>(map.swizzle), static_cast<int>(swizzle));
  }
}

TEST(TensorMap, refusals_say_what_was_wrong_and_what_would_be_right) {
  using D = TensorMapDescription;
  EXPECT_EQ(refusal_after([](D&) {}), "");
  EXPECT_EQ(refusal_after([](D& d) { d.rank = 6; }), "tensor map: rank is 6; 1 to 5 are possible");
  EXPECT_EQ(refusal_after([](D& d) { d.element_bytes = 3; }), "tensor map: element_bytes is 3; 1, 2 or 4 are possible");
  EXPECT_EQ(refusal_after([](D& d) { d.base = memory + 8; }),
            "tensor map: base is null or not at a multiple of 16 bytes");
  EXPECT_EQ(refusal_after([](D& d) { d.base = nullptr; }), "tensor map: base is null or not at a multiple of 16 bytes");
  EXPECT_EQ(refusal_after([](D& d) { d.stride[0] = 2; }), "tensor map: stride[0] is 2; it is element_bytes");
  EXPECT_EQ(refusal_after([](D& d) { d.stride[1] = 1000; }),
            "tensor map: stride[1] is 1000; multiples of 16 below 2^40 are possible");
  EXPECT_EQ(refusal_after([](D& d) { d.extent[1] = 0; }), "tensor map: extent[1] is 0; 1 to 2^32 are possible");
  EXPECT_EQ(refusal_after([](D& d) { d.box[1] = 257; }), "tensor map: box[1] is 257; 1 to 256 are possible");
  EXPECT_EQ(refusal_after([](D& d) { d.box[0] = 24; }), "tensor map: box[0] is 24; in bytes it is a multiple of 16");
  EXPECT_EQ(refusal_after([](D& d) { d.box[0] = 144; }),
            "tensor map: box[0] is 144; in bytes it is at most the swizzle's span");
  EXPECT_EQ(refusal_after([](D& d) { d.swizzle = Swizzle::b64; }),
            "tensor map: box[0] is 128; in bytes it is at most the swizzle's span");
}

}  // namespace
}  // namespace mxcheck::sm100
