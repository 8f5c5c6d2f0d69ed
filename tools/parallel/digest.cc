// Digests of rows, and names of outputs.

#include <cstring>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "properties/core/rng.h"
#include "reference/common/parallel.h"
#include "tools/parallel/parallel.h"

namespace mxcheck {
namespace {

RowDigest digest_row(const std::byte* bytes, std::int64_t size, std::int64_t number) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15U;
  std::uint64_t a = mix64(static_cast<std::uint64_t>(number)), b = mix64(a);
  std::int64_t at = 0;
  const auto take = [&](std::uint64_t word) {
    a = (a ^ word) * kOdd, a ^= a >> 29;
    b = (b + word) * (kOdd + 2), b ^= b >> 31;
  };
  for (; at + 8 <= size; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, sizeof(word));
    take(word);
  }
  std::uint64_t tail = 0;
  if (at < size) std::memcpy(&tail, bytes + at, static_cast<std::size_t>(size - at));
  take(tail);
  return {mix64(a), mix64(b)};
}

}  // namespace

RowDigest digest_rows(const void* data, std::int64_t row_bytes, const std::vector<std::int64_t>& rows) {
  RowDigest sum;
  std::mutex mutex;
  parallel_ranges(std::ssize(rows), std::ssize(rows) * row_bytes, 0, [&](std::int64_t begin, std::int64_t end) {
    RowDigest part;
    for (std::int64_t i = begin; i < end; ++i) {
      part +=
          digest_row(static_cast<const std::byte*>(data) + i * row_bytes, row_bytes, rows[static_cast<std::size_t>(i)]);
    }
    const std::lock_guard lock(mutex);
    sum += part;
  });
  return sum;
}

std::string to_text(const RowDigest& digest) { return fmt::format("{:016x}{:016x}", digest.high, digest.low); }

}  // namespace mxcheck
