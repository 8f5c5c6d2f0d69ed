#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>

#include "goldens/io/byte_source.h"
#include "goldens/io/row_reader.h"
#include "goldens/io/tensor_file.h"
#include "tests/goldens/format/golden_samples.h"
#include "tests/goldens/hdf5/hdf5_writer.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

Tensor parsed_npy(const std::string& bytes) { return parse_npy(std::as_bytes(std::span(bytes)), "x.npy"); }

// A file of version 1.0 around this dictionary.
std::string npy(const std::string& dict, const std::string& data, char major = 1) {
  std::string file("\x93NUMPY", 6);
  file += major;
  file += '\0';
  file += static_cast<char>(dict.size() & 0xFF);
  file += static_cast<char>(dict.size() >> 8);
  if (major > 1) file += std::string(2, '\0');
  return file + dict + data;
}

// numpy.save(f, numpy.arange(6, dtype="<f4").reshape(2, 3)), NumPy 1.24.
std::string numpy_written() {
  std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  dict.append(118 - 1 - dict.size(), ' ');
  return npy(dict + "\n", std::string("\0\0\0\0\0\0\x80?\0\0\0@\0\0@@\0\0\x80@\0\0\xa0@", 24));
}

TEST(Npy, reads_a_file_that_numpy_wrote) {
  const Tensor t = parsed_npy(numpy_written());
  EXPECT_EQ(t.format, Format::fp32);
  EXPECT_EQ(t.shape, (std::vector<std::int64_t>{2, 3}));
  for (int i = 0; i < 6; ++i) {
    float value = -1;
    std::memcpy(&value, t.data.data() + 4 * i, 4);
    EXPECT_EQ(value, static_cast<float>(i));
  }
}

TEST(Npy, writes_the_bytes_that_numpy_writes) {
  const TemporaryDirectory dir;
  write_npy(dir / "x.npy", parsed_npy(numpy_written()));
  EXPECT_EQ(read_file(dir / "x.npy"), numpy_written());
  EXPECT_EQ(dir.names(), std::vector<std::string>{"x.npy"});
}

TEST(Npy, reads_versions_1_to_3_and_every_spelling_of_the_dictionary) {
  const std::string data(4, 'x');
  const std::string plain = "{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }";
  for (const char version : {'\1', '\2', '\3'}) EXPECT_EQ(parsed_npy(npy(plain, data, version)).format, Format::uint16);
  const std::vector<std::string> spellings{
      "{'descr':'<u2','fortran_order':False,'shape':(2,)}\n",
      "{\"descr\": \"<u2\", \"fortran_order\": False, \"shape\": (2,)}   \n",
      "{'shape': (2L,), 'fortran_order': False, 'descr': '<u2'}",
      "{'shape': (2,), 'fortran_order': True, 'descr': '<u2'}",  // of one dimension both orders are the same
      "{'shape': (2, 1,), 'fortran_order': False, 'descr': '<u2', }",
  };
  for (const std::string& s : spellings) EXPECT_EQ(parsed_npy(npy(s, data)).data.size(), 4U) << s;
}

TEST(Npy, round_trips_every_dtype_and_odd_shapes) {
  const TemporaryDirectory dir;
  const std::vector<std::vector<std::int64_t>> shapes{{}, {5}, {0, 7}, {3, 0}, {2, 3, 4}, {1, 1, 1, 1, 1}};
  for (const Format format : kFileFormats) {
    for (const auto& shape : shapes) {
      Tensor t{"", format, shape, {}};
      std::size_t count = size_of(t.format);
      for (const std::int64_t n : shape) count *= static_cast<std::size_t>(n);
      for (std::size_t i = 0; i < count; ++i) t.data.push_back(static_cast<std::byte>(i * 37 + 11));
      write_npy(dir / "t.npy", t);
      const Tensor back = read_tensor(dir / "t.npy");
      EXPECT_EQ(back.format, t.format);
      EXPECT_EQ(back.shape, t.shape);
      EXPECT_EQ(back.data, t.data);
    }
  }
}

TEST(Npy, refuses_every_shorter_and_longer_file) {
  const std::string whole = numpy_written();
  for (std::size_t n = 0; n < whole.size(); ++n)
    expect_error(ErrorKind::input, "x.npy: ", [&] { parsed_npy(whole.substr(0, n)); });
  expect_error(ErrorKind::input, "too long: the header calls for 24 bytes of data, there are 25",
               [&] { parsed_npy(whole + "x"); });
}

TEST(Npy, survives_every_change_of_one_byte) {
  expect_bytes_or_refused(numpy_written(), 24, 100,
                          [](const std::string& file) { return parsed_npy(file).data.size(); });
}

TEST(Npy, says_what_is_wrong) {
  const auto with = [](const std::string& descr, const std::string& order, const std::string& shape) {
    return npy("{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + "}", std::string(8, 'x'));
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {"GARBAGE, not NumPy at all", "the magic is missing"},
      {npy("{}", "", 4), "npy version 4.0 is not known"},
      {with("'>f4'", "False", "(2,)"), "big-endian"},
      {with("'|O'", "False", "(1,)"), "never unpickled"},
      {with("[('a', '<f4'), ('b', '<f4')]", "False", "(1,)"), "structured dtypes"},
      {with("'<c8'", "False", "(1,)"), "npy dtype '<c8' is not read"},
      {with("'|b1'", "False", "(8,)"), "npy dtype '|b1' is not read"},
      {with("'<U2'", "False", "(1,)"), "npy dtype '<U2' is not read"},
      {with("'<f4'", "True", "(1, 2)"), "Fortran order"},
      {with("'<f4'", "false", "(2,)"), "expected True or False"},
      {with("'<f4'", "False", "(3,)"), "truncated: the header calls for 12 bytes"},
      {with("'<f4'", "False", "(1,)"), "too long"},
      {with("'<f4'", "False", "(-2,)"), "expected a dimension"},
      {with("'<f4'", "False", "2"), "expected '('"},
      {with("'<f4'", "False", "(2"), "expected ')'"},
      {with("'<f4'", "False", "(9223372036854775808,)"), "expected a dimension"},
      {with("'<f4'", "False", "(9223372036854775807, 9223372036854775807)"), "overflows"},
      {with("'<f8'", "False", "(4611686018427387904, 2)"), "overflows"},
      {with("'<f4'", "False", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"), "more than 32"},
      {npy("{'descr': '<f4', 'shape': (2,)}", std::string(8, 'x')), "must give descr"},
      {npy("{'descr': '<f4', 'descr': '<f4'}", ""), "unknown or repeated key 'descr'"},
      {npy("{'descr': '<f4', 'color': 'red'}", ""), "unknown or repeated key 'color'"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} + 1", std::string(8, 'x')), "text follows"},
      {npy("{'descr': '<f4", ""), "a string has no end"},
      {npy("[1, 2]", ""), "expected '{'"},
      {npy("", ""), "expected '{'"},
  };
  for (const auto& [bytes, text] : cases) expect_error(ErrorKind::input, text, [&, &b = bytes] { parsed_npy(b); });
}

TEST(Npy, refuses_a_header_of_four_gigabytes_before_making_room_for_it) {
  std::string file("\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF", 12);
  expect_error(ErrorKind::input, "over 64 KiB", [&] { parsed_npy(file + "{}"); });
}

TEST(Npy, refuses_to_write_a_tensor_whose_data_does_not_fit_its_shape) {
  const TemporaryDirectory dir;
  const Tensor t{"t", Format::fp32, {2}, std::vector<std::byte>(7)};
  expect_error(ErrorKind::usage, "tensor 't' has 7 bytes", [&] { write_npy(dir / "t.npy", t); });
  EXPECT_TRUE(dir.names().empty());
}

TEST(ByteSource, gives_the_same_bytes_from_memory_and_from_a_file) {
  const TemporaryDirectory dir;
  const std::string bytes = "0123456789";
  write_file(dir / "f", bytes);
  const SpanSource memory(std::as_bytes(std::span(bytes)), "memory");
  const FileSource file(dir / "f");
  for (const ByteSource* source : std::array<const ByteSource*, 2>{&memory, &file}) {
    EXPECT_EQ(source->size(), 10U);
    EXPECT_EQ(source->text(), bytes);
    std::string part(3, ' ');
    source->read(7, std::as_writable_bytes(std::span(part)));
    EXPECT_EQ(part, "789");
    source->read(10, {});
    for (const std::uint64_t offset :
         {std::uint64_t{8}, std::uint64_t{11}, std::numeric_limits<std::uint64_t>::max()}) {
      expect_error(ErrorKind::input, source->name() + ": truncated: bytes ",
                   [&] { source->read(offset, std::as_writable_bytes(std::span(part))); });
    }
  }
}

TEST(ByteSource, a_file_that_shrinks_or_is_none_is_an_error) {
  const TemporaryDirectory dir;
  write_file(dir / "f", "0123456789");
  const FileSource file(dir / "f");
  std::filesystem::resize_file(dir / "f", 4);
  std::string all(10, ' ');
  expect_error(ErrorKind::input, "truncated while it was being read",
               [&] { file.read(0, std::as_writable_bytes(std::span(all))); });
  expect_error(ErrorKind::input, "not a regular file but a directory", [&] { FileSource source(dir.path()); });
  expect_error(ErrorKind::input, "cannot be opened: No such file", [&] { FileSource source(dir / "none"); });
}

TEST(CheckedMultiply, refuses_beyond_63_bits) {
  std::uint64_t product = 0;
  EXPECT_TRUE(checked_multiply(std::uint64_t{1} << 31, std::uint64_t{1} << 31, product));
  EXPECT_EQ(product, std::uint64_t{1} << 62);
  EXPECT_FALSE(checked_multiply(std::uint64_t{1} << 32, std::uint64_t{1} << 31, product));
  EXPECT_TRUE(checked_multiply(0, std::numeric_limits<std::uint64_t>::max(), product));
  EXPECT_EQ(product, 0U);
}

TEST(CheckedBytes, is_exact_up_to_63_bits_and_refuses_beyond) {
  constexpr std::int64_t kBig = std::int64_t{1} << 62;
  const auto bytes = [](std::vector<std::int64_t> shape, std::size_t size) { return checked_bytes(shape, size, "t"); };
  EXPECT_EQ(bytes({}, 4), 4U);
  EXPECT_EQ(bytes({3, 5}, 2), 30U);
  EXPECT_EQ(bytes({kBig}, 1), static_cast<std::uint64_t>(kBig));
  EXPECT_EQ(bytes({kBig, kBig, 0}, 8), 0U);
  EXPECT_EQ(bytes({0, kBig, kBig}, 8), 0U);
  expect_error(ErrorKind::input, "overflows", [&] { bytes({kBig}, 2); });
  expect_error(ErrorKind::input, "overflows", [&] { bytes({kBig, 2}, 1); });
  expect_error(ErrorKind::input, "overflows", [&] { bytes({1 << 30, 1 << 30, 1 << 30}, 1); });
  expect_error(ErrorKind::input, "negative", [&] { bytes({-1}, 1); });
  expect_error(ErrorKind::input, "negative", [&] { bytes({0, -1}, 1); });
}

class RowReaderTest : public testing::Test {
 protected:
  TemporaryDirectory dir;
};

std::vector<std::byte> read_in_steps(const std::string& location, std::size_t step) {
  const std::unique_ptr<RowReader> rows = open_rows(location);
  std::vector<std::byte> data(checked_bytes(rows->head().shape, size_of(rows->head().dtype), location));
  for (std::size_t at = 0; at < data.size(); at += step)
    rows->read(std::span(data).subspan(at, std::min(step, data.size() - at)));
  expect_error(ErrorKind::usage, "8 bytes are asked for, 0 are left", [&] {
    std::vector<std::byte> more(8);
    rows->read(more);
  });
  return data;
}

void expect_rows_are_the_tensor(const std::string& location, const std::vector<std::size_t>& steps) {
  const Tensor whole = read_tensor(location);
  const std::unique_ptr<RowReader> rows = open_rows(location);
  EXPECT_EQ(rows->head().dtype, whole.format);
  EXPECT_EQ(rows->head().shape, whole.shape);
  for (const std::size_t step : steps) EXPECT_EQ(read_in_steps(location, step), whole.data) << location << " " << step;
}

TEST_F(RowReaderTest, gives_what_read_tensor_gives_in_pieces_of_any_size) {
  const Tensor t{"t", Format::fp32, {7, 10}, pattern(280)};
  write_npy(dir / "t.npy", t);
  write_safetensors(dir / "t.safetensors", {{t, {"u", Format::uint8, {3}, pattern(3)}}, {}});
  expect_rows_are_the_tensor(dir / "t.npy", {1, 40, 280});
  expect_rows_are_the_tensor((dir / "t.safetensors") + ":t", {1, 40, 280});
  expect_rows_are_the_tensor((dir / "t.safetensors") + ":u", {2});
}

TEST_F(RowReaderTest, reads_every_storage_of_hdf5) {
  const std::string path = dir / "t.h5";
  const auto compact = [](hid_t p) { H5Pset_layout(p, H5D_COMPACT); };
  const auto deflate = [](hid_t p) { H5Pset_shuffle(p), H5Pset_deflate(p, 1), H5Pset_fletcher32(p); };
  const std::vector<DatasetOptions> storages{
      {{5, 7}, {}, compact},        {{5, 7}, {}, {}},
      {{50, 70}, {50, 1}, deflate}, {{3, 4, 5, 6}, {2, 3, 2, 5}, deflate},
      {{1000, 3}, {1000, 3}, {}},   {{2, 300}, {1, 7}, {}},
      {{700}, {64}, deflate},       {{0, 4}, {}, {}},
      {{1, 1, 1}, {1, 1, 1}, {}},
  };
  for (const DatasetOptions& storage : storages) {
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
  write_npy(dir / "t.npy", {"", Format::uint8, {4}, pattern(4)});
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
  write_npy(dir / "t.npy", {"", Format::uint8, {1 << 20}, pattern(1 << 20)});
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
  std::string damaged = read_file(path);
  damaged[damaged.size() - 100000] = static_cast<char>(damaged[damaged.size() - 100000] ^ 1);
  write_file(path, damaged);
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
  write_npy(dir / "t.npy", {"", Format::uint8, {0, 1 << 20}, {}});
  std::string npy = read_file(dir / "t.npy");
  npy.replace(npy.find("(0,"), 3, "(512,");
  npy.replace(npy.find("}    ") + 1, 2, "");
  write_file(dir / "t.npy", npy);
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

  const GoldenInfo info{{}, {{"x", Role::input, "float8_e4m3fn", Format::uint8, {128, 1 << 20}, {}}}};
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
