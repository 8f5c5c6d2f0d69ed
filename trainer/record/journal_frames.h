#pragma once
// The records of a journal as bytes: each is framed, so that one that was not written whole is told from one that was
// damaged later. Little-endian:
//
//   4 bytes  52 4A 58 4D ("MXJR" as a number)      4 bytes  type      8 bytes  length of the payload
//   8 bytes  XXH3 (64 bits) of type, length and payload               then the payload
//
//   bytes = frame_of(type, payload);                   const Frames f = frames_in(bytes, "run.h5.journal");
//
// Bytes at the end that are no whole frame are a torn tail if no whole frame follows, as a kill or a full disk leaves
// it; otherwise they are damage. A last record whose bytes were changed cannot be told from a torn one.
//
// Errors: Error{input} with the byte, for damage; Error{usage} for a payload of over kMostPayload.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mxcheck {

inline constexpr std::uint64_t kFrameHead = 24;  // bytes before the payload
inline constexpr std::uint64_t kMostPayload = 64 << 20;

struct Frame {
  std::uint32_t type = 0;
  std::uint64_t at = 0;  // of its first byte
  std::span<const std::byte> payload;
};

struct Frames {
  std::vector<Frame> frames;
  std::uint64_t whole_bytes = 0;  // up to the end of the last whole frame; what follows is torn
};

std::vector<std::byte> frame_of(std::uint32_t type, std::span<const std::byte> payload);

// The frames of `bytes` from `begin` on; `where` is for messages.
Frames frames_in(std::span<const std::byte> bytes, std::uint64_t begin, const std::string& where);

}  // namespace mxcheck
