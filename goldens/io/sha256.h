#pragma once
// SHA-256 (FIPS 180-4) by OpenSSL's libcrypto.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "goldens/io/byte_source.h"

namespace mxcheck {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(std::span<const std::byte> bytes);
  [[nodiscard]] std::string hex();  // 64 lower-case digits; ends the computation

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256(std::span<const std::byte> bytes);

// The hash of a whole source, read by another thread while the piece before is hashed: the time is that of the slower
// of the two. With `into`, of the source's size, the bytes that were hashed are there.
// Bytes are added to `done` as they are hashed.
std::string sha256(const ByteSource& source, std::atomic<std::uint64_t>* done = nullptr);
std::string sha256(const ByteSource& source, std::span<std::byte> into, std::atomic<std::uint64_t>* done = nullptr);

}  // namespace mxcheck
