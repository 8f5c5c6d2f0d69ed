#include "reference/error/scale_set.h"

#include <gtest/gtest.h>

#include <limits>

namespace mxcheck {
namespace {

TEST(ScaleSet, counts_floats_by_their_bits) {
  ScaleSet set;
  EXPECT_EQ(set.count(), 0U);
  for (const float scale : {1.0F, 1.0F, 1.5F, -1.0F, 0.0F, -0.0F, 0x1p-149F, std::numeric_limits<float>::max(), 1.5F,
                            std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::quiet_NaN()})
    set.add(scale);
  EXPECT_EQ(set.count(), 8U);
}

}  // namespace
}  // namespace mxcheck
