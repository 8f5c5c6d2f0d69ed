// Files that a golden's reader must not take although their hash is right: made with the HDF5 library, one wrong thing
// each.

#include <fcntl.h>
#include <hdf5.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "goldens/format/reader.h"
#include "tests/goldens/format/golden_samples.h"
#include "tests/goldens/hdf5/hdf5_writer.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

constexpr unsigned kOrdered = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;

hid_t text_type(std::size_t bytes) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, bytes);
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return type;
}

void attribute_of_type(hid_t object, const char* key, hid_t type, const void* value, hid_t space) {
  const hid_t attribute = H5Acreate2(object, key, type, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(attribute, type, value);
  H5Aclose(attribute);
}

void text(hid_t object, const char* key, const std::string& value) {
  const hid_t type = text_type(std::max<std::size_t>(1, value.size()));
  const hid_t scalar = H5Screate(H5S_SCALAR);
  attribute_of_type(object, key, type, value.c_str(), scalar);
  H5Sclose(scalar);
  H5Tclose(type);
}

// The parts of a dataset, a good one by default; a case changes one thing.
struct Set {
  std::string name = "x";
  hid_t type = H5T_STD_U8LE;
  std::vector<hsize_t> shape{4, 8};
  std::vector<hsize_t> most{};
  std::vector<hsize_t> chunk{4, 8};
  bool checksum = true;
  bool data = true;
  std::function<void(hid_t)> properties{};
  std::string role = "output";
  std::string format = "float8_e4m3fn";
  std::function<void(hid_t)> more{};  // further attributes
};

void add(hid_t file, const Set& s = {}) {
  const int rank = static_cast<int>(s.shape.size());
  const hid_t space = rank == 0 ? H5Screate(H5S_SCALAR)
                                : H5Screate_simple(rank, s.shape.data(), s.most.empty() ? nullptr : s.most.data());
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_attr_creation_order(creation, kOrdered);
  if (!s.chunk.empty()) H5Pset_chunk(creation, static_cast<int>(s.chunk.size()), s.chunk.data());
  if (s.properties) s.properties(creation);
  if (s.checksum) H5Pset_fletcher32(creation);
  const hid_t set = H5Dcreate2(file, s.name.c_str(), s.type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  ASSERT_GE(set, 0);
  if (s.data) {
    const std::vector<std::byte> bytes(1 << 16);
    H5Dwrite(set, s.type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
  }
  if (s.role != "-") text(set, "role", s.role);
  if (s.format != "-") text(set, "format", s.format);
  if (s.more) s.more(set);
  H5Dclose(set);
  H5Pclose(creation);
  H5Sclose(space);
}

class GoldenRefusalsTest : public testing::Test {
 protected:
  // A file with `kind` and `version` as its attributes, handed to `fill`.
  void make(const std::function<void(hid_t)>& fill, const std::string& kind = "golden",
            const std::string& version = "1", unsigned order = kOrdered) const {
    const hid_t creation = H5Pcreate(H5P_FILE_CREATE);
    if (order != 0) {
      H5Pset_link_creation_order(creation, order);
      H5Pset_attr_creation_order(creation, order);
    }
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, H5P_DEFAULT);
    const hid_t root = H5Gopen2(file, "/", H5P_DEFAULT);
    if (kind != "-") text(root, "mxcheck_file", kind);
    if (version != "-") text(root, "schema_version", version);
    fill(root);
    H5Gclose(root);
    H5Fclose(file);
    H5Pclose(creation);
  }
  void expect_refused(const std::string& message) const {
    for (const std::uint64_t most : {GoldenReader::kMostInMemory, std::uint64_t{0}})
      expect_error(ErrorKind::golden, message, [&] { GoldenReader(path, entry_of(path), most); });
  }
  void expect_refused(const Set& set, const std::string& message) const {
    make([&](hid_t file) { add(file, set); });
    expect_refused(message);
  }

  TemporaryDirectory dir;
  std::string path = dir / "x.h5";
};

TEST_F(GoldenRefusalsTest, are_not_about_what_is_right) {
  make([](hid_t file) { add(file); });
  const GoldenReader reader(path, entry_of(path));
  EXPECT_EQ(reader.info().datasets.at(0).shape, (std::vector<std::int64_t>{4, 8}));
  EXPECT_EQ(reader.read("x").data, std::vector<std::byte>(32));
  make([](hid_t) {}, "quantized");
  EXPECT_EQ(GoldenReader(path, entry_of(path)).file_kind(), "quantized");
}

TEST_F(GoldenRefusalsTest, concern_kind_and_version) {
  const auto nothing = [](hid_t) {};
  make(nothing, "-");
  expect_refused("x.h5: has no attribute 'mxcheck_file'; not a golden?");
  make(nothing, "report");
  expect_refused("mxcheck_file is 'report'; there are 'golden', 'quantized', 'record', 'routes'");
  make(nothing, "golden", "-");
  expect_refused("has no attribute 'schema_version'");
  make(nothing, "golden", "2");
  expect_refused("has schema version '2'; this build reads version 1");
  make(nothing, "golden", "");
  expect_refused("has schema version ''");
  make([](hid_t file) { add(file); }, "golden", "1", 0);
  expect_refused("no creation order index to query");
}

TEST_F(GoldenRefusalsTest, concern_elements_and_shapes) {
  const hid_t odd = H5Tcopy(H5T_STD_U16LE);
  H5Tset_precision(odd, 12);
  const hid_t compound = H5Tcreate(H5T_COMPOUND, 1);
  H5Tinsert(compound, "a", 0, H5T_STD_U8LE);
  const hid_t words = text_type(4);
  const hid_t kind = H5Tcreate(H5T_ENUM, 1);
  const char no = 0;
  H5Tenum_insert(kind, "no", &no);
  for (const hid_t type : {H5T_STD_I8LE, H5T_STD_U16BE, H5T_STD_I16LE, H5T_STD_I32BE, H5T_STD_U64LE, H5T_IEEE_F32LE,
                           odd, compound, words, kind, H5T_STD_REF_OBJ}) {
    expect_refused({.type = type, .data = false}, "x.h5:/x: has elements that are none of u8 u16 u32 i32 i64");
  }
  expect_refused({.type = H5Tvlen_create(H5T_STD_U8LE), .checksum = false, .data = false},
                 "none of u8 u16 u32 i32 i64, little-endian");
  expect_refused({.shape = {}, .chunk = {}, .checksum = false}, "has rank 0");
  expect_refused({.shape = {2, 2, 2}, .chunk = {2, 2, 2}}, "has rank 3");
  expect_refused({.most = {8, 8}}, "may grow; a golden's extents are final");
  expect_refused({.most = {H5S_UNLIMITED, 8}}, "may grow; a golden's extents are final");
  expect_refused({.shape = {hsize_t{1} << 40, hsize_t{1} << 40}, .data = false}, "size overflows 63 bits");
  expect_refused({.shape = {hsize_t{1} << 40}, .chunk = {1 << 20}, .data = false}, "more data than the file can hold");
  expect_refused({.shape = {16 << 20}, .chunk = {9 << 20}, .data = false}, "can hold");
  make([](hid_t file) {
    const hid_t type = H5Tcopy(H5T_STD_U8LE);
    H5Tcommit2(file, "t", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    add(file, {.type = type});
    H5Ldelete(file, "t", H5P_DEFAULT);
    H5Tclose(type);
  });
  expect_refused("is of a named type");
}

TEST_F(GoldenRefusalsTest, concern_storage) {
  expect_refused({.chunk = {}, .checksum = false}, "is not stored in chunks");
  expect_refused({.chunk = {}, .checksum = false, .properties = [](hid_t p) { H5Pset_layout(p, H5D_COMPACT); }},
                 "is not stored in chunks");
  expect_refused({.checksum = false}, "has no Fletcher-32 checksums");
  expect_refused({.data = false}, "not every chunk was written");
  expect_refused({.properties = [](hid_t p) { H5Pset_nbit(p); }}, "uses filter 5");
  expect_refused({.properties = [](hid_t p) { H5Pset_scaleoffset(p, H5Z_SO_INT, 8); }}, "uses filter 6");
  expect_refused({.shape = {9 << 20},
                  .chunk = {9 << 20},
                  .data = false,
                  .properties = [](hid_t p) { H5Pset_alloc_time(p, H5D_ALLOC_TIME_EARLY); }},
                 "has chunks of over 8 MiB");
  expect_refused({.chunk = {},
                  .checksum = false,
                  .data = false,
                  .properties = [&](hid_t p) { H5Pset_external(p, (dir / "raw").c_str(), 0, 32); }},
                 "external storage");
  expect_refused({.chunk = {},
                  .checksum = false,
                  .data = false,
                  .properties =
                      [](hid_t p) {
                        const hsize_t shape[] = {4, 8};
                        const hid_t space = H5Screate_simple(2, shape, nullptr);
                        H5Pset_virtual(p, space, "other.h5", "/x", space);
                      }},
                 "a virtual dataset");
}

TEST_F(GoldenRefusalsTest, concern_links_and_groups) {
  make([](hid_t file) { H5Gclose(H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)); });
  expect_refused("x.h5:/g: is a group or a type, not a dataset");
  make([](hid_t file) {
    const hid_t type = H5Tcopy(H5T_STD_U8LE);
    H5Tcommit2(file, "t", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Tclose(type);
  });
  expect_refused("x.h5:/t: is a group or a type");
  make([](hid_t file) { add(file), H5Lcreate_soft("/x", file, "soft", H5P_DEFAULT, H5P_DEFAULT); });
  expect_refused("x.h5:/soft: is a soft, external or user-defined link");
  make([](hid_t file) { H5Lcreate_external("other.h5", "/x", file, "external", H5P_DEFAULT, H5P_DEFAULT); });
  expect_refused("x.h5:/external: is a soft, external or user-defined link");
  make([](hid_t file) { add(file), H5Lcreate_hard(file, "x", file, "y", H5P_DEFAULT, H5P_DEFAULT); });
  expect_refused("x.h5:/x: has several names");
  make([](hid_t file) { H5Lcreate_hard(file, ".", file, "y", H5P_DEFAULT, H5P_DEFAULT); });
  expect_refused("x.h5:/y: is a group");
  for (const std::string name : {"a-b", "1", "a b", "\xC3\xA9"})
    expect_refused({.name = name}, "holds an object with a name that no golden has");
  expect_refused({.name = std::string(300, 'a')}, "holds an object with a name that no golden has");
  make([](hid_t file) {
    for (int i = 0; i < 257; ++i)
      H5Lcreate_soft("/x", file, ("s" + std::to_string(i)).c_str(), H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_refused("more than 256 datasets");
}

TEST_F(GoldenRefusalsTest, concern_attributes_of_datasets) {
  expect_refused({.role = "-"}, "x.h5:/x: has no attribute 'role'");
  expect_refused({.role = "Output"}, "has role 'Output'; there are 'input' and 'output'");
  expect_refused({.format = "-"}, "has no attribute 'format'");
  expect_refused({.format = "e4m3"}, "has an unknown format");
  expect_refused({.format = "bfloat16"}, "elements too narrow for format 'bfloat16'");
  expect_refused({.format = "int64"}, "has format 'int64', which its elements do not fit");
  expect_refused({.format = "int32"}, "has format 'int32', which its elements do not fit");
  expect_refused({.type = H5T_STD_I32LE, .format = "int64"}, "has format 'int64', which its elements do not fit");
  expect_refused({.type = H5T_STD_I32LE, .format = "float32"}, "has format 'float32', which its elements do not fit");
  expect_refused({.more = [](hid_t set) { text(set, "a b", "x"); }}, "attribute 'a b': a key has letters");
  expect_refused({.more = [](hid_t set) { text(set, std::string(300, 'k').c_str(), "x"); }}, "name of over 255 bytes");
  expect_refused({.more = [](hid_t set) { text(set, "a", std::string(65537, 'x')); }}, "attribute of over 65536 bytes");
  expect_refused({.more = [](hid_t set) { text(set, "a", std::string("x\0y", 3)); }}, "holds a zero byte");
  expect_refused({.more = [](hid_t set) { text(set, "a", std::string(2, '\0')); }}, "holds a zero byte");
  expect_refused({.more =
                      [](hid_t set) {
                        for (int i = 0; i < 255; ++i) text(set, ("k" + std::to_string(i)).c_str(), "");
                      }},
                 "more than 256 attributes");
}

TEST_F(GoldenRefusalsTest, concern_attributes_that_are_no_plain_text) {
  const hid_t scalar = H5Screate(H5S_SCALAR);
  const hsize_t two = 2;
  const hid_t pair = H5Screate_simple(1, &two, nullptr);
  const hid_t null = H5Screate(H5S_NULL);
  const hid_t variable = H5Tcopy(H5T_C_S1);
  H5Tset_size(variable, H5T_VARIABLE);
  const hid_t terminated = H5Tcopy(H5T_C_S1);
  H5Tset_size(terminated, 2);
  H5Tset_cset(terminated, H5T_CSET_UTF8);
  const hid_t ascii = text_type(2);
  H5Tset_cset(ascii, H5T_CSET_ASCII);
  const char* pointer = "x";
  const int number = 1;
  const auto with = [&](hid_t type, const void* value, hid_t space) {
    return Set{.more = [=](hid_t set) { attribute_of_type(set, "a", type, value, space); }};
  };
  expect_refused(with(H5T_NATIVE_INT, &number, scalar), "no single text of fixed length");
  expect_refused(with(variable, static_cast<const void*>(&pointer), scalar), "no single text of fixed length");
  expect_refused(with(text_type(1), "ab", pair), "no single text of fixed length");
  expect_refused(with(text_type(1), "a", null), "no single text of fixed length");
  expect_refused(with(terminated, "a", scalar), "no null-padded UTF-8 text");
  expect_refused(with(ascii, "ab", scalar), "no null-padded UTF-8 text");
}

// Goldens that are cut short or changed, at every place. Against the manifest each is Error{golden}. With a manifest
// that agrees, only the HDF5 library stands between the damage and us: that happens in a child process here.

// Two chunked datasets beside small ones, 60 KiB in all.
GoldenInfo sample_info() {
  GoldenInfo info = small_info();
  info.datasets.push_back({"more", Role::output, "float8_e4m3fn", Format::uint8, {300, 100}, {}});
  info.datasets.push_back({"wide", Role::output, "bfloat16", Format::uint16, {10, 1000}, {}});
  return info;
}

// The n-th place of a sequence that looks random and is the same on every machine.
std::size_t place(std::size_t n, std::size_t size) {
  std::uint64_t x = (n + 1) * 0x9E3779B97F4A7C15U;
  x ^= x >> 31;
  x *= 0xBF58476D1CE4E5B9U;
  return static_cast<std::size_t>((x ^ x >> 29) % size);
}

struct Damage {
  std::size_t length;  // the file is cut to this
  std::size_t at;      // and this byte is changed, if it is inside
  int flip;
};

std::vector<Damage> all_damage(std::size_t size) {
  std::vector<Damage> all;
  for (std::size_t n = 0; n < size; n += n < 4096 ? 1 : 512) all.push_back({n, size, 0});
  for (std::size_t at = 0; at < 4096; ++at) all.push_back({size, at, at % 2 == 0 ? 0xFF : 1});
  for (std::size_t n = 0; n < 1000; ++n) all.push_back({size, place(n, size), 1 << n % 8});
  return all;
}

// A file that is damaged in place: thousands of new ones would take the file system a minute.
class Patient {
 public:
  explicit Patient(const std::string& path) : whole_(read_file(path)), fd_(::open(path.c_str(), O_RDWR)) {}
  ~Patient() { ::close(fd_); }
  Patient(const Patient&) = delete;
  Patient& operator=(const Patient&) = delete;
  [[nodiscard]] std::size_t size() const { return whole_.size(); }

  void heal() const { write(0, whole_); }
  // Heals the last damage, too.
  void damage(const Damage& next) {
    write(last_, whole_.substr(last_, cut_ ? std::string::npos : 1));
    if (next.length < whole_.size()) {
      EXPECT_EQ(::ftruncate(fd_, static_cast<off_t>(next.length)), 0);
      last_ = next.length;
      cut_ = true;
    } else {
      write(next.at, std::string(1, static_cast<char>(whole_[next.at] ^ next.flip)));
      last_ = next.at;
      cut_ = false;
    }
  }

 private:
  void write(std::size_t at, const std::string& bytes) const {
    EXPECT_EQ(::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at)), static_cast<ssize_t>(bytes.size()));
  }

  std::string whole_;
  int fd_;
  std::size_t last_ = 0;
  bool cut_ = false;
};

class GoldenDamageTest : public testing::Test {
 protected:
  GoldenDamageTest() : entry(write_golden(path, sample_info())), patient(path) {}
  TemporaryDirectory dir;
  std::string path = dir / "x.h5";
  ManifestEntry entry;
  Patient patient;
};

TEST_F(GoldenDamageTest, is_noticed_wherever_it_is) {
  ASSERT_GT(patient.size(), 50000U);
  for (const Damage& damage : all_damage(patient.size())) {
    patient.damage(damage);
    expect_error(ErrorKind::golden, "in the manifest", [&] { GoldenReader(path, entry); });
  }
  patient.heal();
  EXPECT_EQ(GoldenReader(path, entry).info().datasets.size(), sample_info().datasets.size());
  write_file(path, read_file(path) + " ");
  expect_error(ErrorKind::golden, "in the manifest", [&] { GoldenReader(path, entry); });
}

// Reads everything as if the manifest agreed. True when that gave a result rather than an Error.
bool read_all(const std::string& path) {
  try {
    const GoldenReader reader(path, entry_of(path));
    for (const DatasetInfo& set : reader.info().datasets) static_cast<void>(reader.read(set.name));
    return true;
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::golden) throw;
    return false;
  }
}

struct Progress {
  std::size_t next;
  std::size_t read;
  std::size_t refused;
};

// Goes on from progress.next until the end or until the library brings the process down.
[[noreturn]] void go_on(const std::string& path, Patient& patient, Progress& progress) {
  const rlimit seconds{60, 60};
  ::setrlimit(RLIMIT_CPU, &seconds);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
#if !defined(__SANITIZE_ADDRESS__)
  const rlimit memory{rlim_t{2} << 30, rlim_t{2} << 30};
  ::setrlimit(RLIMIT_AS, &memory);
#endif
  try {
    const std::vector<Damage> all = all_damage(patient.size());
    patient.heal();
    while (progress.next < all.size()) {
      patient.damage(all[progress.next++]);
      ++(read_all(path) ? progress.read : progress.refused);
    }
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

TEST_F(GoldenDamageTest, that_the_manifest_knows_is_an_error_or_a_result_and_never_reaches_this_process) {
  void* shared = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& progress = *new (shared) Progress{};
  const std::size_t cases = all_damage(patient.size()).size();
  std::string crashes;
  while (progress.next < cases) {
    const pid_t id = ::fork();
    if (id == 0) go_on(path, patient, progress);
    int status = 0;
    ASSERT_EQ(::waitpid(id, &status, 0), id);
    ASSERT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << "an error of another kind at " << progress.next;
    if (WIFSIGNALED(status))
      crashes += " " + std::to_string(progress.next - 1) + " (signal " + std::to_string(WTERMSIG(status)) + ")";
  }
  EXPECT_GT(progress.refused, 4500U);
  EXPECT_GT(progress.read, 100U) << "no damage in the slack of the file?";
  EXPECT_EQ(crashes, "") << "the HDF5 library does not survive these; docs/goldens.md says that only hashes protect";
  RecordProperty("read", static_cast<int>(progress.read));
  RecordProperty("refused", static_cast<int>(progress.refused));
  ::munmap(shared, sizeof(Progress));
}

}  // namespace
}  // namespace mxcheck
