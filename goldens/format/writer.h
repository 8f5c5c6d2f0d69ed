#pragma once
// Writes a golden: declared in full, filled row by row, renamed into place on commit.
//
//   GoldenWriter writer(path, info);
//   writer.append(0, rows);  ...
//   const ManifestEntry entry = writer.commit();
//
// The bytes are a function of the info, the data and the options alone: no times, no versions of this tool, one thread,
// fixed format bounds. Chunks of about 1 MiB with Fletcher-32; deflate if requested. Under a temporary name in the
// target's directory until commit, which checks that every row came, reopens the file read-only and compares it with
// what was given, hashes it, fsyncs and renames. An existing golden is replaced, never opened.
//
// Errors: Error{usage} for a path that cannot be written, invalid names, more or fewer rows than declared;
// Error{environment} for a full disk and the like, with HDF5's own stack. The path is then unchanged.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "goldens/format/golden.h"
#include "goldens/format/manifest.h"

namespace mxcheck {

class GoldenWriter {
 public:
  struct Options {
    int compression = 0;               // deflate, 0 (none) to 9
    const char* file_kind = "golden";  // attribute mxcheck_file; "quantized" for what mxcheck quantize writes, ...
  };
  GoldenWriter(const std::string& path, const GoldenInfo& info, Options options);
  GoldenWriter(const std::string& path, const GoldenInfo& info) : GoldenWriter(path, info, Options()) {}
  ~GoldenWriter();
  GoldenWriter(const GoldenWriter&) = delete;
  GoldenWriter& operator=(const GoldenWriter&) = delete;

  // The dataset's next whole rows (elements, for rank 1), by its index in info.datasets.
  void append(std::size_t dataset, std::span<const std::byte> rows);
  // Checks, and puts on the disk under the temporary name: several goldens that are to appear together are completed
  // first, then committed, which only renames them.
  ManifestEntry complete();  // name: the path's last component
  // complete() where that was not called. What before_it_appears throws leaves the path as it was.
  ManifestEntry commit(const std::function<void()>& before_it_appears = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mxcheck
