#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>

#include <gtest/gtest.h>

#include "goldens/format/described_file.h"
#include "goldens/format/reader.h"
#include "goldens/format/writer.h"
#include "numerics/bytes.h"
#include "tests/goldens/format/golden_samples.h"

namespace mxcheck {
namespace {

using test::entry_of;
using test::expect_error;
using test::pattern;
using test::small_info;
using test::write_golden;

class GoldenWriterTest : public test::GoldenFileTest {};

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
        for (std::size_t d = 0; d < 3; ++d) data.push_back(pattern(test::bytes_of(info.datasets[d]), d));
        const auto step = [&](std::size_t d) {
          const std::size_t part = std::min(rows[d] * test::row_bytes_of(info.datasets[d]), data[d].size() - at[d]);
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
    for (std::size_t d = 0; d < 3; ++d) {
      EXPECT_EQ(reader.read(info.datasets[d].name).data, pattern(test::bytes_of(info.datasets[d]), d));
    }
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
  test::write_file(path, "old");
  {
    GoldenWriter writer(path, small_info());
    writer.append(0, pattern(128));
    EXPECT_EQ(test::read_file(path), "old");
  }
  EXPECT_EQ(test::read_file(path), "old");
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
      {"dataset 'x' is there twice", [](GoldenInfo& i) { i.datasets[1].name = "x"; }},
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
      {"has a format that is none", [](GoldenInfo& i) { i.datasets[0].format = "bf16"; }},
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
      {"'a' is there twice",
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
  for (const std::string name : {"d", "pipe", "missing/x.h5", "pipe/x.h5"}) {
    expect_error(ErrorKind::usage, "choose a", [&] { GoldenWriter(dir / name, small_info()); });
  }
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
  const test::TemporaryDirectory dir;
  const SafetensorsFile file{{{"codes", Format::uint8, {2, 3}, to_bytes(std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6})},
                              {"scales", Format::fp32, {2}, to_bytes(std::vector<float>{1, 2})}},
                             {{"mxcheck_file", "quantized"}, {"rule", "fp32"}, {"offsets", ""}}};
  const auto format_of = [](const NamedHead& t) { return t.name == "codes" ? "float8_e4m3fn" : "float32"; };
  write_described(dir / "f.safetensors", file, format_of);
  EXPECT_EQ(read_safetensors(dir / "f.safetensors").metadata, file.metadata);
  for (const char* name : {"f.h5", "f.hdf5"}) {
    write_described(dir / name, file, format_of);
    const GoldenReader reader(dir / name, test::entry_of(dir / name));
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

}  // namespace
}  // namespace mxcheck
