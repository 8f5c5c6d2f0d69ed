#pragma once
// How many different FP32 scales there are among any number of them: a bit for each of the 2^32 floats, in pages of one
// sign and exponent that are made when a scale falls into them. A tensor's scales lie in few exponents: some MiB.

#include <bit>
#include <cstdint>
#include <map>
#include <vector>

namespace mxcheck {

class ScaleSet {
 public:
  void add(float scale) {
    const auto bits = std::bit_cast<std::uint32_t>(scale);
    std::vector<bool>& page = pages_[bits >> kPage];
    if (page.empty()) page.resize(std::size_t{1} << kPage);
    auto bit = page[bits & ((std::uint32_t{1} << kPage) - 1)];
    count_ += bit ? 0 : 1;
    bit = true;
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  static constexpr int kPage = 23;
  std::map<std::uint32_t, std::vector<bool>> pages_;
  std::uint64_t count_ = 0;
};

}  // namespace mxcheck
