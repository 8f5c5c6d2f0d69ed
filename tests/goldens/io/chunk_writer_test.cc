#include "goldens/io/chunk_writer.h"

#include <gtest/gtest.h>

#include "tests/goldens/format/golden_samples.h"

namespace mxcheck {
namespace {

// What the file holds after the pattern was written in pieces of these bytes; the chunk's extents.
std::pair<std::vector<std::byte>, std::vector<hsize_t>> written(const std::string& path, const DatasetInfo& info,
                                                                std::size_t piece) {
  quiet_hdf5();
  const Hdf5Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  ChunkWriter writer(file.id(), info, 0, {path, ErrorKind::environment, 0});
  const std::vector<std::byte> data = test::pattern(test::bytes_of(info));
  for (std::size_t at = 0; at < data.size(); at += piece) {
    writer.write(std::span(data).subspan(at, std::min(piece, data.size() - at)));
  }
  writer.close();
  const Hdf5Handle set(H5Dopen2(file.id(), info.name.c_str(), H5P_DEFAULT), H5Dclose);
  const Hdf5Handle type(H5Dget_type(set.id()), H5Tclose);
  std::vector<std::byte> back(data.size());
  H5Dread(set.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, back.data());
  const Hdf5Handle creation(H5Dget_create_plist(set.id()), H5Pclose);
  std::vector<hsize_t> chunk(info.shape.size());
  H5Pget_chunk(creation.id(), static_cast<int>(chunk.size()), chunk.data());
  EXPECT_EQ(back, data);
  return {back, chunk};
}

TEST(ChunkWriter, puts_every_byte_in_its_place_however_the_bytes_are_cut) {
  const test::TemporaryDirectory dir;
  const DatasetInfo wide{"x", Role::output, "float32", Dtype::u32, {3, 300'001}, {}};  // chunks narrower than a row
  const DatasetInfo tall{"x", Role::output, "bfloat16", Dtype::u16, {9'000, 129}, {}};
  const DatasetInfo list{"x", Role::output, "int64", Dtype::i64, {140'000}, {}};
  for (const DatasetInfo& info : {wide, tall, list}) {
    for (const std::size_t piece : {test::bytes_of(info), test::row_bytes_of(info), std::size_t{1'000'003}}) {
      if (piece < 64) continue;  // a write an element would take long
      written(dir / "f.h5", info, piece);
    }
  }
}

TEST(ChunkWriter, cuts_about_a_mebibyte_into_even_parts) {
  const test::TemporaryDirectory dir;
  // 1025 rows of 1 KiB: two chunks of 513 rows rather than one of 1024 and an almost empty one.
  EXPECT_EQ(written(dir / "f.h5", {"x", Role::output, "float8_e4m3fn", Dtype::u8, {1025, 1024}, {}}, 1 << 20).second,
            (std::vector<hsize_t>{513, 1024}));
  EXPECT_EQ(
      written(dir / "f.h5", {"x", Role::output, "float8_e4m3fn", Dtype::u8, {2, (1 << 20) + 2}, {}}, 1 << 20).second,
      (std::vector<hsize_t>{1, (1 << 19) + 1}));
}

}  // namespace
}  // namespace mxcheck
