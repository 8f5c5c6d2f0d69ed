#pragma once
// A safetensors file that is written piece by piece, so that tensors larger than memory can be: declared in full,
// filled in any order, there on commit.
//
//   SafetensorsWriter writer("q.safetensors", {{"codes", {Format::uint8, {rows, cols}}}}, metadata);
//   writer.append(0, piece);  ...
//   writer.commit();
//
// The bytes are those of write_safetensors for the same tensors: widest elements first, then by name, whatever the
// order here. Errors: Error{usage} for names that cannot be written, for a path that cannot, and for more or fewer
// bytes than declared; Error{environment} for a full disk. Nothing appears at the path before commit.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "goldens/io/atomic_file.h"
#include "goldens/io/row_reader.h"

namespace mxcheck {

struct NamedHead {
  std::string name;
  TensorHead head;
};

class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::string& path, const std::vector<NamedHead>& tensors,
                    const std::map<std::string, std::string>& metadata);

  // The next bytes of a tensor, by its index in `tensors`, cut anywhere; of e2m1 codes, one a byte, which become two.
  void append(std::size_t tensor, std::span<const std::byte> bytes);
  void commit(const std::function<void()>& before_it_appears = {});

 private:
  struct Region {
    std::string name;
    std::uint64_t at = 0;  // in the file, of the next byte
    std::uint64_t end = 0;
    bool is_packed = false;
    std::vector<std::uint8_t> half = {};  // of the next byte, the first of its two codes
  };
  void append_codes(Region& region, std::span<const std::byte> codes);
  std::string path_;
  std::vector<Region> regions_;  // in the order of `tensors`
  AtomicFile file_;
};

// A .npy file that is written piece by piece, so that tensors larger than memory can be: there on commit. The bytes are
// those of write_npy. Errors: Error{usage} for a path that cannot be written and for more or fewer bytes than the shape
// holds; Error{environment} for a full disk.

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
