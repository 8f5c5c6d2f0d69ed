#include "tools/common/text.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

TEST(Text, writes_numbers_that_read_back) {
  EXPECT_EQ(decimal(0.1), "0.1");
  EXPECT_EQ(decimal(0.1F), "0.1");
  EXPECT_EQ(decimal(static_cast<double>(0.1F)), "0.10000000149011612");
  EXPECT_EQ(decimal(std::copysign(NAN, -1.0)), "nan");
  EXPECT_EQ(decimal(-INFINITY), "-inf");
  EXPECT_EQ(hex(0x7E, 8), "0x7e");
  EXPECT_EQ(hex(1, 12), "0x001");
  EXPECT_EQ(hex(1, 32), "0x00000001");
}

TEST(Text, gives_errors_a_place_and_keeps_their_kind) {
  test::expect_error(ErrorKind::input, "x.npy: two rows",
                     [] { in_place("x.npy", [] { throw Error(ErrorKind::input, "two rows"); }); });
  in_place("x.npy", [] {});
}

TEST(Text, prints_every_byte_on_standard_output) {
  testing::internal::CaptureStdout();
  print("a\x01\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "a\x01\n");
}

}  // namespace
}  // namespace mxcheck
