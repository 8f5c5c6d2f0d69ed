// HDF5 read by a child process: what reaches the parent. tests/goldens/hdf5/dataset_test.cc damages files byte by byte.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "goldens/io/readers.h"
#include "tests/goldens/hdf5/hdf5_writer.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

TEST(ChildReader, gives_head_and_bytes_in_pieces_and_ends) {
  const test::TemporaryDirectory dir;
  std::vector<std::byte> bytes;
  test::write_hdf5(dir / "f.h5", [&](hid_t file) {
    bytes = test::add_dataset(file, "/x", H5T_STD_U32LE, {{700, 1001}, {}, {}});  // several messages of 1 MiB
  });
  const auto rows = open_hdf5(dir / "f.h5", "/x");
  EXPECT_EQ(rows->head().dtype, Dtype::u32);
  EXPECT_EQ(rows->head().shape, (std::vector<std::int64_t>{700, 1001}));
  std::vector<std::byte> got(bytes.size());
  for (std::size_t at = 0; at < got.size(); at += 300'001) {
    rows->read(std::span(got).subspan(at, std::min<std::size_t>(300'001, got.size() - at)));
  }
  EXPECT_EQ(got, bytes);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "the child is not waited for";
  std::byte more{};
  expect_error(ErrorKind::usage, "1 bytes are asked for, 0 are left", [&] { rows->read(std::span(&more, 1)); });
}

TEST(ChildReader, passes_the_refusal_on_as_it_is_without_the_child) {
  const test::TemporaryDirectory dir;
  test::write_hdf5(dir / "f.h5", [](hid_t file) { test::add_dataset(file, "/x", H5T_STD_U64LE); });
  test::write_file(dir / "noise.h5", "no HDF5");
  for (const auto& [file, dataset] : {std::pair{"f.h5", "/x"}, {"f.h5", "/y"}, {"f.h5", "x"}, {"noise.h5", "/x"}}) {
    std::string without;
    try {
      open_hdf5_in_this_process(dir / file, dataset);
    } catch (const Error& e) {
      without = e.what();
    }
    ASSERT_NE(without, "");
    expect_error(ErrorKind::input, without, [&, &f = file, &d = dataset] { open_hdf5(dir / f, d); });
  }
  expect_error(ErrorKind::input, "cannot be opened", [&] { open_hdf5(dir / "none.h5", "/x"); });
}

}  // namespace
}  // namespace mxcheck
