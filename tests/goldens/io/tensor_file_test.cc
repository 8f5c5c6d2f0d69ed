#include <sys/stat.h>
#include <sys/wait.h>

#include <gtest/gtest.h>

#include "goldens/data/embedded.h"
#include "goldens/io/byte_source.h"
#include "goldens/io/readers.h"
#include "goldens/io/tensor_file.h"
#include "tests/goldens/hdf5/hdf5_writer.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

TEST(ReadTensor, finds_the_file_in_names_with_colons_and_extensions) {
  const test::TemporaryDirectory dir;
  const Tensor t{"x.npy:y", Format::uint8, {1}, {std::byte{7}}};
  std::filesystem::create_directory(dir / "a.safetensors:b");
  for (const std::string path : {"x.npy", "a:b.npy", "a.npy.npy", "a.safetensors:b/c.npy"}) {
    write_npy(dir / path, t);
    EXPECT_EQ(read_tensor(dir / path).data, t.data) << path;
  }
  write_safetensors(dir / "x:y.safetensors", {{t}, {}});
  EXPECT_EQ(read_tensor(dir / "x:y.safetensors").data, t.data);
  EXPECT_EQ(read_tensor((dir / "x:y.safetensors") + ":x.npy:y").data, t.data);
}

TEST(ReadTensor, says_what_it_can_read) {
  const test::TemporaryDirectory dir;
  test::write_file(dir / "x.h5", "");
  std::filesystem::create_directory(dir / "d.npy");
  ASSERT_EQ(::mkfifo((dir / "pipe.npy").c_str(), 0600), 0);
  const std::vector<std::pair<std::string, std::string>> cases{
      {"x.bin", "not a known kind of file"},
      {"", "not a known kind of file"},
      {"missing.npy", "cannot be opened"},
      {"missing.safetensors:t", "cannot be opened"},
      {"missing.h5:/t", "cannot be opened"},
      {"x.h5", "which dataset?"},
      {"d.npy", "not a regular file but a directory"},
      {"pipe.npy", "not a regular file"},
  };
  for (const auto& [name, text] : cases) expect_error(ErrorKind::input, text, [&, &n = name] { read_tensor(dir / n); });
  expect_error(ErrorKind::input, "FILE.npy, FILE.safetensors:TENSOR or FILE.h5:/DATASET", [] { read_tensor("x"); });
}

}  // namespace

// HDF5 read by a child process: what reaches the parent. tests/goldens/hdf5/dataset_test.cc damages files byte by byte.

namespace {

using test::expect_error;

TEST(ChildReader, gives_head_and_bytes_in_pieces_and_ends) {
  const test::TemporaryDirectory dir;
  std::vector<std::byte> bytes;
  test::write_hdf5(dir / "f.h5", [&](hid_t file) {
    bytes = test::add_dataset(file, "/x", H5T_STD_U32LE, {{700, 1001}, {}, {}});  // several messages of 1 MiB
  });
  const auto rows = open_hdf5(dir / "f.h5", "/x");
  EXPECT_EQ(rows->head().dtype, Format::uint32);
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
