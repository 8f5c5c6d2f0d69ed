#pragma once
// Tensors on the host, and calls with them.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "kernels/candidate.h"

namespace mxcheck {

inline constexpr DLDataType kBf16{kDLBfloat, 16, 1};
inline constexpr DLDataType kFp32{kDLFloat, 32, 1};
inline constexpr DLDataType kByte{kDLUInt, 8, 1};
inline constexpr DLDataType kInt32{kDLInt, 32, 1};
inline constexpr DLDataType kInt64{kDLInt, 64, 1};

struct HostTensor {
  DLDataType type;
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;

  // An element of a tensor in BF16 or FP32, as a number.
  [[nodiscard]] double value(std::int64_t i) const {
    const auto read = [&]<class T>(T v) {
      std::memcpy(&v, bytes.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
      return v;
    };
    if (type.code == kDLFloat) return read(0.0F);
    return std::bit_cast<float>(static_cast<std::uint32_t>(read(std::uint16_t{0})) << 16);
  }
  // All of them or FP32, as numbers.
  template <class To>
  [[nodiscard]] std::vector<To> numbers() const {
    std::vector<To> values;
    const std::size_t size = type.bits / 8;
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      std::uint32_t word = 0;
      std::memcpy(&word, bytes.data() + at, size);
      values.push_back(static_cast<To>(std::bit_cast<float>(word << (32 - type.bits))));
    }
    return values;
  }
};

inline HostTensor empty(DLDataType type, std::vector<std::int64_t> shape) {
  std::size_t bytes = type.bits / 8;
  for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  return {type, std::move(shape), std::vector<std::uint8_t>(bytes, 0x7F)};
}

template <class T>
HostTensor filled(DLDataType type, std::vector<std::int64_t> shape, const std::vector<T>& with) {
  HostTensor t = empty(type, std::move(shape));
  std::memcpy(t.bytes.data(), with.data(), t.bytes.size());
  return t;
}

inline HostTensor normal(std::mt19937& random, DLDataType type, std::vector<std::int64_t> shape, float deviation = 1) {
  HostTensor t = empty(type, std::move(shape));
  std::normal_distribution<float> draw(0, deviation);
  const std::size_t size = type.bits / 8;
  for (std::size_t i = 0; i < t.bytes.size(); i += size) {
    const auto bits = std::bit_cast<std::uint32_t>(draw(random)) >> (size == 2 ? 16 : 0);
    std::memcpy(t.bytes.data() + i, &bits, size);
  }
  return t;
}

// True if the call was answered; outputs are poisoned before it.
inline bool call(const mxcheck_operation& operation, const mxcheck_policy& policy, std::vector<HostTensor>& inputs,
                 std::vector<HostTensor>& outputs) {
  std::vector<DLTensor> tensors;
  for (std::vector<HostTensor>* side : {&inputs, &outputs}) {
    for (HostTensor& t : *side) {
      if (side == &outputs) std::fill(t.bytes.begin(), t.bytes.end(), std::uint8_t{0x7F});
      tensors.push_back(
          {t.bytes.data(), {kDLCPU, 0}, static_cast<int>(t.shape.size()), t.type, t.shape.data(), nullptr, 0});
    }
  }
  char message[256] = "";
  mxcheck_call c{};
  c.size = sizeof(c), c.num_inputs = static_cast<std::int32_t>(inputs.size());
  c.num_outputs = static_cast<std::int32_t>(outputs.size()), c.policy = &policy;
  c.inputs = tensors.data(), c.outputs = tensors.data() + inputs.size();
  c.message = message, c.message_bytes = sizeof(message);
  const bool done = operation.run(&c) == MXCHECK_OK;
  if (!done) std::fprintf(stderr, "%s: %s\n", operation.name, message);
  return done;
}

}  // namespace mxcheck
