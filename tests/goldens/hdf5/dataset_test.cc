#include <sys/wait.h>
#include <cerrno>

#include "goldens/hdf5/handle.h"
#include "goldens/hdf5/storage.h"
#include "goldens/io/readers.h"
#include "tests/goldens/hdf5/hdf5_writer.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

class Hdf5Test : public testing::Test {
 protected:
  TemporaryDirectory dir;
  std::string path = dir / "x.h5";
};

struct Expected {
  hid_t type;
  Format dtype;
};

TEST_F(Hdf5Test, reads_every_dtype) {
  const std::vector<Expected> types{{H5T_STD_U8LE, Format::uint8},          {H5T_STD_I8BE, Format::int8},
                                    {H5T_STD_U16LE, Format::uint16},        {H5T_STD_U32LE, Format::uint32},
                                    {H5T_STD_I32LE, Format::int32},         {H5T_STD_I64LE, Format::int64},
                                    {H5T_IEEE_F32LE, Format::fp32},         {H5T_IEEE_F64LE, Format::fp64},
                                    {small_float(10, 5, 15), Format::fp16}, {small_float(7, 8, 127), Format::bf16}};
  for (const Expected& e : types) {
    if (e.dtype == Format::int8) continue;  // below: of one byte both orders are the same
    std::vector<std::byte> bytes;
    write_hdf5(path, [&](hid_t file) { bytes = add_dataset(file, "/x", e.type); });
    const Tensor t = read_tensor(path + ":/x");
    EXPECT_EQ(t.format, e.dtype);
    EXPECT_EQ(t.shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(t.data, bytes);
  }
}

TEST_F(Hdf5Test, reads_contiguous_compact_and_chunked_storage_with_the_three_filters) {
  const std::vector<std::pair<std::string, DatasetOptions>> storages{
      {"compact", {{5, 7}, {}, [](hid_t p) { H5Pset_layout(p, H5D_COMPACT); }}},
      {"chunks that do not divide", {{5, 7}, {2, 3}, {}}},
      {"deflate", {{50, 70}, {8, 70}, [](hid_t p) { H5Pset_deflate(p, 9); }}},
      {"all three", {{50, 70}, {8, 9}, [](hid_t p) { H5Pset_shuffle(p), H5Pset_deflate(p, 1), H5Pset_fletcher32(p); }}},
      {"empty", {{0, 4}, {}, {}}},
  };
  for (const auto& [name, options] : storages) {
    std::vector<std::byte> bytes;
    write_hdf5(path, [&, &o = options](hid_t file) {
      H5Gclose(H5Gcreate2(file, "/g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      bytes = add_dataset(file, "/g/x", H5T_IEEE_F32LE, o);
    });
    EXPECT_EQ(read_tensor(path + ":/g/x").data, bytes) << name;
  }
}

TEST_F(Hdf5Test, reads_zeros_that_deflate_to_almost_nothing) {
  write_hdf5(path, [&](hid_t file) {
    const hsize_t n = 1 << 22;
    const DatasetOptions o{{n}, {n}, [](hid_t p) { H5Pset_deflate(p, 9); }, false};
    add_dataset(file, "/x", H5T_STD_U8LE, o);
    const std::vector<std::uint8_t> zeros(n);
    const hid_t set = H5Dopen2(file, "/x", H5P_DEFAULT);
    H5Dwrite(set, H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros.data());
    H5Dclose(set);
  });
  EXPECT_LT(std::filesystem::file_size(path), 10000U);
  EXPECT_EQ(read_tensor(path + ":/x").data, std::vector<std::byte>(1 << 22));
}

TEST_F(Hdf5Test, takes_unsigned_integers_with_the_attribute_format_for_floats) {
  for (const bool variable : {false, true}) {
    write_hdf5(path, [&](hid_t file) {
      for (const std::string name : {"bfloat16", "float16", "bfloat16x"}) {
        add_dataset(file, "/" + name, H5T_STD_U16LE);
        add_attribute(file, "/" + name, "format", name, variable);
      }
      for (const std::string name : {"float32", "float16"}) {
        add_dataset(file, "/wide_" + name, H5T_STD_U32LE);
        add_attribute(file, "/wide_" + name, "format", name, variable);
      }
    });
    EXPECT_EQ(read_tensor(path + ":/bfloat16").format, Format::bf16);
    EXPECT_EQ(read_tensor(path + ":/float16").format, Format::fp16);
    EXPECT_EQ(read_tensor(path + ":/bfloat16x").format, Format::uint16);
    EXPECT_EQ(read_tensor(path + ":/wide_float32").format, Format::fp32);
    EXPECT_EQ(read_tensor(path + ":/wide_float16").format, Format::uint32);
  }
}

TEST_F(Hdf5Test, refuses_types_that_are_not_plain_numbers) {
  const hid_t compound = H5Tcreate(H5T_COMPOUND, 4);
  H5Tinsert(compound, "a", 0, H5T_STD_U32LE);
  const hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, 4);
  const hid_t variable_text = H5Tcopy(H5T_C_S1);
  H5Tset_size(variable_text, H5T_VARIABLE);
  const hid_t odd = H5Tcopy(H5T_STD_U32LE);
  H5Tset_precision(odd, 24);
  const hid_t enumeration = H5Tcreate(H5T_ENUM, 1);
  const char no = 0;
  H5Tenum_insert(enumeration, "FALSE", &no);
  const std::vector<std::pair<hid_t, std::string>> types{{H5T_IEEE_F32BE, "big-endian"},
                                                         {H5T_STD_U16BE, "big-endian"},
                                                         {compound, "compound"},
                                                         {text, "strings"},
                                                         {variable_text, "variable-length"},
                                                         {H5Tvlen_create(H5T_STD_U8LE), "variable-length"},
                                                         {H5T_STD_REF_OBJ, "references"},
                                                         {enumeration, "enumerated"},
                                                         {odd, "a type that is not read"},
                                                         {H5T_STD_U64LE, "not read"},
                                                         {H5T_STD_I16LE, "read are little-endian u8"}};
  for (const auto& [type, what] : types) {
    write_hdf5(path, [&, t = type](hid_t file) { add_dataset(file, "/x", t, {{2}, {}, {}, false}); });
    expect_error(ErrorKind::input, what, [&] { read_tensor(path + ":/x"); });
  }
}

TEST_F(Hdf5Test, follows_no_links_and_opens_no_other_files) {
  const std::string other = dir / "other.h5";
  write_hdf5(other, [](hid_t file) { add_dataset(file, "/x", H5T_STD_U8LE); });
  write_hdf5(path, [&](hid_t file) {
    add_dataset(file, "/x", H5T_STD_U8LE);
    H5Gclose(H5Gcreate2(file, "/g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Lcreate_soft("/x", file, "/soft", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/g", file, "/softgroup", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external(other.c_str(), "/x", file, "/external", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external(other.c_str(), "/", file, "/externalroot", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_hard(file, "/x", file, "/g/hard", H5P_DEFAULT, H5P_DEFAULT);
    add_dataset(file, "/outside", H5T_STD_U8LE,
                {{6}, {}, [&](hid_t p) { H5Pset_external(p, (dir / "raw").c_str(), 0, 6); }});
    add_dataset(file, "/virtual", H5T_STD_U8LE,
                {{6},
                 {},
                 [&](hid_t p) {
                   const hsize_t six = 6;
                   const hid_t space = H5Screate_simple(1, &six, nullptr);
                   H5Pset_virtual(p, space, other.c_str(), "/x", space);
                   H5Sclose(space);
                 },
                 false});
  });
  EXPECT_EQ(read_tensor(path + ":/g/hard").data.size(), 6U);
  const std::vector<std::pair<std::string, std::string>> cases{
      {"/soft", "'/soft' is a soft or external link"},
      {"/softgroup/hard", "'/softgroup' is a soft or external link"},
      {"/external", "link, which is not followed"},
      {"/externalroot/x", "link, which is not followed"},
      {"/outside", "external storage"},
      {"/virtual", "virtual dataset"},
      {"/g", "not a dataset"},
      {"/nothing", "there is no '/nothing'"},
      {"/x/y", "there is no '/x/y'"},
      {"/", "names more than a group"},
      {"x", "begins with '/'"},
      {"/g//hard", "an empty name"},
      {"/g/", "names more than a group"},
  };
  for (const auto& [name, text] : cases)
    expect_error(ErrorKind::input, text, [&, &n = name] { read_tensor(path + ":" + n); });
}

TEST_F(Hdf5Test, refuses_other_filters_and_data_that_was_never_written) {
  write_hdf5(path, [&](hid_t file) {
    add_dataset(file, "/nbit", H5T_STD_U8LE, {{8}, {8}, [](hid_t p) { H5Pset_nbit(p); }});
    add_dataset(file, "/scale", H5T_STD_I32LE, {{8}, {8}, [](hid_t p) { H5Pset_scaleoffset(p, H5Z_SO_INT, 0); }});
    add_dataset(file, "/nochunks", H5T_STD_U8LE, {{8}, {4}, {}, false});
    add_dataset(file, "/late", H5T_STD_U8LE, {{8}, {}, {}, false});
    const hsize_t huge = hsize_t{1} << 50;
    add_dataset(file, "/huge", H5T_STD_U8LE, {{huge}, {1 << 20}, {}, false});
    add_dataset(file, "/overflow", H5T_STD_U8LE, {{huge, 1 << 13}, {1 << 10, 1 << 10}, {}, false});
  });
  const std::vector<std::pair<std::string, std::string>> cases{{"/nbit", "uses filter 5"},
                                                               {"/scale", "uses filter 6"},
                                                               {"/nochunks", "not every chunk was written"},
                                                               {"/late", "more data than was written"},
                                                               {"/huge", "more data than the file can hold"},
                                                               {"/overflow", "overflow"}};
  for (const auto& [name, text] : cases)
    expect_error(ErrorKind::input, text, [&, &n = name] { read_tensor(path + ":" + n); });
}

// Both storages, so that chunk indices and filters are damaged too.
void write_small(const std::string& path) {
  write_hdf5(path, [](hid_t file) {
    add_dataset(file, "/x", H5T_STD_U16LE);
    add_dataset(file, "/c", H5T_STD_U8LE,
                {{8, 8}, {4, 8}, [](hid_t p) { H5Pset_deflate(p, 1), H5Pset_fletcher32(p); }});
  });
}

TEST_F(Hdf5Test, refuses_every_shorter_file) {
  write_small(path);
  const std::string whole = read_file(path);
  ASSERT_LT(whole.size(), 16384U);
  for (std::size_t n = 0; n < whole.size(); n += n < 1024 || n + 256 > whole.size() ? 1 : 37) {
    write_file(dir / "cut.h5", whole.substr(0, n));
    expect_error(ErrorKind::input, "cut.h5", [&] { read_tensor((dir / "cut.h5") + ":/x"); });
  }
}

TEST_F(Hdf5Test, survives_changes_of_single_bytes) {
  write_small(path);
  const std::string whole = read_file(path);
  std::size_t refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (whole.substr(at, 16) == std::string(16, '\0')) continue;  // slack
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (at % 2 == 0 ? 0xFF : 0x01));
    write_file(dir / "bad.h5", damaged);
    try {
      read_tensor((dir / "bad.h5") + (at % 3 == 0 ? ":/x" : ":/c"));
    } catch (const Error& e) {
      ASSERT_EQ(e.kind(), ErrorKind::input) << at;
      ++refused;
    }
  }
  EXPECT_GT(refused, 100U);
}

TEST_F(Hdf5Test, a_file_with_a_checksum_gives_the_right_data_or_none) {
  std::vector<std::byte> bytes;
  write_hdf5(path, [&](hid_t file) {
    bytes = add_dataset(file, "/x", H5T_STD_U8LE, {{64}, {64}, [](hid_t p) { H5Pset_fletcher32(p); }});
  });
  std::string damaged = read_file(path);
  const std::string data(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::size_t at = damaged.find(data);
  ASSERT_NE(at, std::string::npos);
  damaged[at + 10] = static_cast<char>(damaged[at + 10] ^ 1);
  write_file(path, damaged);
  expect_error(ErrorKind::input, "cannot be read", [&] { read_tensor(path + ":/x"); });
}

TEST_F(Hdf5Test, leaves_no_child_processes_and_no_open_files_behind) {
  write_small(path);
  const auto open_files = [] {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
    return n;
  };
  const std::size_t before = open_files();
  for (int i = 0; i < 5; ++i) {
    read_tensor(path + ":/x");
    expect_error(ErrorKind::input, "there is no", [&] { read_tensor(path + ":/y"); });
  }
  EXPECT_EQ(open_files(), before);
  errno = 0;
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

class Hdf5Attributes : public testing::Test {
 protected:
  Hdf5Attributes() {
    quiet_hdf5();
    const Hdf5Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
    H5Pset_attr_creation_order(creation.id(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    file = Hdf5Handle(H5Fcreate((dir / "f.h5").c_str(), H5F_ACC_TRUNC, creation.id(), H5P_DEFAULT), H5Fclose);
    root = Hdf5Handle(H5Gopen2(file.id(), "/", H5P_DEFAULT), H5Gclose);
  }
  TemporaryDirectory dir;
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
  expect_contains(said, "No such file or directory");
  EXPECT_EQ(said.find('\n'), std::string::npos);
}

TEST(Hdf5Rows, give_every_byte_whatever_the_pieces_and_the_chunks) {
  quiet_hdf5();
  const TemporaryDirectory dir;
  const std::vector<DatasetOptions> storages{{{3, 4, 5}, {}, {}}, {{3, 4, 5}, {2, 3, 2}, {}}, {{60}, {7}, {}}};
  for (const DatasetOptions& options : storages) {
    std::vector<std::byte> bytes;
    write_hdf5(dir / "f.h5", [&](hid_t f) { bytes = add_dataset(f, "/x", H5T_STD_U16LE, options); });
    const Hdf5Handle file(H5Fopen((dir / "f.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
    const Hdf5Place place{"f.h5:/x", ErrorKind::input, std::filesystem::file_size(dir / "f.h5")};
    const TensorHead head{Format::uint16, {options.shape.begin(), options.shape.end()}};
    for (const std::size_t piece : {2U, 6U, 14U, 46U, 120U}) {  // bytes: not every one is a divisor of a row
      Hdf5Rows rows(open_dataset(file.id(), "/x", place), head, place);
      std::vector<std::byte> got(bytes.size());
      for (std::size_t at = 0; at < got.size(); at += piece)
        rows.read(std::span(got).subspan(at, std::min(piece, got.size() - at)));
      EXPECT_EQ(got, bytes) << piece;
      std::vector<std::byte> more(2);
      expect_error(ErrorKind::usage, "2 bytes are asked for, 0 are left", [&] { rows.read(more); });
    }
    Hdf5Rows rows(open_dataset(file.id(), "/x", place), head, place);
    std::vector<std::byte> half(3);
    expect_error(ErrorKind::usage, "a part of an element", [&] { rows.read(half); });
  }
}

class Hdf5Storage : public testing::Test {
 protected:
  // A file with the dataset /x of these options, opened again.
  void open(const DatasetOptions& options) {
    quiet_hdf5();
    set = {}, file = {};
    write_hdf5(dir / "f.h5", [&](hid_t f) { add_dataset(f, "/x", H5T_STD_U16LE, options); });
    place.file_bytes = std::filesystem::file_size(dir / "f.h5");
    file = Hdf5Handle(H5Fopen((dir / "f.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
    set = open_dataset(file.id(), "/x", place);
  }
  TemporaryDirectory dir;
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

TEST(Hdf5Image, reads_several_files_of_memory_without_a_copy_of_them) {
  quiet_hdf5();
  const TemporaryDirectory dir;
  std::vector<std::string> images;
  for (const char* name : {"/a", "/b"}) {
    write_hdf5(dir / "f.h5", [&](hid_t file) { add_dataset(file, name, H5T_STD_U8LE); });
    images.push_back(read_file(dir / "f.h5"));
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
