#include "goldens/format/unverified.h"

#include <gtest/gtest.h>

#include "goldens/format/writer.h"
#include "numerics/bytes.h"
#include "tests/goldens/format/golden_samples.h"

namespace mxcheck {
namespace {

using test::expect_error;

GoldenInfo sample_info() {
  return {{{"kind", "x"}, {"empty", ""}},
          {{"words", Role::input, "uint32", Dtype::u32, {300, 1000}, {{"unit", "none"}}},
           {"none", Role::output, "int64", Dtype::i64, {0, 3}, {}},
           {"codes", Role::output, "float8_e4m3fn", Dtype::u8, {3}, {}}}};
}

class Unverified : public testing::Test {
 protected:
  Unverified() {
    for (std::uint32_t i = 0; i < 300000; ++i) words.push_back(i * 2654435761U);
    GoldenWriter writer(path, sample_info(), {.compression = 6, .file_kind = "parity"});
    writer.append(0, to_bytes(words));
    writer.append(2, to_bytes(std::vector<std::uint8_t>{1, 2, 3}));
    writer.commit();
  }
  test::TemporaryDirectory dir;
  std::string path = dir / "x.h5";
  std::vector<std::uint32_t> words;  // more than one message of the child
};

TEST_F(Unverified, is_read_whole) {
  const UnverifiedGolden file = read_unverified(path);
  EXPECT_EQ(file.kind, "parity");
  EXPECT_EQ(file.info.attributes, sample_info().attributes);
  ASSERT_EQ(file.info.datasets.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const DatasetInfo wanted = sample_info().datasets[i];
    EXPECT_EQ(file.info.datasets[i].name, wanted.name);
    EXPECT_EQ(file.info.datasets[i].role, wanted.role);
    EXPECT_EQ(file.info.datasets[i].format, wanted.format);
    EXPECT_EQ(file.info.datasets[i].dtype, wanted.dtype);
    EXPECT_EQ(file.info.datasets[i].shape, wanted.shape);
    EXPECT_EQ(file.info.datasets[i].attributes, wanted.attributes);
  }
  EXPECT_EQ(values_in<std::uint32_t>(file.data[0]), words);
  EXPECT_TRUE(file.data[1].empty());
  EXPECT_EQ(values_in<std::uint8_t>(file.data[2]), (std::vector<std::uint8_t>{1, 2, 3}));
}

TEST_F(Unverified, is_an_error_or_a_result_wherever_it_is_damaged) {
  const std::string whole = test::read_file(path);
  int refused = 0;
  constexpr std::size_t kPlaces = 60;
  for (std::size_t i = 0; i < kPlaces; ++i) {
    std::string changed = whole;
    const std::size_t at = i < kPlaces / 2 ? 8 * i : i * whole.size() / kPlaces;  // the header, then everywhere
    changed[at] ^= 0x55;
    test::write_file(path, i % 3 == 2 ? whole.substr(0, at) : changed);
    try {
      read_unverified(path);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::input) << e.what();
      EXPECT_TRUE(std::string(e.what()).starts_with(path)) << e.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 40);
}

TEST_F(Unverified, that_no_writer_here_wrote_is_refused) {
  expect_error(ErrorKind::input, "none.h5", [&] { read_unverified(dir / "none.h5"); });
  expect_error(ErrorKind::input, "a directory", [&] { read_unverified(dir.path()); });
  test::write_file(path, "");
  expect_error(ErrorKind::input, "x.h5: not an HDF5 file, damaged or truncated", [&] { read_unverified(path); });
}

}  // namespace
}  // namespace mxcheck
