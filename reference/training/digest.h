#pragma once
// Digests of tensors, to compare two computations of them: docs/training.md has the formula. No errors.

#include <cstdint>
#include <span>

namespace mxcheck {

std::uint64_t tensor_digest(std::span<const float> values, int threads = 0);        // every NaN alike
std::uint64_t tensor_digest(std::span<const std::uint16_t> bf16, int threads = 0);  // likewise
std::uint64_t digest_of_digests(std::span<const std::uint64_t> digests);

}  // namespace mxcheck
