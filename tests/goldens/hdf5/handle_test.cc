#include "goldens/hdf5/handle.h"

#include <gtest/gtest.h>

#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

TEST(Hdf5Handle, closes_once_and_keeps_failures) {
  quiet_hdf5();
  Hdf5Handle a(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  const hid_t id = a.id();
  ASSERT_TRUE(a);
  Hdf5Handle b(std::move(a));
  EXPECT_FALSE(a);  // NOLINT: a moved-from handle holds nothing
  EXPECT_EQ(b.id(), id);
  b = Hdf5Handle(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  EXPECT_LT(H5Iis_valid(id) > 0 ? 1 : -1, 0) << "what was assigned over is closed";
  const hid_t second = b.id();
  EXPECT_TRUE(b.close());
  EXPECT_TRUE(b.close());
  EXPECT_EQ(H5Iis_valid(second), 0);
  const Hdf5Handle failed(-1, H5Pclose);
  EXPECT_FALSE(failed);
}

TEST(Hdf5Says, the_innermost_reason_in_one_printable_line) {
  quiet_hdf5();
  H5Eclear2(H5E_DEFAULT);
  EXPECT_EQ(hdf5_says(), "");
  const Hdf5Handle none(H5Fopen("/nowhere/\n.h5", H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  EXPECT_FALSE(none);
  const std::string said = hdf5_says();
  EXPECT_EQ(said.rfind(" (HDF5: ", 0), 0U) << said;
  EXPECT_NE(said.find("No such file or directory"), std::string::npos) << said;
  EXPECT_EQ(said.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace mxcheck
