#pragma once
// Turns bytes into an HDF5 file that is a golden, nearly one, or none: every byte decides something, and bytes that
// have run out are zeros, which decide for what is right.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace mxcheck::fuzz {

class Choices {
 public:
  explicit Choices(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::size_t pick(std::size_t count) { return next() % count; }  // 0 to count - 1
  std::uint8_t next();
  // The right one of the list is its first; seven bytes of eight choose it.
  template <class T>
  T mostly(std::initializer_list<T> list) {
    const std::uint8_t byte = next();
    return byte < 224 ? *list.begin() : *(list.begin() + byte % list.size());
  }
  std::string text(std::size_t most);

 private:
  std::span<const std::byte> bytes_;
};

// The data of the datasets that were written whole, by name.
using BuiltData = std::map<std::string, std::vector<std::byte>>;

// Writes the file at path, over whatever is there.
BuiltData build_hdf5(const std::string& path, Choices choices);

// A folder of this process for files of targets, in memory where the system has that.

const std::string& scratch();

}  // namespace mxcheck::fuzz
