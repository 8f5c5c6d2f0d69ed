#include "properties/operations/scaled_blocks/expand.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "goldens/data/embedded.h"
#include "numerics/error.h"
#include "properties/core/phases.h"

namespace mxcheck {
namespace {

constexpr double two_to(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// One unit in the last place up or down in magnitude, staying finite and keeping the sign.
std::uint32_t move_ulp(Format dtype, std::uint32_t bits, int by) {
  const std::uint32_t sign = bits & sign_bit(dtype);
  const std::int64_t magnitude =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(bits & (sign_bit(dtype) - 1)) + by, 0, spec(dtype).max_code);
  return sign | static_cast<std::uint32_t>(magnitude);
}

// The values that the elements of one block share.
struct BlockWords {
  int exponent = 0;                             // of boundaries, codes and slots; of normal the row's
  std::uint64_t kind = 0;                       // of boundaries and specials
  std::int64_t chosen_row = 0, chosen_col = 0;  // of is_chosen(), in the block, which an edge may have cut
};

// A number below n, from the upper half of a word.
std::size_t scaled(std::uint64_t word, std::size_t n) { return static_cast<std::size_t>((word >> 32) * n >> 32); }

// n modulo a divisor that is the same for a whole tensor, without a division. With m = ceil(2^64 / d) the quotient is
// n * m / 2^64: m * d exceeds 2^64 by less than d <= 2^8, and n < 2^56 times that stays below 2^64.
class Remainder {
 public:
  explicit Remainder(std::uint64_t divisor)  // 2 to 256
      : divisor_(divisor), reciprocal_(~std::uint64_t{0} / divisor + 1) {}
  [[nodiscard]] std::uint64_t of(std::uint64_t n) const {  // below 2^56
    return n - static_cast<std::uint64_t>(static_cast<unsigned __int128>(n) * reciprocal_ >> 64) * divisor_;
  }

 private:
  std::uint64_t divisor_;
  std::uint64_t reciprocal_;
};

// Where an element stands: its block (row-major number) and its place in it.
struct Place {
  std::int64_t block;
  std::int64_t row_in_block;
  std::int64_t col_in_block;
  const BlockWords& words;
};

class Expander {
 public:
  explicit Expander(const Case& c)
      : c_(c),
        dtype_(c.variant.dtype),
        element_(blocks_of(c.variant).format),
        top_(exponent_of_largest(element_)),
        largest_(decode(element_, spec(element_).max_code)),
        lowest_of_top_(spec(element_).max_code),
        of_codes_(spec(element_).max_code + 1),
        of_codes_below_top_(spec(element_).max_code),
        mantissa_bits_(spec(dtype_).mantissa_bits),
        block_rows_(blocks_of(c.variant).block.height(c.rows)),
        block_cols_(blocks_of(c.variant).block.width(c.cols)),
        blocks_across_((c.cols + block_cols_ - 1) / block_cols_) {
    place_rows();
    list_edges();
    if (c.data == Data::real) window_ = RealWindow(real_tensors(), c.seed, 32);
  }

  // The bits of row i. Which data they are is asked once a row: a third of the gate's time is spent here.
  void fill_row(std::int64_t i, std::uint32_t* to) const {
    switch (c_.data) {
      case Data::zeros:
      case Data::every_row: return fill<Data::zeros>(i, to);  // routers have the latter
      case Data::boundaries: return fill<Data::boundaries>(i, to);
      case Data::codes: return fill<Data::codes>(i, to);
      case Data::normal: return fill<Data::normal>(i, to);
      case Data::bits: return fill<Data::bits>(i, to);
      case Data::specials: return fill<Data::specials>(i, to);
      case Data::wide: return fill<Data::wide>(i, to);
      case Data::sparse: return fill<Data::sparse>(i, to);
      case Data::slots: return fill<Data::slots>(i, to);
      case Data::every_bf16: return fill<Data::every_bf16>(i, to);
      case Data::every_word: return fill<Data::every_word>(i, to);
      case Data::every_amax: return fill<Data::every_amax>(i, to);
      case Data::real: return fill<Data::real>(i, to);
    }
  }

 private:
  struct Row {
    std::int64_t block_row;
    std::int64_t row_in_block;
    std::int64_t block_rows;
  };
  template <Data kData>
  void fill(std::int64_t i, std::uint32_t* to) const {
    if constexpr (kData == Data::every_amax) {  // whatever the block
      for (std::int64_t j = 0; j < c_.cols; ++j)
        to[j] = j == 0 ? static_cast<std::uint32_t>(c_.seed + static_cast<std::uint64_t>(i)) : 0;
      return;
    }
    const Row row = row_of(i);
    for (std::int64_t block_col = 0; block_col < blocks_across_; ++block_col) {
      const std::int64_t first_col = block_col * block_cols_;
      const std::int64_t width = std::min(block_cols_, c_.cols - first_col);
      const std::int64_t number = row.block_row * blocks_across_ + block_col;
      const BlockWords words = words_of<kData>(number, i, row.block_rows, width);
      Place place{number, row.row_in_block, 0, words};
      for (; place.col_in_block < width; ++place.col_in_block) {
        const std::int64_t j = first_col + place.col_in_block;
        to[j] = bits_of<kData>(place, i, j);
      }
    }
  }
  template <Data kData>
  [[nodiscard]] std::uint32_t bits_of(const Place& place, std::int64_t i, std::int64_t j) const {
    const auto number = static_cast<std::uint64_t>(i * c_.cols + j);
    const auto word = [&] { return random_word(c_.seed, number); };
    if constexpr (kData == Data::boundaries) return boundaries(place, word());
    if constexpr (kData == Data::codes) return codes(place, word());
    if constexpr (kData == Data::normal) return normal(place, word());
    if constexpr (kData == Data::bits) return static_cast<std::uint32_t>(word()) & (sign_bit(dtype_) * 2 - 1);
    if constexpr (kData == Data::specials) return specials(place, word());
    if constexpr (kData == Data::wide) return any_finite(dtype_, word());
    if constexpr (kData == Data::sparse) return is_chosen(place) ? any_finite(dtype_, word()) : 0;
    if constexpr (kData == Data::slots) return slots(place, j);
    if constexpr (kData == Data::every_bf16) return every_bf16(i, j);
    if constexpr (kData == Data::every_word) return static_cast<std::uint32_t>(c_.seed + number);
    if constexpr (kData == Data::real) return window_.bits(dtype_, i, j);
    return 0;
  }

  // The block's values that such data need, and no others: in blocks of one column each element has its own.
  template <Data kData>
  [[nodiscard]] BlockWords words_of(std::int64_t block, std::int64_t row, std::int64_t block_rows,
                                    std::int64_t block_cols) const {
    const auto word = [&](std::uint64_t salt) {
      return random_word(c_.seed ^ salt, static_cast<std::uint64_t>(block));
    };
    BlockWords words;
    if constexpr (kData == Data::boundaries) words.exponent = block_exponent(block, lowest_exponent());
    if constexpr (kData == Data::codes) words.exponent = block_exponent(block, lowest_exact_exponent());
    if constexpr (kData == Data::normal) words.exponent = row_exponent(row);
    if constexpr (kData == Data::slots) words.exponent = slot_exponent(block);
    if constexpr (kData == Data::boundaries) words.kind = word(0xED6E) % 8;
    if constexpr (kData == Data::specials) words.kind = word(0x59EC) % 13;
    if constexpr (kData == Data::boundaries || kData == Data::specials || kData == Data::sparse) {
      const std::uint64_t chosen = word(0xC405);
      words.chosen_row = static_cast<std::int64_t>(chosen % static_cast<std::uint64_t>(block_rows));
      words.chosen_col = static_cast<std::int64_t>((chosen >> 20) % static_cast<std::uint64_t>(block_cols));
    }
    return words;
  }
  [[nodiscard]] Row row_of(std::int64_t i) const {
    if (!rows_.empty()) return rows_[static_cast<std::size_t>(i)];
    const std::int64_t block_row = block_rows_ == 1 ? i : i / block_rows_;
    const std::int64_t first = block_row * block_rows_;
    return {block_row, i - first, std::min(block_rows_, c_.rows - first)};
  }
  // Blocks restart at every expert: row_of looks it up where there are experts.
  void place_rows() {
    if (c_.experts.empty()) return;
    std::int64_t start = 0;
    std::int64_t block_row = 0;
    std::size_t expert = 1;
    for (std::int64_t i = 0; i < c_.rows; ++i) {
      while (expert < c_.experts.size() && c_.experts[expert] <= i) {
        if (i > start) ++block_row;
        start = i, ++expert;
      }
      if (i - start == block_rows_) start = i, ++block_row;
      rows_.push_back({block_row, i - start, 0});
    }
    for (std::size_t i = rows_.size(); i-- > 0;) {
      const bool last = i + 1 == rows_.size() || rows_[i + 1].block_row != rows_[i].block_row;
      rows_[i].block_rows = last ? rows_[i].row_in_block + 1 : rows_[i + 1].block_rows;
    }
  }

  // Values and midpoints of the element format; what lies above its largest value.
  void list_edges() {
    while (lowest_of_top_ > 0 && decode(element_, lowest_of_top_ - 1) >= two_to(top_)) --lowest_of_top_;
    for (std::uint32_t code = 0; code <= spec(element_).max_code; ++code) {
      const double value = decode(element_, code);
      edges_.push_back(value);
      if (code < spec(element_).max_code) edges_.push_back((value + decode(element_, code + 1)) / 2);
    }
    const double step = decode(element_, spec(element_).max_code) - decode(element_, spec(element_).max_code - 1);
    for (double beyond = decode(element_, spec(element_).max_code) + step / 2; beyond < two_to(top_ + 1);
         beyond += step / 2) {
      beyond_.push_back(beyond);
    }
    if (beyond_.empty()) beyond_.push_back(decode(element_, spec(element_).max_code));
    list_edge_bits();
  }

  // An edge that the wide type holds exactly, as each does that has no more significant bits, is held exactly at every
  // exponent at which it stays a normal number: its bits then move by whole exponents.
  void list_edge_bits() {
    const int bias = spec(dtype_).bias;
    lowest_moved_ = 1 - bias - std::ilogb(edges_[1]);
    highest_moved_ = bias - top_;
    for (const double edge : edges_) {
      edge_bits_.push_back(nearest_bits(dtype_, edge));
      const bool is_normal = edge == 0 || edge >= two_to(1 - bias);
      if (!is_normal || decode(dtype_, edge_bits_.back()) != edge) highest_moved_ = lowest_moved_ - 1;  // none is moved
    }
  }
  // nearest_bits(dtype_, edges_[edge] * two_to(exponent))
  [[nodiscard]] std::uint32_t bits_of_edge(std::size_t edge, int exponent) const {
    if (exponent < lowest_moved_ || exponent > highest_moved_)
      return nearest_bits(dtype_, edges_[edge] * two_to(exponent));
    return edge == 0 ? 0 : edge_bits_[edge] + (static_cast<std::uint32_t>(exponent) << mantissa_bits_);
  }

  static std::size_t edge_of(std::uint32_t code) { return std::size_t{2} * code; }  // its midpoint follows

  static int exponent_of_largest(Format element) {
    int exponent = -126;
    while (two_to(exponent + 1) <= decode(element, spec(element).max_code)) ++exponent;
    return exponent;
  }

  // The block's exponent e: mostly moderate, one in eight anywhere, one in eight at an end.
  [[nodiscard]] int block_exponent(std::int64_t block, int lowest) const {
    const int highest = (dtype_ == Format::fp16 ? 15 : 127) - top_;
    const std::uint64_t word = random_word(c_.seed ^ 0xB10C, static_cast<std::uint64_t>(block));
    const auto within = [&](std::uint64_t n) { return static_cast<int>((word >> 8) % n); };
    int e = -12 + within(20);
    if (word % 8 == 0) e = lowest + within(static_cast<std::uint64_t>(highest - lowest + 1));
    if (word % 8 == 1) e = (word & 0x10000) != 0 ? highest - within(3) : lowest + within(4);
    return std::clamp(e, lowest, highest);
  }
  [[nodiscard]] int lowest_exponent() const { return dtype_ == Format::fp16 ? -24 - top_ : -130; }
  // Below this the smallest step of the element format times 2^e is no value of the wide type.
  [[nodiscard]] int lowest_exact_exponent() const {
    const FormatSpec& f = spec(element_);
    const FormatSpec& w = spec(dtype_);
    const int element_step = f.encoding == Encoding::fixed_point ? -f.mantissa_bits : 1 - f.bias - f.mantissa_bits;
    return std::max(1 - w.bias - w.mantissa_bits - element_step, -127);
  }

  // True for one element a block, hash-chosen.
  [[nodiscard]] static bool is_chosen(const Place& p) {
    return p.row_in_block == p.words.chosen_row && p.col_in_block == p.words.chosen_col;
  }

  [[nodiscard]] std::uint32_t boundaries(const Place& p, std::uint64_t word) const {
    const int e = p.words.exponent;
    const std::uint64_t kind = p.words.kind;
    const int ulp = static_cast<int>((word >> 8 & 0xFF) % 3) - 1;
    const std::size_t edge = scaled(word, edges_.size());
    double other = -1;                // in place of the edge
    if (kind <= 2 && is_chosen(p)) {  // the edges where the scale byte changes
      other = kind == 0 ? largest_ : kind == 1 ? two_to(top_ + 1) : two_to(top_);
    } else if (kind == 3 && word % 16 == 0) {
      other = beyond_[scaled(word, beyond_.size())];  // floor saturates these
    } else if (kind == 0 && edges_[edge] == largest_) {
      // Some element among thousands would always be the largest value: below an edge the others make way for the amax.
      other = largest_ / 2;
    }
    const std::uint32_t unmoved = other < 0 ? bits_of_edge(edge, e) : nearest_bits(dtype_, other * two_to(e));
    const std::uint32_t bits = move_ulp(dtype_, unmoved, ulp);
    return (word & 1) != 0 ? bits | sign_bit(dtype_) : bits;
  }

  [[nodiscard]] std::uint32_t codes(const Place& p, std::uint64_t word) const {
    const int e = p.words.exponent;
    const bool first = p.row_in_block == 0 && p.col_in_block == 0;
    auto code = static_cast<std::uint32_t>(of_codes_.of(word >> 8));
    if (first) {  // in the largest binade
      const std::uint32_t lowest = lowest_of_top_;
      code = lowest + static_cast<std::uint32_t>((word >> 8) % (spec(element_).max_code - lowest + 1));
    }
    const std::uint32_t bits = bits_of_edge(edge_of(code), e);
    const bool no_sign = code == 0 && spec(element_).encoding == Encoding::fixed_point;  // it has no -0
    return (word & 1) != 0 && !no_sign ? bits | sign_bit(dtype_) : bits;
  }

  [[nodiscard]] int row_exponent(std::int64_t row) const {
    const int lowest = dtype_ == Format::fp16 ? -10 : -30;
    return lowest + static_cast<int>(random_word(c_.seed ^ 0x2074, static_cast<std::uint64_t>(row)) % 32);
  }
  [[nodiscard]] std::uint32_t normal(const Place& p, std::uint64_t word) const {
    const bool outlier = (mix64(word) & 0xFF) == 0;
    return nearest_bits(dtype_, four_uniforms(word) * 1.75 * two_to(p.words.exponent + (outlier ? 4 : 0)));
  }

  [[nodiscard]] std::uint32_t specials(const Place& p, std::uint64_t word) const {
    const FormatSpec& w = spec(dtype_);
    const std::uint32_t inf = w.max_code + 1;
    const std::uint32_t sign = (word >> 63) != 0 ? sign_bit(dtype_) : 0;
    const std::uint32_t subnormal = static_cast<std::uint32_t>(word) & ((std::uint32_t{1} << w.mantissa_bits) - 1);
    const std::uint32_t nan = inf | std::max<std::uint32_t>(1, subnormal);
    const auto ordinary = [&] { return sign | nearest_bits(dtype_, 1 + static_cast<double>(word & 0xFF)); };
    switch (p.words.kind) {
      case 0: return 0;
      case 1: return sign_bit(dtype_);
      case 2: return sign;
      case 3: return is_chosen(p) ? sign | nan : ordinary();
      case 4: return is_chosen(p) ? sign | inf : ordinary();
      case 5: return is_chosen(p) ? sign | inf : (word % 8 == 0 ? sign | nan : ordinary());
      case 6: return sign | subnormal;
      case 7: return sign | (w.max_code - static_cast<std::uint32_t>(word % 4));
      case 8: return sign | ((std::uint32_t{1} << w.mantissa_bits) - 1 + static_cast<std::uint32_t>(word % 3));
      case 9: return sign | nan;
      case 10: return sign | static_cast<std::uint32_t>(word % 4);
      case 11: return is_chosen(p) ? sign | (w.max_code - 1) : sign | subnormal;
      default: return ordinary();
    }
  }

  [[nodiscard]] int slot_exponent(std::int64_t block) const {
    // 7 and 5: neighbours differ to the right and below, whatever the number of blocks in a row.
    const std::int64_t slot = block % blocks_across_ * 7 + block / blocks_across_ * 5;
    return -10 + static_cast<int>((slot + static_cast<std::int64_t>(c_.seed % 16)) % 16);
  }
  [[nodiscard]] std::uint32_t slots(const Place& p, std::int64_t j) const {
    const auto number = static_cast<std::uint64_t>(p.row_in_block * 37 + p.col_in_block);
    const bool first = p.row_in_block == 0 && p.col_in_block == 0;
    const auto code = first ? spec(element_).max_code : static_cast<std::uint32_t>(of_codes_below_top_.of(number));
    const std::uint32_t bits = bits_of_edge(edge_of(code), p.words.exponent);
    return (j & 1) != 0 ? bits | sign_bit(dtype_) : bits;
  }

  [[nodiscard]] std::uint32_t every_bf16(std::int64_t i, std::int64_t j) const {
    const int byte = static_cast<int>(i / kEveryBf16RowsPerByte % kEveryBf16Bytes);
    const double pin = largest_ * two_to(byte - 127);
    if (j % 32 == 31) return nearest_bits(dtype_, pin);
    const std::int64_t pattern = 31 * (i % kEveryBf16RowsPerByte) + j % 32;
    if (pattern > 0xFFFF) return 0;
    const double value = decode(Format::bf16, static_cast<std::uint32_t>(pattern));
    const bool below_pin = value <= pin && value >= -pin;  // false for NaN
    return below_pin ? nearest_bits(dtype_, value) : 0;
  }

  const Case& c_;
  Format dtype_;
  Format element_;
  int top_;                      // exponent of the element format's largest value
  double largest_;               // that value
  std::uint32_t lowest_of_top_;  // the lowest code of its binade
  Remainder of_codes_;
  Remainder of_codes_below_top_;
  int mantissa_bits_;  // of the wide type
  std::int64_t block_rows_;
  std::int64_t block_cols_;
  std::int64_t blocks_across_;
  std::vector<Row> rows_;                 // of a case with experts
  std::vector<double> edges_;             // values and midpoints of the element format
  std::vector<std::uint32_t> edge_bits_;  // in the wide type
  int lowest_moved_ = 0;                  // exponents at which an edge is edge_bits_, moved
  int highest_moved_ = -1;
  std::vector<double> beyond_;  // above its largest value, below the next power of two
  RealWindow window_;
};

}  // namespace

Input expand(const Case& c) {
  const InPhase drawing(Phase::tensors);
  if ((c.data == Data::every_amax || c.data == Data::every_word) && c.variant.dtype == Format::fp16) {
    throw Error(ErrorKind::usage, "case field data=every_amax and every_word are for x=fp32 and x=bf16");
  }
  const Expander expander(c);
  return expand_input_by_row(c, [&](std::int64_t i, std::uint32_t* to) { expander.fill_row(i, to); });
}

std::vector<std::uint8_t> expand_codes(const Case& c) {
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(c.elements()));
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  const std::uint64_t all = std::uint64_t{1} << std::min(8, spec(v.format).bits);
  const std::int64_t height = v.block.height(c.rows);
  const std::int64_t width = v.block.width(c.cols);
  const std::int64_t blocks_across = (c.cols + width - 1) / width;
  for (std::size_t at = 0; at < codes.size(); ++at) {
    if (c.data == Data::zeros) break;
    std::uint64_t code = random_word(c.seed ^ 0xC0DE, at);
    if (c.data == Data::slots) {
      const std::int64_t i = static_cast<std::int64_t>(at) / c.cols;
      const std::int64_t j = static_cast<std::int64_t>(at) % c.cols;
      const std::int64_t block = i / height * blocks_across + j / width;
      code = static_cast<std::uint64_t>(i % height * width + j % width + block / 256 * height * width);
    }
    codes[at] = static_cast<std::uint8_t>(code % all);
  }
  for (const Plant& p : c.plants)
    codes[static_cast<std::size_t>(p.row * c.cols + p.col)] = static_cast<std::uint8_t>(p.bits);
  return codes;
}

std::vector<std::uint8_t> expand_scale_bytes(const Case& c, std::int64_t count) {
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(count), 127);
  for (std::size_t i = 0; i < scales.size() && c.data != Data::zeros; ++i) {
    if (c.data == Data::slots) {
      scales[i] = static_cast<std::uint8_t>(i);
      continue;
    }
    const std::uint64_t word = random_word(c.seed ^ 0x5CA1E, i);
    constexpr std::uint8_t kExtremes[] = {0, 1, 2, 126, 127, 128, 253, 254, 255};
    const bool extreme = word % 4 == 0;
    const bool moderate = word % 4 == 1;
    scales[i] = extreme    ? kExtremes[(word >> 8) % std::size(kExtremes)]
                : moderate ? static_cast<std::uint8_t>(110 + (word >> 8) % 34)
                           : static_cast<std::uint8_t>(word >> 8);
  }
  return scales;
}

}  // namespace mxcheck
