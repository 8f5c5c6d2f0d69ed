#include <gtest/gtest.h>

#include "goldens/format/reader.h"
#include "goldens/format/unverified.h"
#include "goldens/format/writer.h"
#include "numerics/bytes.h"
#include "tests/goldens/format/golden_samples.h"

namespace mxcheck {
namespace {

using test::entry_of;
using test::expect_error;
using test::pattern;
using test::small_info;
using test::write_golden;

class GoldenReaderTest : public test::GoldenFileTest {};

void expect_same(const GoldenInfo& got, const GoldenInfo& wanted) {
  EXPECT_EQ(got.attributes, wanted.attributes);
  ASSERT_EQ(got.datasets.size(), wanted.datasets.size());
  for (std::size_t d = 0; d < got.datasets.size(); ++d) {
    EXPECT_EQ(got.datasets[d].name, wanted.datasets[d].name);
    EXPECT_EQ(got.datasets[d].role, wanted.datasets[d].role);
    EXPECT_EQ(got.datasets[d].format, wanted.datasets[d].format);
    EXPECT_EQ(got.datasets[d].dtype, wanted.datasets[d].dtype);
    EXPECT_EQ(got.datasets[d].shape, wanted.datasets[d].shape);
    EXPECT_EQ(got.datasets[d].attributes, wanted.datasets[d].attributes);
  }
}

TEST_F(GoldenReaderTest, gives_back_what_was_written_from_memory_and_from_the_file) {
  const GoldenInfo info = small_info();
  for (const int compression : {0, 9}) {
    const ManifestEntry entry = write_golden(path, info, {compression, "quantized"});
    for (const std::uint64_t most : {GoldenReader::kMostInMemory, std::uint64_t{0}}) {
      const GoldenReader reader(path, entry, most);
      EXPECT_EQ(reader.file_kind(), "quantized");
      expect_same(reader.info(), info);
      for (std::size_t d = 0; d < info.datasets.size(); ++d) {
        const Tensor tensor = reader.read(info.datasets[d].name);
        EXPECT_EQ(tensor.name, info.datasets[d].name);
        EXPECT_EQ(tensor.format, info.datasets[d].dtype);
        EXPECT_EQ(tensor.shape, info.datasets[d].shape);
        EXPECT_EQ(tensor.data, pattern(test::bytes_of(info.datasets[d]), d));
      }
    }
  }
}

TEST_F(GoldenReaderTest, holds_many_datasets_and_attributes_in_their_order) {
  GoldenInfo info;
  for (int i = 0; i < 254; ++i) {
    const std::string number = std::to_string(i);
    info.attributes.emplace_back("key" + std::to_string(i * 7 % 254), std::string(static_cast<std::size_t>(i), 'v'));
    info.datasets.push_back({"set" + std::to_string(i * 5 % 254), Role::input, "float32", Format::uint32, {i}, {}});
  }
  info.attributes[3].second = std::string(65536, 'x');
  info.datasets[9].attributes = info.attributes;
  const ManifestEntry entry = write_golden(path, info);
  expect_same(GoldenReader(path, entry).info(), info);
  EXPECT_EQ(write_golden(path, info), entry);
  GoldenInfo none;
  expect_same(GoldenReader(path, write_golden(path, none)).info(), none);
}

TEST_F(GoldenReaderTest, takes_the_entry_from_the_manifest_beside) {
  expect_error(ErrorKind::golden, "no manifest", [&] { GoldenReader(path, entry_beside(path)); });
  const ManifestEntry entry = write_golden(path, small_info());
  test::write_file(dir / kManifestName, to_text({"test", {entry}}));
  expect_same(GoldenReader(path).info(), small_info());
  std::filesystem::rename(path, dir / "y.h5");
  expect_error(ErrorKind::golden, "has no entry for it", [&] { GoldenReader(dir / "y.h5"); });
  expect_error(ErrorKind::golden, "cannot be opened", [&] { GoldenReader{path}; });
}

TEST_F(GoldenReaderTest, reads_rows_in_pieces_of_any_size) {
  const GoldenInfo info{{},
                        {{"a", Role::input, "bfloat16", Format::uint16, {1500, 1000}, {}},
                         {"b", Role::output, "float8_e4m3fn", Format::uint8, {3, 1500000}, {}}}};
  const ManifestEntry entry = write_golden(path, info, {1});
  const GoldenReader reader(path, entry);
  for (std::size_t d = 0; d < 2; ++d) {
    const std::vector<std::byte> expected = pattern(test::bytes_of(info.datasets[d]), d);
    for (const std::size_t step : {2000UL, 999'998UL, 1UL << 20, expected.size()}) {
      const std::unique_ptr<RowReader> rows = reader.rows(info.datasets[d].name);
      EXPECT_EQ(rows->head().shape, info.datasets[d].shape);
      std::vector<std::byte> got(expected.size());
      for (std::size_t at = 0; at < got.size(); at += step) {
        rows->read(std::span(got).subspan(at, std::min(step, got.size() - at)));
      }
      EXPECT_EQ(got, expected) << step;
      expect_error(ErrorKind::usage, "2 bytes are asked for, 0 are left", [&] { rows->read(std::span(got).first(2)); });
    }
  }
  expect_error(ErrorKind::golden, "has no dataset 'c'", [&] { static_cast<void>(reader.read("c")); });
  std::vector<std::byte> part(3);
  expect_error(ErrorKind::usage, "a part of an element", [&] { reader.rows("a")->read(part); });
}

TEST_F(GoldenReaderTest, its_rows_may_outlive_it_and_its_file) {
  const ManifestEntry entry = write_golden(path, small_info());
  for (const std::uint64_t most : {GoldenReader::kMostInMemory, std::uint64_t{0}}) {
    const std::unique_ptr<RowReader> rows = GoldenReader(path, entry, most).rows("codes");
    if (most == 0) std::filesystem::remove(path);
    std::vector<std::byte> codes(6 * 64);
    rows->read(codes);
    EXPECT_EQ(codes, pattern(6 * 64, 2));
  }
}

TEST_F(GoldenReaderTest, two_goldens_are_open_at_once) {
  const GoldenInfo other{{}, {{"x", Role::input, "float32", Format::uint32, {100}, {}}}};
  const ManifestEntry a = write_golden(path, small_info());
  const ManifestEntry b = write_golden(dir / "y.h5", other);
  const GoldenReader first(path, a);
  const GoldenReader second(dir / "y.h5", b);
  const GoldenReader again(path, a);
  EXPECT_EQ(second.read("x").shape, std::vector<std::int64_t>{100});
  EXPECT_EQ(first.read("x").data, pattern(6 * 64 * 2));
  EXPECT_EQ(again.read("x").data, pattern(6 * 64 * 2));
}

TEST_F(GoldenReaderTest, refuses_other_sizes_and_hashes_before_it_looks_inside) {
  const ManifestEntry entry = write_golden(path, small_info());
  ManifestEntry other = entry;
  other.size += 1;
  expect_error(ErrorKind::golden, "has " + std::to_string(entry.size) + " bytes, but",
               [&] { GoldenReader(path, other); });
  other = entry;
  other.sha256[5] = other.sha256[5] == '0' ? '1' : '0';
  for (const std::uint64_t most : {GoldenReader::kMostInMemory, std::uint64_t{0}}) {
    expect_error(ErrorKind::golden, "has SHA-256 " + entry.sha256 + ", but " + other.sha256,
                 [&] { GoldenReader(path, other, most); });
  }
  test::write_file(path, "");
  expect_error(ErrorKind::golden, "not an HDF5 file", [&] { GoldenReader(path, entry_of(path)); });
  test::write_file(path, std::string(5000, 'x'));
  for (const std::uint64_t most : {GoldenReader::kMostInMemory, std::uint64_t{0}}) {
    expect_error(ErrorKind::golden, "not an HDF5 file (HDF5: ", [&] { GoldenReader(path, entry_of(path), most); });
  }
  std::filesystem::create_directory(dir / "d.h5");
  expect_error(ErrorKind::golden, "not a regular file but a directory", [&] { GoldenReader(dir / "d.h5", entry); });
}

using test::expect_error;

GoldenInfo unverified_info() {
  return {{{"kind", "x"}, {"empty", ""}},
          {{"words", Role::input, "uint32", Format::uint32, {300, 1000}, {{"unit", "none"}}},
           {"none", Role::output, "int64", Format::int64, {0, 3}, {}},
           {"codes", Role::output, "float8_e4m3fn", Format::uint8, {3}, {}}}};
}

class Unverified : public testing::Test {
 protected:
  Unverified() {
    for (std::uint32_t i = 0; i < 300000; ++i) words.push_back(i * 2654435761U);
    GoldenWriter writer(path, unverified_info(), {.compression = 6, .file_kind = "parity"});
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
  EXPECT_EQ(file.info.attributes, unverified_info().attributes);
  ASSERT_EQ(file.info.datasets.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const DatasetInfo wanted = unverified_info().datasets[i];
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
