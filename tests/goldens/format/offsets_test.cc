#include "goldens/format/offsets.h"

#include <gtest/gtest.h>

#include "goldens/io/tensor_file.h"
#include "numerics/bytes.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

const std::vector<std::int64_t> kOffsets{0, 96, 192};

TEST(Offsets, are_numbers_with_commas_blanks_or_line_ends_between) {
  for (const char* text : {"0,96,192", "0 96 192", " 0 , 96,\n192,", "0\t96\r\n192\n"}) {
    EXPECT_EQ(parse_offsets(text, "t"), kOffsets) << text;
  }
  EXPECT_EQ(offsets_to_text(kOffsets), "0,96,192");
  EXPECT_EQ(offsets_to_text({}), "");
  for (const char* text : {"a", "0,,1", "-1", "0x10", "0;1", "+1", "9223372036854775808"}) {
    expect_error(ErrorKind::usage, "t: expected numbers like 0,96,192", [&] { parse_offsets(text, "t"); });
  }
  expect_error(ErrorKind::usage, "t: no numbers", [] { parse_offsets(" \n", "t"); });
}

TEST(Offsets, are_read_from_a_text_and_from_a_vector) {
  const test::TemporaryDirectory dir;
  test::write_file(dir / "o.txt", "0\n96\n192\n");
  EXPECT_EQ(read_offsets(dir / "o.txt"), kOffsets);
  write_npy(dir / "o.npy", {"", Dtype::i64, {3}, to_bytes(kOffsets)});
  EXPECT_EQ(read_offsets(dir / "o.npy"), kOffsets);
  write_npy(dir / "narrow.npy", {"", Dtype::i32, {2}, to_bytes(std::vector<std::int32_t>{-1, 7})});
  EXPECT_EQ(read_offsets(dir / "narrow.npy"), (std::vector<std::int64_t>{-1, 7}));
  write_npy(dir / "matrix.npy", {"", Dtype::i64, {1, 3}, to_bytes(kOffsets)});
  expect_error(ErrorKind::input, "one vector of I64 or I32", [&] { read_offsets(dir / "matrix.npy"); });
  test::write_file(dir / "large", "");
  std::filesystem::resize_file(dir / "large", (16 << 20) + 1);
  expect_error(ErrorKind::input, "over 16 MiB of offsets", [&] { read_offsets(dir / "large"); });
}

}  // namespace
}  // namespace mxcheck
