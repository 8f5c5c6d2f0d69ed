#include "goldens/format/compare.h"

#include <gtest/gtest.h>

#include "tests/goldens/format/golden_samples.h"

namespace mxcheck {
namespace {

using test::expect_error;
using test::pattern;

TEST(DatasetEquals, is_about_dtype_shape_and_every_byte) {
  const test::TemporaryDirectory dir;
  constexpr std::int64_t kRows = (9 << 20) / 64;  // three pieces of 4 MiB, the last not whole
  const GoldenInfo info{{}, {{"x", Role::output, "float8_e4m3fn", Dtype::u8, {kRows, 64}, {}}}};
  const GoldenReader golden(dir / "g.h5", test::write_golden(dir / "g.h5", info));
  Tensor t{"x", Dtype::u8, {kRows, 64}, pattern(kRows * 64)};
  write_npy(dir / "right.npy", t);
  EXPECT_TRUE(dataset_equals(golden, "x", dir / "right.npy"));
  EXPECT_TRUE(dataset_equals(golden, "x", dir / "g.h5:/x"));
  for (const std::size_t at : {std::size_t{0}, std::size_t{4 << 20}, t.data.size() - 1}) {
    Tensor wrong = t;
    wrong.data[at] ^= std::byte{1};
    write_npy(dir / "wrong.npy", wrong);
    EXPECT_FALSE(dataset_equals(golden, "x", dir / "wrong.npy")) << at;
  }
  t.shape = {kRows / 2, 128};
  write_npy(dir / "shape.npy", t);
  EXPECT_FALSE(dataset_equals(golden, "x", dir / "shape.npy"));
  t.dtype = Dtype::i8, t.shape = {kRows, 64};
  write_npy(dir / "dtype.npy", t);
  EXPECT_FALSE(dataset_equals(golden, "x", dir / "dtype.npy"));
  expect_error(ErrorKind::input, "cannot be opened", [&] { dataset_equals(golden, "x", dir / "none.npy"); });
  expect_error(ErrorKind::golden, "has no dataset 'y'", [&] { dataset_equals(golden, "y", dir / "right.npy"); });
}

}  // namespace
}  // namespace mxcheck
