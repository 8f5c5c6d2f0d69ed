#pragma once
// Codes along tokens as kernels are to write them, from the reference's, which lie as the matrix does.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/kernels/sm90/moe/samples.h"

namespace mxcheck::test {

inline const std::vector<std::int64_t> kRaggedRows = {0, 1, 31, 0, 127, 128, 129, 300, 0, 33};

inline std::int64_t down(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

// Where codes along tokens go.
struct Target {
  bool padded = false;
  std::int64_t stride = 0;
};

// Codes of the reference for `x`, transposed, with padding and what is not written.
inline std::vector<std::uint8_t> transposed_codes(const QuantizedTensor& q, const Experts& experts, const Target& to) {
  const std::int64_t stride = to.stride == 0 ? experts.rows() : to.stride;
  auto out = poisoned<std::uint8_t>(q.cols() * stride);
  for (std::size_t e = 0; e + 1 < experts.offsets.size(); ++e) {
    const std::int64_t n = experts.offsets[e + 1] - experts.offsets[e];
    const std::int64_t first = to.padded ? 128 * experts.bands[e] : experts.offsets[e];
    for (std::int64_t i = 0; i < (to.padded ? 128 * down(n, 128) : n); ++i) {
      for (std::int64_t j = 0; j < q.cols(); ++j) {
        const auto at = static_cast<std::size_t>((experts.offsets[e] + i) * q.cols() + j);
        out[static_cast<std::size_t>(j * stride + first + i)] =
            i < n ? q.codes.as<std::uint8_t>()[at] : std::uint8_t{0};
      }
    }
  }
  return out;
}

}  // namespace mxcheck::test
