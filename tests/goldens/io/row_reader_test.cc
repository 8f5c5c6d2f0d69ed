#include "goldens/io/row_reader.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "goldens/io/byte_source.h"
#include "tests/goldens/format/golden_samples.h"
#include "tests/goldens/hdf5/hdf5_writer.h"

namespace mxcheck {
namespace {

using test::add_dataset;
using test::expect_error;
using test::write_hdf5;

class RowReaderTest : public testing::Test {
 protected:
  test::TemporaryDirectory dir;
};

std::vector<std::byte> read_in_steps(const std::string& location, std::size_t step) {
  const std::unique_ptr<RowReader> rows = open_rows(location);
  std::vector<std::byte> data(checked_bytes(rows->head().shape, size_of(rows->head().dtype), location));
  for (std::size_t at = 0; at < data.size(); at += step) {
    rows->read(std::span(data).subspan(at, std::min(step, data.size() - at)));
  }
  expect_error(ErrorKind::usage, "8 bytes are asked for, 0 are left", [&] {
    std::vector<std::byte> more(8);
    rows->read(more);
  });
  return data;
}

void expect_rows_are_the_tensor(const std::string& location, const std::vector<std::size_t>& steps) {
  const Tensor whole = read_tensor(location);
  const std::unique_ptr<RowReader> rows = open_rows(location);
  EXPECT_EQ(rows->head().dtype, whole.dtype);
  EXPECT_EQ(rows->head().shape, whole.shape);
  for (const std::size_t step : steps) EXPECT_EQ(read_in_steps(location, step), whole.data) << location << " " << step;
}

TEST_F(RowReaderTest, gives_what_read_tensor_gives_in_pieces_of_any_size) {
  const Tensor t{"t", Dtype::f32, {7, 10}, test::pattern(280)};
  write_npy(dir / "t.npy", t);
  write_safetensors(dir / "t.safetensors", {{t, {"u", Dtype::u8, {3}, test::pattern(3)}}, {}});
  expect_rows_are_the_tensor(dir / "t.npy", {1, 40, 280});
  expect_rows_are_the_tensor((dir / "t.safetensors") + ":t", {1, 40, 280});
  expect_rows_are_the_tensor((dir / "t.safetensors") + ":u", {2});
}

TEST_F(RowReaderTest, reads_every_storage_of_hdf5) {
  const std::string path = dir / "t.h5";
  const auto compact = [](hid_t p) { H5Pset_layout(p, H5D_COMPACT); };
  const auto deflate = [](hid_t p) { H5Pset_shuffle(p), H5Pset_deflate(p, 1), H5Pset_fletcher32(p); };
  const std::vector<test::DatasetOptions> storages{
      {{5, 7}, {}, compact},        {{5, 7}, {}, {}},
      {{50, 70}, {50, 1}, deflate}, {{3, 4, 5, 6}, {2, 3, 2, 5}, deflate},
      {{1000, 3}, {1000, 3}, {}},   {{2, 300}, {1, 7}, {}},
      {{700}, {64}, deflate},       {{0, 4}, {}, {}},
      {{1, 1, 1}, {1, 1, 1}, {}},
  };
  for (const test::DatasetOptions& storage : storages) {
    write_hdf5(path, [&](hid_t file) { add_dataset(file, "/x", H5T_STD_U16LE, storage); });
    expect_rows_are_the_tensor(path + ":/x", {2, 6, 14, 1000});
  }
  write_hdf5(path, [](hid_t file) {
    const hid_t space = H5Screate(H5S_SCALAR);
    const hid_t set = H5Dcreate2(file, "/x", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const double one = 1;
    H5Dwrite(set, H5T_IEEE_F64LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &one);
    H5Dclose(set);
    H5Sclose(space);
  });
  EXPECT_TRUE(open_rows(path + ":/x")->head().shape.empty());
  expect_rows_are_the_tensor(path + ":/x", {8});
}

TEST_F(RowReaderTest, refuses_what_read_tensor_refuses) {
  write_npy(dir / "t.npy", {"", Dtype::u8, {4}, test::pattern(4)});
  write_hdf5(dir / "t.h5", [](hid_t file) { add_dataset(file, "/x", H5T_STD_U64LE); });
  std::filesystem::resize_file(dir / "t.npy", 130);
  const std::vector<std::pair<std::string, std::string>> cases{
      {"t.bin", "not a known kind of file"},     {"t.npy", "truncated"},          {"u.npy", "cannot be opened"},
      {"u.safetensors:x", "cannot be opened"},   {"u.h5:/x", "cannot be opened"}, {"t.h5", "which dataset?"},
      {"t.h5:/x", "of a type that is not read"}, {"t.h5:/y", "there is no '/y'"},
  };
  for (const auto& [name, text] : cases) {
    expect_error(ErrorKind::input, text, [&, &n = name] { open_rows(dir / n); });
    expect_error(ErrorKind::input, text, [&, &n = name] { read_tensor(dir / n); });
  }
}

TEST_F(RowReaderTest, notices_a_file_that_shrinks_while_it_is_read) {
  write_npy(dir / "t.npy", {"", Dtype::u8, {1 << 20}, test::pattern(1 << 20)});
  const std::unique_ptr<RowReader> rows = open_rows(dir / "t.npy");
  std::vector<std::byte> half(1 << 19);
  rows->read(half);
  std::filesystem::resize_file(dir / "t.npy", 1000);
  expect_error(ErrorKind::input, "truncated while it was being read", [&] { rows->read(half); });
}

TEST_F(RowReaderTest, tells_of_damage_when_it_comes_to_it) {
  const std::string path = dir / "t.h5";
  std::vector<std::byte> bytes;
  write_hdf5(path, [&](hid_t file) {
    bytes = add_dataset(file, "/x", H5T_STD_U8LE, {{4096, 1024}, {64, 1024}, [](hid_t p) { H5Pset_fletcher32(p); }});
  });
  std::string damaged = test::read_file(path);
  damaged[damaged.size() - 100000] = static_cast<char>(damaged[damaged.size() - 100000] ^ 1);
  test::write_file(path, damaged);
  const std::unique_ptr<RowReader> rows = open_rows(path + ":/x");
  std::vector<std::byte> half(bytes.size() / 2);
  rows->read(half);
  EXPECT_TRUE(std::equal(half.begin(), half.end(), bytes.begin()));
  expect_error(ErrorKind::input, "t.h5:/x: cannot be read (HDF5: ", [&] { rows->read(half); });
}

TEST_F(RowReaderTest, ends_the_child_of_a_reader_that_is_given_up) {
  const std::string path = dir / "t.h5";
  write_hdf5(path, [&](hid_t file) { add_dataset(file, "/x", H5T_STD_U8LE, {{4096, 1024}, {}, {}}); });
  const auto open_files = [] {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
    return n;
  };
  const std::size_t before = open_files();
  for (const std::size_t bytes : std::vector<std::size_t>{0, 100, 4096 * 1024}) {
    const std::unique_ptr<RowReader> rows = open_rows(path + ":/x");
    std::vector<std::byte> some(bytes);
    rows->read(some);
  }
  EXPECT_EQ(open_files(), before);
  errno = 0;
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

#if !defined(__SANITIZE_ADDRESS__)  // which takes memory of its own

// Peak memory in MiB of a process that does this and of its children.
long peak_of(const std::function<void()>& action) {
  const pid_t id = ::fork();
  if (id == 0) {
    try {
      action();
    } catch (...) {
      ::_exit(1);
    }
    rusage children{};
    ::getrusage(RUSAGE_CHILDREN, &children);
    rusage self{};
    ::getrusage(RUSAGE_SELF, &self);
    ::_exit(static_cast<int>(std::min(254L, 2 + std::max(children.ru_maxrss, self.ru_maxrss) / 1024)));
  }
  int status = 0;
  ::waitpid(id, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_GT(WEXITSTATUS(status), 1) << "the reader failed";
  return WEXITSTATUS(status) - 2;
}

TEST_F(RowReaderTest, reads_half_a_gigabyte_in_a_few_megabytes) {
  constexpr std::uint64_t kBytes = std::uint64_t{512} << 20;
  const auto read_all = [](const std::string& location, std::uint64_t bytes) {
    const std::unique_ptr<RowReader> rows = open_rows(location);
    std::vector<std::byte> piece(1 << 20);
    for (std::uint64_t at = 0; at < bytes; at += piece.size()) rows->read(piece);
  };
  // Holes in the file: no disk is needed.
  write_npy(dir / "t.npy", {"", Dtype::u8, {0, 1 << 20}, {}});
  std::string npy = test::read_file(dir / "t.npy");
  npy.replace(npy.find("(0,"), 3, "(512,");
  npy.replace(npy.find("}    ") + 1, 2, "");
  test::write_file(dir / "t.npy", npy);
  std::filesystem::resize_file(dir / "t.npy", npy.size() + kBytes);
  EXPECT_LT(peak_of([&] { read_all(dir / "t.npy", kBytes); }), 64);

  write_hdf5(dir / "t.h5", [](hid_t file) {
    const auto holes = [](hid_t p) {
      H5Pset_alloc_time(p, H5D_ALLOC_TIME_EARLY);
      H5Pset_fill_time(p, H5D_FILL_TIME_NEVER);
    };
    add_dataset(file, "/contiguous", H5T_STD_U8LE, {{512, 1 << 20}, {}, holes, false});
  });
  EXPECT_LT(peak_of([&] { read_all((dir / "t.h5") + ":/contiguous", kBytes); }), 64);

  const GoldenInfo info{{}, {{"x", Role::input, "float8_e4m3fn", Dtype::u8, {128, 1 << 20}, {}}}};
  EXPECT_LT(peak_of([&] {
              GoldenWriter writer(dir / "g.h5", info, {1});
              const std::vector<std::byte> row(1 << 20);
              for (int i = 0; i < 128; ++i) writer.append(0, row);
              writer.commit();
            }),
            64);
  EXPECT_LT(peak_of([&] { read_all((dir / "g.h5") + ":/x", 128 << 20); }), 64);
}

#endif

}  // namespace
}  // namespace mxcheck
