#include "goldens/hdf5/attributes.h"

#include <gtest/gtest.h>

#include "tests/goldens/hdf5/hdf5_writer.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

class Hdf5Attributes : public testing::Test {
 protected:
  Hdf5Attributes() {
    quiet_hdf5();
    const Hdf5Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
    H5Pset_attr_creation_order(creation.id(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    file = Hdf5Handle(H5Fcreate((dir / "f.h5").c_str(), H5F_ACC_TRUNC, creation.id(), H5P_DEFAULT), H5Fclose);
    root = Hdf5Handle(H5Gopen2(file.id(), "/", H5P_DEFAULT), H5Gclose);
  }
  test::TemporaryDirectory dir;
  Hdf5Handle file, root;
  Hdf5Place place{"f.h5", ErrorKind::golden, 0};
};

TEST_F(Hdf5Attributes, come_back_in_the_order_of_writing) {
  const Attributes written{{"z", "last letter first"}, {"empty", ""}, {"a", "\xC3\xA9"}};
  for (const auto& [key, value] : written) write_attribute(root.id(), key, value, place);
  EXPECT_EQ(read_attributes(root.id(), 3, 64, place), written);
}

TEST_F(Hdf5Attributes, are_bounded_in_number_and_length) {
  write_attribute(root.id(), "a", "12345", place);
  write_attribute(root.id(), "b", "", place);
  expect_error(ErrorKind::golden, "f.h5: more than 1 attributes", [&] { read_attributes(root.id(), 1, 64, place); });
  expect_error(ErrorKind::golden, "of over 4 bytes", [&] { read_attributes(root.id(), 2, 4, place); });
  expect_error(ErrorKind::golden, "attribute 'a' could not be written",
               [&] { write_attribute(root.id(), "a", "again", place); });
}

TEST_F(Hdf5Attributes, are_text_of_fixed_length_or_refused) {
  const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Hdf5Handle number(H5Acreate2(root.id(), "n", H5T_STD_I32LE, space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  ASSERT_TRUE(number);
  expect_error(ErrorKind::golden, "no single text of fixed length", [&] { read_attributes(root.id(), 9, 64, place); });
}

}  // namespace
}  // namespace mxcheck
