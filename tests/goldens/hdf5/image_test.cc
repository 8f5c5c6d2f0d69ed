#include "goldens/hdf5/image.h"

#include <gtest/gtest.h>

#include "tests/goldens/hdf5/hdf5_writer.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

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
