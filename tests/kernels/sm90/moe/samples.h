#pragma once
// Matrices for tests of a layer's quantization: BF16 words in blocks and with cells of every kind, ragged experts, and
// their plan.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/sm90/layer/steps/plan.h"
#include "kernels/sm90/layer/steps/steps.h"
#include "reference/quantize/quantize.h"
#include "tests/kernels/sm90/moe/device.h"

namespace mxcheck::test {

// A matrix of x, or of the rows of x that an index names, whose rows belong to experts by offsets or by their number.
struct GatheredMatrix {
  std::vector<std::uint16_t> x;
  std::int64_t cols;
  std::vector<std::int64_t> offsets = {};
  std::vector<std::int32_t> index = {};
  std::int64_t expert_rows = 0;

  [[nodiscard]] std::int64_t rows() const {
    return index.empty() ? static_cast<std::int64_t>(x.size()) / cols : static_cast<std::int64_t>(index.size());
  }
};

inline std::uint32_t next_word(std::uint32_t& state) { return state = state * 1664525 + 1013904223; }

// Numbers of both signs within some 40 binades of one, now and then a zero.
inline std::vector<std::uint16_t> ordinary_words(std::size_t count, std::uint32_t seed) {
  std::vector<std::uint16_t> words(count);
  for (auto& word : words) {
    const std::uint32_t bits = next_word(seed);
    const std::uint32_t field = 127 - (bits >> 27) - (bits >> 24 & 7);
    word = (bits >> 18 & 63) == 0 ? 0 : static_cast<std::uint16_t>((bits & 0x8000) | field << 7 | (bits >> 8 & 0x7F));
  }
  return words;
}

// All 65536 words, shuffled, again and again: NaN in about one of two blocks of 32.
inline std::vector<std::uint16_t> all_words(std::size_t count, std::uint32_t seed) {
  std::vector<std::uint16_t> words(count);
  std::iota(words.begin(), words.end(), std::uint16_t{0});
  for (std::size_t i = count; i > 1; --i) std::swap(words[i - 1], words[next_word(seed) % i]);
  return words;
}

// Blocks of `block` words: every exponent with the largest value's mantissa and the one above it as amax, and beside it
// every number of both signs from there down to 40 binades below, zeros to fill.
inline std::vector<std::uint16_t> blocks_of_every_exponent(std::size_t block, std::uint32_t largest_mantissa) {
  std::vector<std::uint16_t> words;
  for (std::uint32_t field = 0; field < 255; ++field) {
    for (std::uint32_t more = 0; more < 2; ++more) {
      const std::uint32_t amax = field << 7 | (largest_mantissa + more);
      const std::uint32_t least = field > 40 ? (field - 40) << 7 : 0;
      for (std::uint32_t word = least; word <= amax; ++word) {
        for (const std::uint32_t sign : {0U, 0x8000U}) {
          if (words.size() % block == 0) words.push_back(static_cast<std::uint16_t>(amax));
          words.push_back(static_cast<std::uint16_t>(word | sign));
        }
      }
      while (words.size() % block != 0) words.push_back(0);
    }
  }
  return words;
}

// Blocks of 32 down columns instead of along rows; whole bands of 32 rows, the last one's rest zeros.
inline std::vector<std::uint16_t> down_columns(const std::vector<std::uint16_t>& blocks, std::size_t cols) {
  const std::size_t count = blocks.size() / 32;
  std::vector<std::uint16_t> words((count + cols - 1) / cols * cols * 32);
  for (std::size_t b = 0; b < count; ++b) {
    for (std::size_t i = 0; i < 32; ++i) words[(b / cols * 32 + i) * cols + b % cols] = blocks[b * 32 + i];
  }
  return words;
}

inline std::uint64_t random_word(std::uint64_t seed, std::uint64_t at) {  // splitmix64
  std::uint64_t z = seed + (at + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return z ^ z >> 31;
}

// Cells of 48 x 96: zeros of both signs, subnormals, around 2^-100, up to the largest, or numbers around one; in one
// cell of eight a NaN or an infinity.
inline std::vector<std::uint16_t> bf16_cells(std::int64_t rows, std::int64_t cols, std::uint64_t seed,
                                             bool finite = false) {
  std::vector<std::uint16_t> x;
  x.reserve(static_cast<std::size_t>(rows * cols));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const std::uint64_t cell = random_word(seed ^ 0x5EED, static_cast<std::uint64_t>(i / 48 * 1000 + j / 96));
      const std::uint64_t r = random_word(seed, static_cast<std::uint64_t>(i * cols + j));
      const std::uint64_t kind = cell % 9;
      std::uint64_t exponent = 110 + (r >> 32) % 20;
      if (kind == 0) exponent = 0;
      if (kind == 1) exponent = 0;
      if (kind == 2) exponent = 20 + (r >> 32) % 12;
      if (kind == 3) exponent = 235 + (r >> 32) % 20;
      auto word = static_cast<std::uint16_t>((r & 0x807F) | exponent << 7);
      if (kind == 0) word &= 0x8000;
      const bool special = (cell >> 8) % 8 == 0 && i % 48 == static_cast<std::int64_t>((cell >> 16) % 48) &&
                           j % 96 == static_cast<std::int64_t>((cell >> 24) % 96);
      if (special && !finite) word = (cell >> 40) % 2 == 0 ? 0xFFC1 : 0xFF80;
      x.push_back(word);
    }
  }
  return x;
}

template <class T>
MatrixView view_of(const std::vector<T>& x, std::int64_t rows, std::int64_t cols) {
  return {sizeof(T) == 2 ? Format::bf16 : Format::fp32, std::as_bytes(std::span(x)).data(), rows, cols, cols};
}

template <class T>
std::vector<T> gathered(const std::vector<T>& x, const std::vector<std::int32_t>& index, std::int64_t cols) {
  if (index.empty()) return x;
  std::vector<T> rows;
  for (const std::int32_t i : index) rows.insert(rows.end(), x.begin() + i * cols, x.begin() + (i + 1) * cols);
  return rows;
}

inline std::vector<std::int32_t> random_index(std::int64_t rows, std::int64_t of, std::uint64_t seed) {
  std::vector<std::int32_t> index;
  for (std::int64_t i = 0; i < rows; ++i) {
    index.push_back(
        static_cast<std::int32_t>(random_word(seed, static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(of)));
  }
  return index;
}

// How codes are made, in the kernels' words and in the reference's.
struct Way {
  std::string recipe;
  Format format;
  mxcheck_kernels::sm90::DeviceCoding coding;
};
inline std::vector<Way> ways(int block) {
  using mxcheck_kernels::CodeScale;
  using mxcheck_kernels::Element;
  std::vector<Way> all;
  for (const Element e : {Element::e4m3, Element::e5m2}) {
    const Format f = e == Element::e4m3 ? Format::e4m3 : Format::e5m2;
    all.push_back({"fp32", f, mxcheck_kernels::sm90::device_coding({e, CodeScale::fp32, block})});
    all.push_back({"rceil", f, mxcheck_kernels::sm90::device_coding({e, CodeScale::rceil, block})});
    all.push_back({"floor", f, mxcheck_kernels::sm90::device_coding({e, CodeScale::floor, block})});
  }
  return all;
}

// Scales of either kind as bytes, in words of 4 or 1 each.
inline std::vector<std::uint32_t> scale_bits(const QuantizedTensor& q) {
  std::vector<std::uint32_t> bits;
  for (std::size_t i = 0; i < q.scales().size(); ++i) bits.push_back(q.scales().code(i));
  return bits;
}

// Experts of these numbers of rows, and the plan of their tiles on the device.
class Experts {
 public:
  explicit Experts(const std::vector<std::int64_t>& rows, int block = 128) {
    for (const std::int64_t r : rows) {
      offsets.push_back(offsets.back() + r);
      bands.push_back(bands.back() + (r + block - 1) / block);
    }
    device_offsets.emplace(offsets);
    mxcheck_kernels::sm90::PlanJob job;
    job.rows = offsets.back(), job.offsets = device_offsets->data();
    job.experts = static_cast<std::int64_t>(rows.size()), job.block = block;
    header.emplace(mxcheck_kernels::sm90::kHeaderBytes);
    table.emplace(mxcheck_kernels::sm90::table_bytes(job));
    auto* const at = static_cast<mxcheck_kernels::sm90::PlanHeader*>(header->data());
    auto* const tiles = static_cast<mxcheck_kernels::sm90::RowTile*>(table->data());
    EXPECT_EQ(mxcheck_kernels::sm90::make_plan(job, at, tiles, nullptr), cudaSuccess);
    tiled = {job.rows, mxcheck_kernels::sm90::most_tiles(job), at, tiles};
  }
  [[nodiscard]] std::int64_t rows() const { return offsets.back(); }

  std::vector<std::int64_t> offsets = {0};
  std::vector<std::int64_t> bands = {0};  // before each expert
  std::optional<Input<std::int64_t>> device_offsets;
  std::optional<DeviceBytes> header;
  std::optional<DeviceBytes> table;
  mxcheck_kernels::sm90::TiledRows tiled;
};

// A header that says that the call is refused.
class RefusedHeader {
 public:
  RefusedHeader() : header_(std::vector<mxcheck_kernels::sm90::PlanHeader>{{MXCHECK_INVALID, 1, 0}}) {}
  [[nodiscard]] const mxcheck_kernels::sm90::PlanHeader* data() const { return header_.data(); }

 private:
  Input<mxcheck_kernels::sm90::PlanHeader> header_;
};

}  // namespace mxcheck::test
