#include <gtest/gtest.h>

#include <cstring>

#include "goldens/io/tensor_file.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

Tensor parse(const std::string& bytes) { return parse_npy(std::as_bytes(std::span(bytes)), "x.npy"); }

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
  const Tensor t = parse(numpy_written());
  EXPECT_EQ(t.dtype, Dtype::f32);
  EXPECT_EQ(t.shape, (std::vector<std::int64_t>{2, 3}));
  for (int i = 0; i < 6; ++i) {
    float value = -1;
    std::memcpy(&value, t.data.data() + 4 * i, 4);
    EXPECT_EQ(value, static_cast<float>(i));
  }
}

TEST(Npy, writes_the_bytes_that_numpy_writes) {
  const test::TemporaryDirectory dir;
  write_npy(dir / "x.npy", parse(numpy_written()));
  EXPECT_EQ(test::read_file(dir / "x.npy"), numpy_written());
  EXPECT_EQ(dir.names(), std::vector<std::string>{"x.npy"});
}

TEST(Npy, reads_versions_1_to_3_and_every_spelling_of_the_dictionary) {
  const std::string data(4, 'x');
  const std::string plain = "{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }";
  for (const char version : {'\1', '\2', '\3'}) EXPECT_EQ(parse(npy(plain, data, version)).dtype, Dtype::u16);
  const std::vector<std::string> spellings{
      "{'descr':'<u2','fortran_order':False,'shape':(2,)}\n",
      "{\"descr\": \"<u2\", \"fortran_order\": False, \"shape\": (2,)}   \n",
      "{'shape': (2L,), 'fortran_order': False, 'descr': '<u2'}",
      "{'shape': (2,), 'fortran_order': True, 'descr': '<u2'}",  // of one dimension both orders are the same
      "{'shape': (2, 1,), 'fortran_order': False, 'descr': '<u2', }",
  };
  for (const std::string& s : spellings) EXPECT_EQ(parse(npy(s, data)).data.size(), 4U) << s;
}

TEST(Npy, round_trips_every_dtype_and_odd_shapes) {
  const test::TemporaryDirectory dir;
  const std::vector<std::vector<std::int64_t>> shapes{{}, {5}, {0, 7}, {3, 0}, {2, 3, 4}, {1, 1, 1, 1, 1}};
  for (int d = 0; d <= static_cast<int>(Dtype::f64); ++d) {
    for (const auto& shape : shapes) {
      Tensor t{"", static_cast<Dtype>(d), shape, {}};
      std::size_t count = size_of(t.dtype);
      for (const std::int64_t n : shape) count *= static_cast<std::size_t>(n);
      for (std::size_t i = 0; i < count; ++i) t.data.push_back(static_cast<std::byte>(i * 37 + 11));
      write_npy(dir / "t.npy", t);
      const Tensor back = read_tensor(dir / "t.npy");
      EXPECT_EQ(back.dtype, t.dtype);
      EXPECT_EQ(back.shape, t.shape);
      EXPECT_EQ(back.data, t.data);
    }
  }
}

TEST(Npy, refuses_every_shorter_and_longer_file) {
  const std::string whole = numpy_written();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    expect_error(ErrorKind::input, "x.npy: ", [&] { parse(whole.substr(0, n)); });
  }
  expect_error(ErrorKind::input, "too long: the header calls for 24 bytes of data, there are 25",
               [&] { parse(whole + "x"); });
}

TEST(Npy, survives_every_change_of_one_byte) {
  const std::string whole = numpy_written();
  std::size_t refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int change = 1; change < 256; ++change) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      try {
        const Tensor t = parse(damaged);
        ASSERT_EQ(t.data.size(), 24U);
      } catch (const Error& e) {
        ASSERT_EQ(e.kind(), ErrorKind::input);
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, whole.size() * 100);
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
  for (const auto& [bytes, text] : cases) expect_error(ErrorKind::input, text, [&, &b = bytes] { parse(b); });
}

TEST(Npy, refuses_a_header_of_four_gigabytes_before_making_room_for_it) {
  std::string file("\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF", 12);
  expect_error(ErrorKind::input, "over 64 KiB", [&] { parse(file + "{}"); });
}

TEST(Npy, refuses_to_write_a_tensor_whose_data_does_not_fit_its_shape) {
  const test::TemporaryDirectory dir;
  const Tensor t{"t", Dtype::f32, {2}, std::vector<std::byte>(7)};
  expect_error(ErrorKind::usage, "tensor 't' has 7 bytes", [&] { write_npy(dir / "t.npy", t); });
  EXPECT_TRUE(dir.names().empty());
}

}  // namespace
}  // namespace mxcheck
