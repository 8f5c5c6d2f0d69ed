#pragma once
// Goldens for the tests, and their manifest entries.

#include "goldens/format/golden.h"
#include "goldens/format/writer.h"
#include "goldens/io/sha256.h"
#include "tests/testing.h"

namespace mxcheck::test {

class GoldenFileTest : public testing::Test {
 protected:
  TemporaryDirectory dir;
  std::string path = dir / "x.h5";
};

inline std::vector<std::byte> pattern(std::size_t bytes, std::size_t seed = 0) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>((i + seed) * 2654435761U >> 13);
  return data;
}

inline std::size_t bytes_of(const DatasetInfo& set) {
  std::size_t bytes = size_of(set.dtype);
  for (const std::int64_t extent : set.shape) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

inline std::size_t row_bytes_of(const DatasetInfo& set) {
  return size_of(set.dtype) * (set.shape.size() == 2 ? static_cast<std::size_t>(set.shape[1]) : 1);
}

// One dataset of every dtype, ranks 1 and 2, without rows and without columns.
inline GoldenInfo small_info() {
  return {{{"suite", "quick"}, {"empty", ""}, {"text", "two words, \xC3\xA9"}},
          {{"x", Role::input, "bfloat16", Format::uint16, {6, 64}, {{"unit", "none"}}},
           {"offsets", Role::input, "int64", Format::int64, {5}, {}},
           {"codes", Role::output, "float8_e4m3fn", Format::uint8, {6, 64}, {}},
           {"scales", Role::output, "float8_e8m0fnu", Format::uint8, {6, 2}, {{"layout", "compact"}, {"note", ""}}},
           {"sums", Role::output, "float32", Format::uint32, {7}, {}},
           {"experts", Role::output, "int32", Format::int32, {3, 2}, {}},
           {"no_rows", Role::output, "float32", Format::uint32, {0, 5}, {}},
           {"no_columns", Role::output, "bfloat16", Format::uint16, {4, 0}, {}}}};
}

// The file, its data pattern(bytes, index of the dataset).
inline ManifestEntry write_golden(const std::string& path, const GoldenInfo& info, GoldenWriter::Options options = {}) {
  GoldenWriter writer(path, info, options);
  for (std::size_t d = 0; d < info.datasets.size(); ++d) writer.append(d, pattern(bytes_of(info.datasets[d]), d));
  return writer.commit();
}

// The manifest's entry of the file at this path: its hash, size and name.
inline ManifestEntry entry_of(const std::string& path) {
  const std::string bytes = read_file(path);
  return {sha256(std::as_bytes(std::span(bytes))), bytes.size(), std::filesystem::path(path).filename().string()};
}

// With each change of one byte a file is refused, or has so many bytes of data; refused are more than `least` changes
// of a byte on average.
template <class Read>
void expect_bytes_or_refused(const std::string& whole, std::size_t bytes, std::size_t least, const Read& read) {
  std::size_t refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int change = 1; change < 256; ++change) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      try {
        ASSERT_EQ(read(damaged), bytes);
      } catch (const Error& e) {
        ASSERT_EQ(e.kind(), ErrorKind::input);
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, whole.size() * least);
}

}  // namespace mxcheck::test
