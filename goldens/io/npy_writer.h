#pragma once
// A .npy file that is written piece by piece, so that tensors larger than memory can be: there on commit. The bytes are
// those of write_npy. Errors: Error{usage} for a path that cannot be written and for more or fewer bytes than the shape
// holds; Error{environment} for a full disk.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "goldens/io/atomic_file.h"
#include "goldens/io/row_reader.h"

namespace mxcheck {

class NpyWriter {
 public:
  NpyWriter(const std::string& path, const TensorHead& head);
  void append(std::span<const std::byte> bytes);  // the next, cut anywhere
  void commit(const std::function<void()>& before_it_appears = {});

 private:
  std::string path_;
  std::uint64_t left_;
  AtomicFile file_;
};

}  // namespace mxcheck
