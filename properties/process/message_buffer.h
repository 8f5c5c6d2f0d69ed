#pragma once
// The buffer in which a library says why it refused, between two zones: whether the text ends within it, and whether
// anything was written around it.

#include <cstddef>
#include <cstring>

#include "properties/process/wire.h"

namespace mxcheck {

class MessageBuffer {
 public:
  static constexpr std::size_t kBytes = sizeof(wire::Reply::message);

  // Before a call: an empty text, with no zero after it that would end one that the library did not end itself.
  void clear() {
    std::memset(bytes_, kFill, sizeof(bytes_));
    bytes_[kZone] = '\0';
  }
  [[nodiscard]] char* text() { return bytes_ + kZone; }
  // After it: what is wrong, or null; the text goes to the reply, ended in any case.
  const char* take(wire::Reply& reply) const {
    std::memcpy(reply.message, bytes_ + kZone, kBytes);
    const bool ends = std::memchr(reply.message, '\0', kBytes) != nullptr;
    reply.message[kBytes - 1] = '\0';
    for (std::size_t i = 0; i < kZone; ++i) {
      if (bytes_[i] != kFill) return "wrote before the buffer of its message";
      if (bytes_[kZone + kBytes + i] != kFill) return "wrote past message_bytes, the end of its message's buffer";
    }
    return ends ? nullptr : "left a message that no NUL ends within message_bytes";
  }

 private:
  static constexpr std::size_t kZone = 1024;  // a text of twice the buffer's size ends here too
  static constexpr char kFill = 0x7E;
  char bytes_[kZone + kBytes + kZone] = {};
};

}  // namespace mxcheck
