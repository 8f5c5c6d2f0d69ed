#pragma once
// Values as the bytes that memory holds, and back. The host's byte order: little-endian, as all files and tensors here.
// No errors.

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace mxcheck {

template <class T>
std::vector<std::byte> to_bytes(std::span<const T> values) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto bytes = std::as_bytes(values);
  return {bytes.data(), bytes.data() + bytes.size()};
}
template <class T>
std::vector<std::byte> to_bytes(const std::vector<T>& values) {
  return to_bytes(std::span<const T>(values));
}

// Copies as many whole values as the bytes hold, whatever their alignment.
template <class T>
std::vector<T> values_in(std::span<const std::byte> bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace mxcheck
