#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "goldens/format/described_file.h"
#include "goldens/format/reader.h"
#include "goldens/format/unverified.h"
#include "goldens/format/writer.h"
#include "numerics/bytes.h"
#include "tests/goldens/format/golden_samples.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

class GoldenWriterTest : public GoldenFileTest {};

TEST_F(GoldenWriterTest, says_of_the_file_what_a_manifest_needs) {
  const ManifestEntry entry = write_golden(path, small_info());
  EXPECT_EQ(entry, entry_of(path));
  EXPECT_EQ(entry.name, "x.h5");
  EXPECT_EQ(dir.names(), std::vector<std::string>{"x.h5"});
}

TEST_F(GoldenWriterTest, writes_the_same_bytes_whatever_memory_held_before) {
  const GoldenInfo info{{}, {{"a", Role::input, "float8_e4m3fn", Format::uint8, {2000, 1000}, {}}}};
  for (const int compression : {0, 6}) {
    ::mallopt(M_PERTURB, 0x55);
    const ManifestEntry first = write_golden(path, info, {compression});
    const ManifestEntry small = write_golden(path, small_info(), {compression});
    ::mallopt(M_PERTURB, 0xA3);
    EXPECT_EQ(write_golden(path, info, {compression}), first);
    EXPECT_EQ(write_golden(path, small_info(), {compression}), small);
    ::mallopt(M_PERTURB, 0);
  }
}

// Three datasets of several chunks, one with rows longer than a chunk.
GoldenInfo large_info() {
  return {{},
          {{"a", Role::input, "bfloat16", Format::uint16, {1500, 1000}, {}},
           {"b", Role::output, "float8_e4m3fn", Format::uint8, {3, 1500000}, {}},
           {"c", Role::output, "float8_e8m0fnu", Format::uint8, {2500000}, {}}}};
}

TEST_F(GoldenWriterTest, writes_the_same_bytes_however_they_are_given) {
  const GoldenInfo info = large_info();
  for (const int compression : {0, 1}) {
    const GoldenWriter::Options options{compression};
    const ManifestEntry whole = write_golden(path, info, options);
    for (const std::vector<std::size_t>& rows : std::vector<std::vector<std::size_t>>{{1, 1, 1000}, {7, 2, 999999}}) {
      for (const bool interleaved : {false, true}) {
        GoldenWriter writer(path, info, options);
        std::vector<std::size_t> at(3);
        std::vector<std::vector<std::byte>> data;
        for (std::size_t d = 0; d < 3; ++d) data.push_back(pattern(bytes_of(info.datasets[d]), d));
        const auto step = [&](std::size_t d) {
          const std::size_t part = std::min(rows[d] * row_bytes_of(info.datasets[d]), data[d].size() - at[d]);
          writer.append(d, std::span(data[d]).subspan(at[d], part));
          at[d] += part;
          return part > 0;
        };
        if (interleaved) {
          for (bool more = true; more;) {
            more = false;
            for (const std::size_t d : std::vector<std::size_t>{2, 0, 1}) more |= step(d);
          }
        } else {
          for (const std::size_t d : std::vector<std::size_t>{2, 1, 0}) {
            while (step(d)) {
            }
          }
        }
        EXPECT_EQ(writer.commit(), whole) << rows[0] << (interleaved ? " interleaved" : "");
      }
    }
    const GoldenReader reader(path, whole);
    for (std::size_t d = 0; d < 3; ++d)
      EXPECT_EQ(reader.read(info.datasets[d].name).data, pattern(bytes_of(info.datasets[d]), d));
  }
}

TEST_F(GoldenWriterTest, cuts_chunks_so_that_the_edges_waste_little) {
  // 1025 rows of 1 KiB: two chunks of 513 rows rather than one of 1024 and an almost empty one.
  const GoldenInfo info{{}, {{"a", Role::input, "float8_e4m3fn", Format::uint8, {1025, 1024}, {}}}};
  EXPECT_LT(write_golden(path, info).size, 1025U * 1024 + 8192);
}

TEST_F(GoldenWriterTest, compresses_when_asked_to) {
  const GoldenInfo info{{}, {{"a", Role::input, "float8_e4m3fn", Format::uint8, {4 << 20}, {}}}};
  GoldenWriter writer(path, info, {9});
  writer.append(0, std::vector<std::byte>(4 << 20));
  EXPECT_LT(writer.commit().size, 40000U);
}

TEST_F(GoldenWriterTest, leaves_nothing_without_commit_and_keeps_what_was_there) {
  write_file(path, "old");
  {
    GoldenWriter writer(path, small_info());
    writer.append(0, pattern(128));
    EXPECT_EQ(read_file(path), "old");
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(dir.names(), std::vector<std::string>{"x.h5"});
  const ManifestEntry entry = write_golden(path, small_info());
  EXPECT_EQ(entry_of(path), entry);
}

TEST_F(GoldenWriterTest, refuses_more_fewer_and_broken_rows) {
  const GoldenInfo info{{},
                        {{"a", Role::input, "bfloat16", Format::uint16, {3, 4}, {}},
                         {"b", Role::output, "float32", Format::uint32, {2}, {}}}};
  GoldenWriter writer(path, info);
  expect_error(ErrorKind::usage, "x.h5:/a: more rows than declared", [&] { writer.append(0, pattern(32)); });
  expect_error(ErrorKind::usage, "x.h5:/a: a part of a row", [&] { writer.append(0, pattern(4)); });
  expect_error(ErrorKind::usage, "no dataset 2", [&] { writer.append(2, pattern(4)); });
  expect_error(ErrorKind::usage, "x.h5:/a: 0 rows of 3 came", [&] { writer.commit(); });
  writer.append(0, pattern(16));
  expect_error(ErrorKind::usage, "x.h5:/a: 2 rows of 3 came", [&] { writer.commit(); });
  writer.append(0, pattern(8));
  expect_error(ErrorKind::usage, "x.h5:/b: 0 rows of 2 came", [&] { writer.commit(); });
  writer.append(1, pattern(8));
  expect_error(ErrorKind::usage, "more rows than declared", [&] { writer.append(1, pattern(4)); });
  writer.commit();
  expect_error(ErrorKind::usage, "committed before", [&] { writer.commit(); });
  EXPECT_EQ(GoldenReader(path, entry_of(path)).info().datasets.size(), 2U);
}

struct Refusal {
  std::string message;
  void (*spoil)(GoldenInfo&);
};

TEST_F(GoldenWriterTest, refuses_what_its_reader_would_not_take) {
  const std::vector<Refusal> refusals{
      {"'1x': a name has letters, digits and '_'", [](GoldenInfo& i) { i.datasets[0].name = "1x"; }},
      {"a name has letters", [](GoldenInfo& i) { i.datasets[0].name = ""; }},
      {"a name has letters", [](GoldenInfo& i) { i.datasets[0].name = "a/b"; }},
      {"a name has letters", [](GoldenInfo& i) { i.datasets[0].name = std::string(256, 'a'); }},
      {"dataset 'x' is a duplicate", [](GoldenInfo& i) { i.datasets[1].name = "x"; }},
      {"'x': has rank 0", [](GoldenInfo& i) { i.datasets[0].shape = {}; }},
      {"'x': has rank 3",
       [](GoldenInfo& i) {
         i.datasets[0].shape = {1, 2, 3};
       }},
      {"'x': has a negative extent", [](GoldenInfo& i) { i.datasets[0].shape = {-1}; }},
      {"overflows 63 bits",
       [](GoldenInfo& i) {
         i.datasets[0].shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
       }},
      {"none of u8 u16 u32 i32 i64", [](GoldenInfo& i) { i.datasets[0].dtype = Format::bf16; }},
      {"elements too narrow for format 'bfloat16'", [](GoldenInfo& i) { i.datasets[0].dtype = Format::uint8; }},
      {"has an unknown format", [](GoldenInfo& i) { i.datasets[0].format = "bf16"; }},
      {"format 'int64', which its elements", [](GoldenInfo& i) { i.datasets[0].format = "int64"; }},
      {"format 'int32', which its elements", [](GoldenInfo& i) { i.datasets[0].format = "int32"; }},
      {"format 'int64', which its elements", [](GoldenInfo& i) { i.datasets[1].dtype = Format::int32; }},
      {"which its elements do not fit", [](GoldenInfo& i) { i.datasets[1].format = "float32"; }},
      {"'role' is the writer's own",
       [](GoldenInfo& i) {
         i.datasets[0].attributes = {{"role", "input"}};
       }},
      {"'format' is the writer's own",
       [](GoldenInfo& i) {
         i.datasets[0].attributes = {{"format", "x"}};
       }},
      {"'schema_version' is the writer's own",
       [](GoldenInfo& i) {
         i.attributes = {{"schema_version", "1"}};
       }},
      {"'a' is a duplicate",
       [](GoldenInfo& i) {
         i.attributes = {{"a", "1"}, {"a", "2"}};
       }},
      {"a key has letters",
       [](GoldenInfo& i) {
         i.attributes = {{"", "1"}};
       }},
      {"a key has letters",
       [](GoldenInfo& i) {
         i.attributes = {{"a b", "1"}};
       }},
      {"holds a zero byte",
       [](GoldenInfo& i) {
         i.attributes = {{"a", std::string(2, '\0')}};
       }},
      {"'a' has over 64 KiB",
       [](GoldenInfo& i) {
         i.attributes = {{"a", std::string(65537, 'x')}};
       }},
      {"more than 256 attributes",
       [](GoldenInfo& i) {
         i.attributes.resize(255, {"a", ""});
       }},
      {"more than 256 datasets", [](GoldenInfo& i) { i.datasets.resize(257); }},
  };
  for (const Refusal& refusal : refusals) {
    GoldenInfo info = small_info();
    refusal.spoil(info);
    expect_error(ErrorKind::usage, refusal.message, [&] { GoldenWriter(path, info); });
  }
  expect_error(ErrorKind::usage, "compression goes from 0 to 9", [&] { GoldenWriter(path, small_info(), {10}); });
  expect_error(ErrorKind::usage, "mxcheck_file is 'x'", [&] { GoldenWriter(path, small_info(), {0, "x"}); });
  EXPECT_TRUE(dir.names().empty());
}

TEST_F(GoldenWriterTest, refuses_paths_that_cannot_be_written) {
  std::filesystem::create_directory(dir / "d");
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  for (const std::string name : {"d", "pipe", "missing/x.h5", "pipe/x.h5"})
    expect_error(ErrorKind::usage, "choose a", [&] { GoldenWriter(dir / name, small_info()); });
  EXPECT_EQ(dir.names().size(), 2U);
}

// Limits the size of files to that many bytes while it lives.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit small{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    ::signal(SIGXFSZ, handler_);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  rlimit old_{};
  sighandler_t handler_;
};

TEST_F(GoldenWriterTest, reports_a_full_disk_wherever_it_strikes_and_leaves_nothing) {
  const ManifestEntry small = write_golden(dir / "y.h5", small_info());
  const ManifestEntry large = write_golden(dir / "z.h5", large_info());
  std::filesystem::remove(dir / "y.h5");
  std::filesystem::remove(dir / "z.h5");
  for (const auto& [info, whole] : {std::pair(small_info(), small), std::pair(large_info(), large)}) {
    for (std::uint64_t bytes = 0; bytes < whole.size; bytes += whole.size / 13) {
      expect_error(ErrorKind::environment, "File too large", [&, &i = info] {
        const SmallFiles limit(bytes);
        write_golden(path, i);
      });
      EXPECT_TRUE(dir.names().empty()) << bytes;
    }
  }
  EXPECT_EQ(write_golden(dir / "z.h5", large_info()), large) << "the library does not recover";
}

TEST_F(GoldenWriterTest, leaves_no_open_files_behind) {
  const auto open_files = [] {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
    return n;
  };
  write_golden(path, small_info());
  const std::size_t before = open_files();
  write_golden(path, small_info());
  { GoldenWriter writer(path, small_info()); }
  EXPECT_EQ(open_files(), before);
}

TEST(DescribedFile, says_the_same_as_safetensors_and_as_hdf5) {
  const TemporaryDirectory dir;
  const SafetensorsFile file{{{"codes", Format::uint8, {2, 3}, to_bytes(std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6})},
                              {"scales", Format::fp32, {2}, to_bytes(std::vector<float>{1, 2})}},
                             {{"mxcheck_file", "quantized"}, {"rule", "fp32"}, {"offsets", ""}}};
  const auto format_of = [](const NamedHead& t) { return t.name == "codes" ? "float8_e4m3fn" : "float32"; };
  write_described(dir / "f.safetensors", file, format_of);
  EXPECT_EQ(read_safetensors(dir / "f.safetensors").metadata, file.metadata);
  for (const char* name : {"f.h5", "f.hdf5"}) {
    write_described(dir / name, file, format_of);
    const GoldenReader reader(dir / name, entry_of(dir / name));
    EXPECT_EQ(reader.file_kind(), "quantized");
    EXPECT_EQ(reader.info().attributes, (Attributes{{"offsets", ""}, {"rule", "fp32"}}));
    EXPECT_EQ(reader.info().find("codes")->format, "float8_e4m3fn");
    EXPECT_EQ(reader.info().find("scales")->dtype, Format::uint32);
    EXPECT_EQ(reader.read("codes").data, file.tensors[0].data);
    EXPECT_EQ(reader.read("scales").data, file.tensors[1].data);
    EXPECT_EQ(read_tensor(dir / name + ":/scales").format, Format::fp32);
  }
}

TEST(DescribedFile, is_named_by_its_extension) {
  for (const char* name : {"a.h5", "a.hdf5", "a.safetensors"}) EXPECT_TRUE(is_described_path(name)) << name;
  for (const char* name : {"a.npy", "a", "a.h5x", ".h5"}) EXPECT_FALSE(is_described_path(name)) << name;
  EXPECT_FALSE(is_hdf5_path("a.safetensors"));
}

class GoldenReaderTest : public GoldenFileTest {};

void expect_same(const GoldenInfo& got, const GoldenInfo& wanted) {
  EXPECT_EQ(got.attributes, wanted.attributes);
  ASSERT_EQ(got.datasets.size(), wanted.datasets.size());
  for (std::size_t d = 0; d < got.datasets.size(); ++d) {
    EXPECT_EQ(got.datasets[d].name, wanted.datasets[d].name);
    EXPECT_EQ(got.datasets[d].role, wanted.datasets[d].role);
    EXPECT_EQ(got.datasets[d].format, wanted.datasets[d].format);
    EXPECT_EQ(got.datasets[d].dtype, wanted.datasets[d].dtype);
    EXPECT_EQ(got.datasets[d].shape, wanted.datasets[d].shape);
    EXPECT_EQ(got.datasets[d].attributes, wanted.datasets[d].attributes);
  }
}

TEST_F(GoldenReaderTest, gives_back_what_was_written_from_memory_and_from_the_file) {
  const GoldenInfo info = small_info();
  for (const int compression : {0, 9}) {
    const ManifestEntry entry = write_golden(path, info, {compression, "quantized"});
    for (const std::uint64_t most : {GoldenReader::kMostInMemory, std::uint64_t{0}}) {
      const GoldenReader reader(path, entry, most);
      EXPECT_EQ(reader.file_kind(), "quantized");
      expect_same(reader.info(), info);
      for (std::size_t d = 0; d < info.datasets.size(); ++d) {
        const Tensor tensor = reader.read(info.datasets[d].name);
        EXPECT_EQ(tensor.name, info.datasets[d].name);
        EXPECT_EQ(tensor.format, info.datasets[d].dtype);
        EXPECT_EQ(tensor.shape, info.datasets[d].shape);
        EXPECT_EQ(tensor.data, pattern(bytes_of(info.datasets[d]), d));
      }
    }
  }
}

TEST_F(GoldenReaderTest, holds_many_datasets_and_attributes_in_their_order) {
  GoldenInfo info;
  for (int i = 0; i < 254; ++i) {
    const std::string number = std::to_string(i);
    info.attributes.emplace_back("key" + std::to_string(i * 7 % 254), std::string(static_cast<std::size_t>(i), 'v'));
    info.datasets.push_back({"set" + std::to_string(i * 5 % 254), Role::input, "float32", Format::uint32, {i}, {}});
  }
  info.attributes[3].second = std::string(65536, 'x');
  info.datasets[9].attributes = info.attributes;
  const ManifestEntry entry = write_golden(path, info);
  expect_same(GoldenReader(path, entry).info(), info);
  EXPECT_EQ(write_golden(path, info), entry);
  GoldenInfo none;
  expect_same(GoldenReader(path, write_golden(path, none)).info(), none);
}

TEST_F(GoldenReaderTest, takes_the_entry_from_the_manifest_beside) {
  expect_error(ErrorKind::golden, "no manifest", [&] { GoldenReader(path, entry_beside(path)); });
  const ManifestEntry entry = write_golden(path, small_info());
  write_file(dir / kManifestName, to_text({"test", {entry}}));
  expect_same(GoldenReader(path).info(), small_info());
  std::filesystem::rename(path, dir / "y.h5");
  expect_error(ErrorKind::golden, "has no entry for it", [&] { GoldenReader(dir / "y.h5"); });
  expect_error(ErrorKind::golden, "cannot be opened", [&] { GoldenReader{path}; });
}

TEST_F(GoldenReaderTest, reads_rows_in_pieces_of_any_size) {
  const GoldenInfo info{{},
                        {{"a", Role::input, "bfloat16", Format::uint16, {1500, 1000}, {}},
                         {"b", Role::output, "float8_e4m3fn", Format::uint8, {3, 1500000}, {}}}};
  const ManifestEntry entry = write_golden(path, info, {1});
  const GoldenReader reader(path, entry);
  for (std::size_t d = 0; d < 2; ++d) {
    const std::vector<std::byte> expected = pattern(bytes_of(info.datasets[d]), d);
    for (const std::size_t step : {2000UL, 999'998UL, 1UL << 20, expected.size()}) {
      const std::unique_ptr<RowReader> rows = reader.rows(info.datasets[d].name);
      EXPECT_EQ(rows->head().shape, info.datasets[d].shape);
      std::vector<std::byte> got(expected.size());
      for (std::size_t at = 0; at < got.size(); at += step)
        rows->read(std::span(got).subspan(at, std::min(step, got.size() - at)));
      EXPECT_EQ(got, expected) << step;
      expect_error(ErrorKind::usage, "2 bytes are asked for, 0 are left", [&] { rows->read(std::span(got).first(2)); });
    }
  }
  expect_error(ErrorKind::golden, "has no dataset 'c'", [&] { static_cast<void>(reader.read("c")); });
  std::vector<std::byte> part(3);
  expect_error(ErrorKind::usage, "a part of an element", [&] { reader.rows("a")->read(part); });
}

TEST_F(GoldenReaderTest, its_rows_may_outlive_it_and_its_file) {
  const ManifestEntry entry = write_golden(path, small_info());
  for (const std::uint64_t most : {GoldenReader::kMostInMemory, std::uint64_t{0}}) {
    const std::unique_ptr<RowReader> rows = GoldenReader(path, entry, most).rows("codes");
    if (most == 0) std::filesystem::remove(path);
    std::vector<std::byte> codes(6 * 64);
    rows->read(codes);
    EXPECT_EQ(codes, pattern(6 * 64, 2));
  }
}

TEST_F(GoldenReaderTest, two_goldens_are_open_at_once) {
  const GoldenInfo other{{}, {{"x", Role::input, "float32", Format::uint32, {100}, {}}}};
  const ManifestEntry a = write_golden(path, small_info());
  const ManifestEntry b = write_golden(dir / "y.h5", other);
  const GoldenReader first(path, a);
  const GoldenReader second(dir / "y.h5", b);
  const GoldenReader again(path, a);
  EXPECT_EQ(second.read("x").shape, std::vector<std::int64_t>{100});
  EXPECT_EQ(first.read("x").data, pattern(6 * 64 * 2));
  EXPECT_EQ(again.read("x").data, pattern(6 * 64 * 2));
}

TEST_F(GoldenReaderTest, refuses_other_sizes_and_hashes_before_it_looks_inside) {
  const ManifestEntry entry = write_golden(path, small_info());
  ManifestEntry other = entry;
  other.size += 1;
  expect_error(ErrorKind::golden, "has " + std::to_string(entry.size) + " bytes, but",
               [&] { GoldenReader(path, other); });
  other = entry;
  other.sha256[5] = other.sha256[5] == '0' ? '1' : '0';
  for (const std::uint64_t most : {GoldenReader::kMostInMemory, std::uint64_t{0}})
    expect_error(ErrorKind::golden, "has SHA-256 " + entry.sha256 + ", but " + other.sha256,
                 [&] { GoldenReader(path, other, most); });
  write_file(path, "");
  expect_error(ErrorKind::golden, "not an HDF5 file", [&] { GoldenReader(path, entry_of(path)); });
  write_file(path, std::string(5000, 'x'));
  for (const std::uint64_t most : {GoldenReader::kMostInMemory, std::uint64_t{0}})
    expect_error(ErrorKind::golden, "not an HDF5 file (HDF5: ", [&] { GoldenReader(path, entry_of(path), most); });
  std::filesystem::create_directory(dir / "d.h5");
  expect_error(ErrorKind::golden, "not a regular file but a directory", [&] { GoldenReader(dir / "d.h5", entry); });
}

GoldenInfo unverified_info() {
  return {{{"kind", "x"}, {"empty", ""}},
          {{"words", Role::input, "uint32", Format::uint32, {300, 1000}, {{"unit", "none"}}},
           {"none", Role::output, "int64", Format::int64, {0, 3}, {}},
           {"codes", Role::output, "float8_e4m3fn", Format::uint8, {3}, {}}}};
}

class Unverified : public testing::Test {
 protected:
  Unverified() {
    for (std::uint32_t i = 0; i < 300000; ++i) words.push_back(i * 2654435761U);
    GoldenWriter writer(path, unverified_info(), {.compression = 6, .file_kind = "parity"});
    writer.append(0, to_bytes(words));
    writer.append(2, to_bytes(std::vector<std::uint8_t>{1, 2, 3}));
    writer.commit();
  }
  TemporaryDirectory dir;
  std::string path = dir / "x.h5";
  std::vector<std::uint32_t> words;  // more than one message of the child
};

TEST_F(Unverified, is_read_whole) {
  const UnverifiedGolden file = read_unverified(path);
  EXPECT_EQ(file.kind, "parity");
  EXPECT_EQ(file.info.attributes, unverified_info().attributes);
  ASSERT_EQ(file.info.datasets.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const DatasetInfo wanted = unverified_info().datasets[i];
    EXPECT_EQ(file.info.datasets[i].name, wanted.name);
    EXPECT_EQ(file.info.datasets[i].role, wanted.role);
    EXPECT_EQ(file.info.datasets[i].format, wanted.format);
    EXPECT_EQ(file.info.datasets[i].dtype, wanted.dtype);
    EXPECT_EQ(file.info.datasets[i].shape, wanted.shape);
    EXPECT_EQ(file.info.datasets[i].attributes, wanted.attributes);
  }
  EXPECT_EQ(values_in<std::uint32_t>(file.data[0]), words);
  EXPECT_TRUE(file.data[1].empty());
  EXPECT_EQ(values_in<std::uint8_t>(file.data[2]), (std::vector<std::uint8_t>{1, 2, 3}));
}

TEST_F(Unverified, is_an_error_or_a_result_wherever_it_is_damaged) {
  const std::string whole = read_file(path);
  int refused = 0;
  constexpr std::size_t kPlaces = 60;
  for (std::size_t i = 0; i < kPlaces; ++i) {
    std::string changed = whole;
    const std::size_t at = i < kPlaces / 2 ? 8 * i : i * whole.size() / kPlaces;  // the header, then everywhere
    changed[at] ^= 0x55;
    write_file(path, i % 3 == 2 ? whole.substr(0, at) : changed);
    try {
      read_unverified(path);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::input) << e.what();
      EXPECT_TRUE(std::string(e.what()).starts_with(path)) << e.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 40);
}

TEST_F(Unverified, that_no_writer_here_wrote_is_refused) {
  expect_error(ErrorKind::input, "none.h5", [&] { read_unverified(dir / "none.h5"); });
  expect_error(ErrorKind::input, "a directory", [&] { read_unverified(dir.path()); });
  write_file(path, "");
  expect_error(ErrorKind::input, "x.h5: not an HDF5 file, damaged or truncated", [&] { read_unverified(path); });
}

}  // namespace
}  // namespace mxcheck
