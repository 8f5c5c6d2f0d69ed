#include "trainer/record/sealed_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "goldens/format/writer.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

class SealedFile : public testing::Test {
 protected:
  void write(const std::string& note = "x") const {
    SealedWriter to(path, "parity");
    to.attribute("note", note);
    to.attribute("count", "-5");
    to.attribute("seconds", "1e400");
    to.list<std::uint16_t>("halves", "bfloat16", std::vector<std::uint16_t>{1, 2});
    to.table<std::int64_t>("counts", "int64", 2, 3, std::vector<std::int64_t>{1, -2, 3, 4, 5, std::int64_t{1} << 62});
    to.table<std::uint32_t>("none", "uint32", 0, 7, {});
    to.commit(6);
  }
  test::TemporaryDirectory dir;
  std::string path = dir / "x.h5";
};

TEST_F(SealedFile, gives_attributes_lists_and_tables_again) {
  write();
  const SealedReader from(path, "parity");
  EXPECT_EQ(from.text("note"), "x");
  EXPECT_EQ(from.integer("count"), -5);
  EXPECT_EQ(from.list<std::uint16_t>("halves", "bfloat16"), (std::vector<std::uint16_t>{1, 2}));
  EXPECT_EQ(from.table<std::int64_t>("counts", "int64", 2, 3)[5], std::int64_t{1} << 62);
  EXPECT_TRUE(from.table<std::uint32_t>("none", "uint32", 0, 7).empty());
}

// The hash's definition in docs/parity.md, by hand: sha256sum of these bytes.
TEST_F(SealedFile, has_the_hash_that_is_documented) {
  UnverifiedGolden contents;
  contents.kind = "parity";
  contents.info.attributes = {{"b", "2"}, {"content_sha256", "any"}, {"a", "1"}};
  contents.info.datasets = {{"d", Role::output, "uint8", Dtype::u8, {2}, {}}};
  contents.data = {{std::byte{7}, std::byte{8}}};
  EXPECT_EQ(content_sha256(contents), "bb889aca66e0d8b4170d1ba97b58ec695a910ec2689dcbcc5e03c7170dc29486");
}

TEST_F(SealedFile, refuses_what_is_not_asked_for) {
  write();
  const SealedReader from(path, "parity");
  const auto refused = [](const std::string& text, auto action) { expect_error(ErrorKind::input, text, action); };
  refused("x.h5: has no attribute 'other'", [&] { return from.text("other"); });
  refused("attribute 'note' is 'x', no decimal integer", [&] { return from.integer("note"); });
  refused("attribute 'seconds' is '1e400', no decimal number", [&] { return from.number("seconds"); });
  refused("has no dataset 'other'", [&] { return from.list<std::uint8_t>("other", "uint8"); });
  refused("halves has format 'bfloat16' and shape 2; wanted are 'float16'",
          [&] { return from.list<std::uint16_t>("halves", "float16"); });
  refused("counts has format 'int64' and shape 2 x 3; wanted are 'int64' and rank 1",
          [&] { return from.list<std::int64_t>("counts", "int64"); });
  refused("elements of another type", [&] { return from.list<std::uint32_t>("halves", "bfloat16"); });
  refused("counts is 2 x 3, but 3 x 2 by the rest", [&] { return from.table<std::int64_t>("counts", "int64", 3, 2); });
  refused("is of kind 'parity', not 'parity checkpoint'", [&] { SealedReader(path, "parity checkpoint"); });
}

TEST_F(SealedFile, refuses_what_its_hash_would_not_see) {
  GoldenInfo info{{{"file_version", kSealedVersion}}, {{"d", Role::input, "uint8", Dtype::u8, {0}, {}}}};
  GoldenWriter(path, info, {.file_kind = "parity"}).commit();
  expect_error(ErrorKind::input, "d has attributes of its own", [&] { SealedReader(path, "parity"); });
  info.datasets[0].role = Role::output;
  info.datasets[0].attributes = {{"a", "b"}};
  GoldenWriter(path, info, {.file_kind = "parity"}).commit();
  expect_error(ErrorKind::input, "d has attributes of its own", [&] { SealedReader(path, "parity"); });
}

TEST_F(SealedFile, cannot_have_a_text_that_hdf5_cannot_hold) {
  expect_error(ErrorKind::usage, "attribute 'note' holds a zero byte", [&] { write(std::string("a\0b", 3)); });
  EXPECT_TRUE(dir.names().empty());
}

}  // namespace
}  // namespace mxcheck
