#include <gtest/gtest.h>

#include "goldens/hdf5/storage.h"
#include "tests/goldens/hdf5/hdf5_writer.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

class Hdf5Storage : public testing::Test {
 protected:
  // A file with the dataset /x of these options, opened again.
  void open(const test::DatasetOptions& options) {
    quiet_hdf5();
    set = {}, file = {};
    test::write_hdf5(dir / "f.h5", [&](hid_t f) { test::add_dataset(f, "/x", H5T_STD_U16LE, options); });
    place.file_bytes = std::filesystem::file_size(dir / "f.h5");
    file = Hdf5Handle(H5Fopen((dir / "f.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
    set = open_dataset(file.id(), "/x", place);
  }
  test::TemporaryDirectory dir;
  Hdf5Handle file, set;
  Hdf5Place place{"f.h5:/x", ErrorKind::input, 0};
};

TEST_F(Hdf5Storage, has_the_shape_that_was_written) {
  open({{4, 0, 3}, {}, {}});
  EXPECT_EQ(shape_of(set.id(), place), (std::vector<std::int64_t>{4, 0, 3}));
  expect_error(ErrorKind::input, "f.h5:/x: cannot be opened", [&] { open_dataset(file.id(), "/y", place); });
}

TEST_F(Hdf5Storage, is_taken_when_all_of_it_is_in_the_file) {
  open({{5, 7}, {}, {}});
  check_storage(set.id(), 70, place);
  expect_error(ErrorKind::input, "more data than was written", [&] { check_storage(set.id(), 71, place); });
  open({{5, 7}, {2, 3}, [](hid_t p) { H5Pset_shuffle(p), H5Pset_deflate(p, 1), H5Pset_fletcher32(p); }});
  check_storage(set.id(), 70, place);
  expect_error(ErrorKind::input, "more data than the file can hold",
               [&] { check_storage(set.id(), place.file_bytes * kMaxExpansion + 1, place); });
}

TEST_F(Hdf5Storage, is_refused_with_chunks_that_nobody_wrote_and_with_other_filters) {
  open({{5, 7}, {2, 3}, {}, false});
  expect_error(ErrorKind::input, "not every chunk was written", [&] { check_storage(set.id(), 70, place); });
  open({{5, 7}, {2, 3}, [](hid_t p) { H5Pset_nbit(p); }});
  expect_error(ErrorKind::input, "uses filter 5; read are deflate", [&] { check_storage(set.id(), 70, place); });
}

using test::expect_error;

TEST(Hdf5Image, reads_several_files_of_memory_without_a_copy_of_them) {
  quiet_hdf5();
  const test::TemporaryDirectory dir;
  std::vector<std::string> images;
  for (const char* name : {"/a", "/b"}) {
    test::write_hdf5(dir / "f.h5", [&](hid_t file) { test::add_dataset(file, name, H5T_STD_U8LE); });
    images.push_back(test::read_file(dir / "f.h5"));
  }
  const std::vector<std::string> before = images;
  const Hdf5Place place{"image", ErrorKind::golden, 0};
  {
    const Hdf5Handle a = open_image(std::as_bytes(std::span(images[0])), place);
    const Hdf5Handle b = open_image(std::as_bytes(std::span(images[1])), place);
    EXPECT_GT(H5Lexists(a.id(), "/a", H5P_DEFAULT), 0);
    EXPECT_EQ(H5Lexists(a.id(), "/b", H5P_DEFAULT), 0) << "two images are two files";
    EXPECT_GT(H5Lexists(b.id(), "/b", H5P_DEFAULT), 0);
  }
  EXPECT_EQ(images, before);
}

TEST(Hdf5Image, refuses_what_is_no_file) {
  quiet_hdf5();
  const Hdf5Place place{"image", ErrorKind::golden, 0};
  expect_error(ErrorKind::golden, "image: empty", [&] { open_image({}, place); });
  const std::string noise(4096, 'x');
  expect_error(ErrorKind::golden, "image: not an HDF5 file",
               [&] { open_image(std::as_bytes(std::span(noise)), place); });
}

}  // namespace
}  // namespace mxcheck
