#include "goldens/io/byte_source.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

TEST(ByteSource, gives_the_same_bytes_from_memory_and_from_a_file) {
  const test::TemporaryDirectory dir;
  const std::string bytes = "0123456789";
  test::write_file(dir / "f", bytes);
  const SpanSource memory(std::as_bytes(std::span(bytes)), "memory");
  const FileSource file(dir / "f");
  for (const ByteSource* source : std::array<const ByteSource*, 2>{&memory, &file}) {
    EXPECT_EQ(source->size(), 10U);
    EXPECT_EQ(source->text(), bytes);
    std::string part(3, ' ');
    source->read(7, std::as_writable_bytes(std::span(part)));
    EXPECT_EQ(part, "789");
    source->read(10, {});
    for (const std::uint64_t offset :
         {std::uint64_t{8}, std::uint64_t{11}, std::numeric_limits<std::uint64_t>::max()}) {
      expect_error(ErrorKind::input, source->name() + ": truncated: bytes ",
                   [&] { source->read(offset, std::as_writable_bytes(std::span(part))); });
    }
  }
}

TEST(ByteSource, a_file_that_shrinks_or_is_none_is_an_error) {
  const test::TemporaryDirectory dir;
  test::write_file(dir / "f", "0123456789");
  const FileSource file(dir / "f");
  std::filesystem::resize_file(dir / "f", 4);
  std::string all(10, ' ');
  expect_error(ErrorKind::input, "truncated while it was being read",
               [&] { file.read(0, std::as_writable_bytes(std::span(all))); });
  expect_error(ErrorKind::input, "not a regular file but a directory", [&] { FileSource source(dir.path()); });
  expect_error(ErrorKind::input, "cannot be opened: No such file", [&] { FileSource source(dir / "none"); });
}

TEST(CheckedMultiply, refuses_beyond_63_bits) {
  std::uint64_t product = 0;
  EXPECT_TRUE(checked_multiply(std::uint64_t{1} << 31, std::uint64_t{1} << 31, product));
  EXPECT_EQ(product, std::uint64_t{1} << 62);
  EXPECT_FALSE(checked_multiply(std::uint64_t{1} << 32, std::uint64_t{1} << 31, product));
  EXPECT_TRUE(checked_multiply(0, std::numeric_limits<std::uint64_t>::max(), product));
  EXPECT_EQ(product, 0U);
}

TEST(CheckedBytes, is_exact_up_to_63_bits_and_refuses_beyond) {
  constexpr std::int64_t kBig = std::int64_t{1} << 62;
  const auto bytes = [](std::vector<std::int64_t> shape, std::size_t size) { return checked_bytes(shape, size, "t"); };
  EXPECT_EQ(bytes({}, 4), 4U);
  EXPECT_EQ(bytes({3, 5}, 2), 30U);
  EXPECT_EQ(bytes({kBig}, 1), static_cast<std::uint64_t>(kBig));
  EXPECT_EQ(bytes({kBig, kBig, 0}, 8), 0U);
  EXPECT_EQ(bytes({0, kBig, kBig}, 8), 0U);
  expect_error(ErrorKind::input, "overflows", [&] { bytes({kBig}, 2); });
  expect_error(ErrorKind::input, "overflows", [&] { bytes({kBig, 2}, 1); });
  expect_error(ErrorKind::input, "overflows", [&] { bytes({1 << 30, 1 << 30, 1 << 30}, 1); });
  expect_error(ErrorKind::input, "negative", [&] { bytes({-1}, 1); });
  expect_error(ErrorKind::input, "negative", [&] { bytes({0, -1}, 1); });
}

}  // namespace
}  // namespace mxcheck
