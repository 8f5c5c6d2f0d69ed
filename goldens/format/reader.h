#pragma once
// Reads a golden that is what its manifest says it is.
//
//   const GoldenReader golden("goldens/x.h5");          vouched for by goldens/manifest.txt
//   const Tensor codes = golden.read("codes");
//   dataset_equals(golden, "codes", "mine.h5:/codes")   goldens/format/reader.h
//
// Size and hash first; a file of up to 256 MiB is read into memory once, and that buffer is hashed and opened. A larger
// one is hashed and opened through one descriptor: a concurrent writer can defeat the check. Then the schema: version,
// names, types, extents against allow-lists; anything that GoldenWriter would not write is rejected.
//
// Errors: Error{golden}, with HDF5's own stack, for whatever is missing, truncated, changed, of another version or not
// a golden; Error{environment} without memory.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "goldens/format/golden.h"
#include "goldens/format/manifest.h"
#include "goldens/io/row_reader.h"

namespace mxcheck {

class GoldenReader {
 public:
  static constexpr std::uint64_t kMostInMemory = std::uint64_t{256} << 20;

  // Bytes are added to `hashed` as the file is hashed: expected.size in the end.
  GoldenReader(const std::string& path, const ManifestEntry& expected, std::uint64_t most_in_memory = kMostInMemory,
               std::atomic<std::uint64_t>* hashed = nullptr);
  explicit GoldenReader(const std::string& path) : GoldenReader(path, entry_beside(path)) {}
  ~GoldenReader();
  GoldenReader(const GoldenReader&) = delete;
  GoldenReader& operator=(const GoldenReader&) = delete;

  [[nodiscard]] const GoldenInfo& info() const;
  [[nodiscard]] const std::string& file_kind() const;  // "golden", "quantized", ...
  // One dataset, read sequentially; may outlive this. Error{golden} when there is no such dataset.
  [[nodiscard]] std::unique_ptr<RowReader> rows(const std::string& dataset) const;
  [[nodiscard]] Tensor read(const std::string& dataset) const;  // whole

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// Compares a candidate's tensor with a golden's, byte for byte, without holding either in memory.

// The tensor at `location` (what open_rows takes: "mine.h5:/codes") has the dataset's dtype, shape and bytes. Both are
// read in pieces of 4 MiB, at the same time where one is read by another process. Errors are those of both readers.
// Bytes are added to `compared` as they are.
bool dataset_equals(const GoldenReader& golden, const std::string& dataset, const std::string& location,
                    std::atomic<std::uint64_t>* compared = nullptr);

}  // namespace mxcheck
