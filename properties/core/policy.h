#pragma once
// A call's policy on its way to another process: the bytes of the C struct that the operation's interface has
// (mxcheck_policy, or a struct that begins with one), and the texts that its pointers point to.
//
// Nothing here knows an operation: pack() is told where the struct has texts, read() gives the struct back, and the
// candidate's process hands over what arrived. Trivially copyable.
//
// Example: Policy p = pack(mxcheck_policy{...}); edit<mxcheck_policy>(p, [](auto& s) { s.cols += 1; });

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernels/candidate.h"
#include "numerics/error.h"

namespace mxcheck {

struct Policy {
  static constexpr std::size_t kMostBytes = 512;
  static constexpr std::size_t kMostTexts = 8;
  struct Text {
    std::uint32_t offset = 0;            // of the pointer, in the struct
    char text[60] = {};                  // what is longer is cut
    void set(const std::string& from) {  // a copy: it may be this text
      const std::size_t length = from.size() < sizeof(text) ? from.size() : sizeof(text) - 1;
      std::memset(text, 0, sizeof(text));
      std::memcpy(text, from.data(), length);
    }
  };
  std::uint32_t num_bytes = 0;
  std::uint32_t num_texts = 0;
  Text texts[kMostTexts];
  alignas(16) unsigned char bytes[kMostBytes] = {};
};

// texts: offsets of the struct's pointers to text, beside those of mxcheck_policy itself. A null
// pointer becomes an empty text: no library is handed one.
template <class Struct>
Policy pack(const Struct& from, std::initializer_list<std::size_t> texts = {}) {
  static_assert(std::is_trivially_copyable_v<Struct> && std::is_standard_layout_v<Struct>);
  static_assert(sizeof(Struct) >= sizeof(mxcheck_policy) && sizeof(Struct) <= Policy::kMostBytes);
  Policy p;
  p.num_bytes = sizeof(Struct);
  std::memcpy(p.bytes, &from, sizeof(Struct));
  const auto add = [&p](std::size_t offset) {
    const char* text = nullptr;
    std::memcpy(&text, p.bytes + offset, sizeof(text));
    if (p.num_texts == Policy::kMostTexts) throw Error(ErrorKind::internal, "a policy of more texts than are possible");
    Policy::Text& to = p.texts[p.num_texts++];
    to.offset = static_cast<std::uint32_t>(offset);
    to.set(text == nullptr ? "" : text);
  };
  add(offsetof(mxcheck_policy, format));
  add(offsetof(mxcheck_policy, recipe));
  for (const std::size_t offset : texts) add(offset);
  const std::uint32_t size = sizeof(Struct);
  std::memcpy(p.bytes + offsetof(mxcheck_policy, size), &size, sizeof(size));
  return p;
}

// The struct, or as much of its beginning as Struct is; its texts are p's, which must outlive it.
template <class Struct>
Struct read(const Policy& p) {
  static_assert(std::is_trivially_copyable_v<Struct> && sizeof(Struct) <= Policy::kMostBytes);
  if (p.num_bytes < sizeof(Struct)) throw Error(ErrorKind::internal, "a policy of another operation");
  unsigned char bytes[sizeof(Struct)];
  std::memcpy(bytes, p.bytes, sizeof(Struct));
  for (std::uint32_t i = 0; i < p.num_texts; ++i) {
    const char* text = p.texts[i].text;
    if (p.texts[i].offset + sizeof(text) <= sizeof(Struct)) std::memcpy(bytes + p.texts[i].offset, &text, sizeof(text));
  }
  Struct out;
  std::memcpy(&out, bytes, sizeof(Struct));
  return out;
}

// change(Struct&) may give texts that live until it has returned.
template <class Struct, class Change>
void edit(Policy& p, const Change& change) {
  auto s = read<Struct>(p);
  change(s);
  unsigned char bytes[sizeof(Struct)];
  std::memcpy(bytes, &s, sizeof(Struct));
  for (std::uint32_t i = 0; i < p.num_texts; ++i) {
    if (p.texts[i].offset + sizeof(const char*) > sizeof(Struct)) continue;
    const char* text = nullptr;
    std::memcpy(&text, bytes + p.texts[i].offset, sizeof(text));
    p.texts[i].set(text == nullptr ? "" : text);
  }
  std::memcpy(p.bytes, bytes, sizeof(Struct));
}

// The struct as a candidate is to see it; pointers into this, which stays where it is.
class PolicyInPlace {
 public:
  explicit PolicyInPlace(const Policy& from) : policy_(from) {
    for (std::uint32_t i = 0; i < policy_.num_texts; ++i) {
      const char* text = policy_.texts[i].text;
      std::memcpy(policy_.bytes + policy_.texts[i].offset, &text, sizeof(text));
    }
    std::memcpy(&given_, &policy_, sizeof(policy_));
  }
  PolicyInPlace(const PolicyInPlace&) = delete;
  PolicyInPlace& operator=(const PolicyInPlace&) = delete;
  [[nodiscard]] const mxcheck_policy* get() const {
    return static_cast<const mxcheck_policy*>(static_cast<const void*>(policy_.bytes));
  }
  // False: the candidate has written into the struct, or into one of its texts.
  // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): padding too was copied as bytes.
  [[nodiscard]] bool is_as_given() const { return std::memcmp(&policy_, &given_, sizeof(policy_)) == 0; }

 private:
  Policy policy_;
  Policy given_;
};

}  // namespace mxcheck
