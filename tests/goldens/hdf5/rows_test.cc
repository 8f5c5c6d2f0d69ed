#include "goldens/hdf5/rows.h"

#include <gtest/gtest.h>

#include "tests/goldens/hdf5/hdf5_writer.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

TEST(Hdf5Rows, give_every_byte_whatever_the_pieces_and_the_chunks) {
  quiet_hdf5();
  const test::TemporaryDirectory dir;
  const std::vector<test::DatasetOptions> storages{{{3, 4, 5}, {}, {}}, {{3, 4, 5}, {2, 3, 2}, {}}, {{60}, {7}, {}}};
  for (const test::DatasetOptions& options : storages) {
    std::vector<std::byte> bytes;
    test::write_hdf5(dir / "f.h5", [&](hid_t f) { bytes = test::add_dataset(f, "/x", H5T_STD_U16LE, options); });
    const Hdf5Handle file(H5Fopen((dir / "f.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
    const Hdf5Place place{"f.h5:/x", ErrorKind::input, std::filesystem::file_size(dir / "f.h5")};
    const TensorHead head{Dtype::u16, {options.shape.begin(), options.shape.end()}};
    for (const std::size_t piece : {2U, 6U, 14U, 46U, 120U}) {  // bytes: not every one is a divisor of a row
      Hdf5Rows rows(open_dataset(file.id(), "/x", place), head, place);
      std::vector<std::byte> got(bytes.size());
      for (std::size_t at = 0; at < got.size(); at += piece) {
        rows.read(std::span(got).subspan(at, std::min(piece, got.size() - at)));
      }
      EXPECT_EQ(got, bytes) << piece;
      std::vector<std::byte> more(2);
      expect_error(ErrorKind::usage, "2 bytes are asked for, 0 are left", [&] { rows.read(more); });
    }
    Hdf5Rows rows(open_dataset(file.id(), "/x", place), head, place);
    std::vector<std::byte> half(3);
    expect_error(ErrorKind::usage, "a part of an element", [&] { rows.read(half); });
  }
}

}  // namespace
}  // namespace mxcheck
