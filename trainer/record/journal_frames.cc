#include "trainer/record/journal_frames.h"

#include <xxhash.h>

#include <cstring>
#include <optional>

#include "numerics/byte_stream.h"
#include "numerics/error.h"

namespace mxcheck {
namespace {

constexpr std::uint32_t kMark = 0x4D584A52;

std::uint64_t checksum(std::uint32_t type, std::span<const std::byte> payload) {
  ByteWriter head;
  head.number(type);
  head.number<std::uint64_t>(payload.size());
  // The head's hash is the payload's seed: one pass over each, and both count.
  const XXH64_hash_t seed = XXH3_64bits(head.bytes().data(), head.bytes().size());
  return XXH3_64bits_withSeed(payload.data(), payload.size(), seed);
}

template <class T>
T number_at(std::span<const std::byte> bytes, std::uint64_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// The payload of a frame that begins here, by mark and length alone.
std::optional<std::span<const std::byte>> payload_at(std::span<const std::byte> bytes, std::uint64_t at) {
  if (bytes.size() - at < kFrameHead || number_at<std::uint32_t>(bytes, at) != kMark) return std::nullopt;
  const auto length = number_at<std::uint64_t>(bytes, at + 8);
  if (length > kMostPayload || length > bytes.size() - at - kFrameHead) return std::nullopt;
  return bytes.subspan(at + kFrameHead, length);
}

// The whole frame that begins here, if one does.
std::optional<Frame> frame_at(std::span<const std::byte> bytes, std::uint64_t at) {
  const auto begun = payload_at(bytes, at);
  if (!begun) return std::nullopt;
  const std::span<const std::byte> payload = *begun;
  const auto type = number_at<std::uint32_t>(bytes, at + 4);
  if (checksum(type, payload) != number_at<std::uint64_t>(bytes, at + 16)) return std::nullopt;
  return Frame{type, at, payload};
}

}  // namespace

std::vector<std::byte> frame_of(std::uint32_t type, std::span<const std::byte> payload) {
  if (payload.size() > kMostPayload) {
    throw Error(ErrorKind::usage, "a journal's record of " + std::to_string(payload.size()) + " bytes; at most " +
                                      std::to_string(kMostPayload));
  }
  ByteWriter to;
  to.number(kMark);
  to.number(type);
  to.number<std::uint64_t>(payload.size());
  to.number(checksum(type, payload));
  to.append(payload);
  return to.bytes();
}

Frames frames_in(std::span<const std::byte> bytes, std::uint64_t begin, const std::string& where) {
  Frames all{{}, begin};
  while (all.whole_bytes < bytes.size()) {
    const std::optional<Frame> frame = frame_at(bytes, all.whole_bytes);
    if (!frame) break;
    all.frames.push_back(*frame);
    all.whole_bytes += kFrameHead + frame->payload.size();
  }
  // A torn tail holds no mark but its own, but by chance: one full of marks would take the square of its length.
  std::uint64_t hashed = 0;
  const std::uint64_t most = 4 * (bytes.size() + kMostPayload);
  for (std::uint64_t at = all.whole_bytes; at < bytes.size(); ++at) {
    const auto payload = payload_at(bytes, at);
    if (!payload) continue;
    hashed += payload->size();
    if (hashed > most) {
      throw Error(ErrorKind::input, where + ": damaged at byte " + std::to_string(all.whole_bytes) +
                                        ": no record is there, and what follows is full of marks of records");
    }
    if (!frame_at(bytes, at)) continue;
    throw Error(ErrorKind::input, where + ": damaged at byte " + std::to_string(all.whole_bytes) +
                                      ": no record is there, but one follows at byte " + std::to_string(at));
  }
  return all;
}

}  // namespace mxcheck
