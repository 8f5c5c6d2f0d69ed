// Rows about scales: another amax, another byte, another place, another layout.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "numerics/bytes.h"
#include "numerics/format/codec.h"
#include "properties/operations/scaled_blocks/definitions.h"

namespace mxcheck {
namespace {

// x with a change to each element, quantized again.
using Change = std::function<float(float value, std::int64_t row, std::int64_t col)>;
Bytes scales_with(const BlocksProblem& p, const Change& change) {
  std::vector<float> x(static_cast<std::size_t>(p.rows() * p.cols()));
  for (std::int64_t i = 0; i < std::ssize(x); ++i)
    x[static_cast<std::size_t>(i)] = change(p.at(i), i / p.cols(), i % p.cols());
  const MatrixView changed{Format::fp32, std::as_bytes(std::span(x)).data(), p.rows(), p.cols(), p.cols()};
  return quantize(changed, p.element, p.block, p.recipe, p.offsets).scales().data;
}

// Blocks begin where they should, and end after as many rows as a block has, whatever the expert.
Bytes scales_across_ends(const BlocksProblem& p) {
  const std::vector<std::int64_t> starts = block_row_starts(p.rows(), p.block.rows, p.offsets);
  Bytes bytes;
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
    MatrixView block = p.view();
    block.data += static_cast<std::size_t>(starts[s] * p.cols()) * size_of(p.x.format);
    block.rows = std::min(p.block.rows, p.rows() - starts[s]);
    const Bytes scales = quantize(block, p.element, p.block, p.recipe).scales().data;
    bytes.insert(bytes.end(), scales.begin(), scales.end());
  }
  return bytes;
}

float rounded(Format format, float value) {
  if (std::isnan(value)) return value;
  return static_cast<float>(decode(format, encode(format, value, Rounding::nearest_even, Overflow::non_saturate)));
}

class ScaleRows {
 public:
  ScaleRows(const BlocksProblem& p, std::size_t output) : p_(p), output_(output) {}

  void clamps();
  void bytes();
  void limits();
  void quotients();
  void blocks_of_zeros();
  void amaxes();
  void amaxes_of_part_of_a_block();
  void coarser_blocks();
  void places();
  Table take() { return std::move(all_); }

 private:
  void add(const std::string& name, std::function<Bytes()> bytes) {
    all_.push_back(definition_of_output(output_, name, std::move(bytes)));
  }
  void of_changed_x(const std::string& name, Change change) {
    add(name, [&p = p_, change = std::move(change)] { return scales_with(p, change); });
  }
  void of_values(const std::string& name, float (*change)(float)) {
    of_changed_x(name, [change](float v, std::int64_t, std::int64_t) { return change(v); });
  }
  // An amax without the elements whose place is so.
  void without(const std::string& name, const std::function<bool(std::int64_t row, std::int64_t col)>& out) {
    of_changed_x(name, [out](float v, std::int64_t i, std::int64_t j) { return out(i, j) ? 0.0F : v; });
  }
  // Each byte of the expected scales through a function: what was done to a scale that was right before.
  void mapped(const std::string& name, std::function<int(int)> map) {
    add(name, [&p = p_, map = std::move(map)] {
      Bytes bytes = p.expected.scales().data;
      for (std::byte& b : bytes) b = static_cast<std::byte>(map(std::to_integer<int>(b)));
      return bytes;
    });
  }
  // The same, of each block's amax too.
  void of_amaxes(const std::string& name, std::function<int(float amax, int byte)> map) {
    add(name, [&p = p_, map = std::move(map)] {
      const std::vector<float> amaxes = p.amaxes();
      Bytes bytes = p.expected.scales().data;
      for (std::size_t i = 0; i < std::min(bytes.size(), amaxes.size()); ++i)
        bytes[i] = static_cast<std::byte>(map(amaxes[i], std::to_integer<int>(bytes[i])));
      return bytes;
    });
  }
  // The expected scales, each taken from another place; one whose place is not there is as it should be.
  template <class From>
  void moved(const std::string& name, From from) {
    add(name, [&p = p_, from] {
      const Bytes& right = p.expected.scales().data;
      const std::int64_t count = p.expected.scale_rows() * p.expected.scale_cols();
      if (count == 0) return Bytes{};
      const std::size_t width = right.size() / static_cast<std::size_t>(count);
      Bytes bytes = right;
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t source = from(i / p.expected.scale_cols(), i % p.expected.scale_cols());
        if (source < 0 || source >= count) continue;
        std::memcpy(bytes.data() + static_cast<std::size_t>(i) * width,
                    right.data() + static_cast<std::size_t>(source) * width, width);
      }
      return bytes;
    });
  }
  void coarser(const std::string& name, std::int64_t row_blocks, std::int64_t col_blocks);

  const BlocksProblem& p_;
  std::size_t output_;
  Table all_;
};

void ScaleRows::clamps() {
  constexpr std::pair<float, const char*> kClamps[] = {{1e-4F, "1e-4"},
                                                       {1e-5F, "1e-5"},
                                                       {1e-6F, "1e-6"},
                                                       {1e-7F, "1e-7"},
                                                       {1e-8F, "1e-8"},
                                                       {1e-10F, "1e-10"},
                                                       {1e-12F, "1e-12"},
                                                       {0x1p-23F, "2^-23 (FP32's epsilon)"},
                                                       {0x1p-126F, "2^-126 (FP32's smallest normal)"},
                                                       {1e-3F, "1e-3"},
                                                       {1e-2F, "1e-2"},
                                                       {1.0F, "1"}};
  for (const auto& [clamp, text] : kClamps) {
    Recipe clamped = p_.recipe;
    clamped.amax_min = std::max(clamp, clamped.amax_min);
    add(std::string("an amax raised to at least ") + text,
        [&p = p_, clamped] { return quantize(p.view(), p.element, p.block, clamped, p.offsets).scales().data; });
  }
}

void ScaleRows::bytes() {
  if (p_.expected.scales().format != Format::e8m0 || p_.expected.scales().empty()) return;
  mapped("a byte of 1 written as 0", [](int b) { return b == 1 ? 0 : b; });
  of_amaxes("a smallest byte of 1, but for blocks of zeros",
            [](float amax, int b) { return amax == 0 ? b : std::max(b, 1); });
  for (const int by : {1, -1, 2, -2, 8, -8}) {
    const std::string count = std::to_string(std::abs(by));
    const std::string how = count + (std::abs(by) == 1 ? " binade" : " binades") +
                            (by > 0 ? " too large (byte + " : " too small (byte - ") + count + ")";
    const auto moved_by = [by](int b) { return b == 255 ? 255 : std::clamp(b + by, 0, 254); };
    mapped("a scale " + how, moved_by);
    of_amaxes("a scale " + how + ", but for blocks of zeros",
              [moved_by](float amax, int b) { return amax == 0 ? b : moved_by(b); });
  }
  mapped("the reciprocal of the scale (254 - byte)", [](int b) { return b == 255 ? 255 : 254 - b; });
  mapped("an exponent without its bias of 127", [](int b) { return (b - 127) & 0xFF; });
  mapped("a scale of 1 (byte 127) everywhere", [](int) { return 127; });
  mapped("NaN scales (byte 255) written as 254", [](int b) { return std::min(b, 254); });
  mapped("NaN scales (byte 255) written as 0", [](int b) { return b == 255 ? 0 : b; });
  mapped("scales of blocks of zeros (byte 0) written as 1 (byte 127)", [](int b) { return b == 0 ? 127 : b; });
  if (p_.own_scales && !p_.own_scales->empty()) {  // a clamp that no preset has
    const std::span<const std::uint8_t> own = std::as_const(*p_.own_scales).as<std::uint8_t>();
    const auto [low, high] = std::minmax_element(own.begin(), own.end());
    const int least = *low, most = *high;
    // Several scales at the clamp, and others that are not: of one scale any row of these would give all.
    const auto is_clamp = [&](int byte) { return least != most && std::ranges::count(own, byte) > 1; };
    if (is_clamp(least) && least != 1) {
      mapped("a smallest byte of " + std::to_string(least) + " (an amax or a scale raised to a least value)",
             [least](int b) { return std::max(b, least); });
    }
    if (is_clamp(most)) {
      mapped("a largest byte of " + std::to_string(most) + " (an amax or a scale cut to a largest value)",
             [most](int b) { return std::min(b, most); });
    }
  }
  if (p_.recipe.rule == ScaleRule::rceil) limits();
  if (p_.recipe.rule != ScaleRule::fp32) {
    // The rule as if each amax were an ulp larger: what rounds up only above a limit rounds up at it too.
    of_values("rounding up at a limit, where only what is above it is rounded up",
              [](float v) { return std::isfinite(v) && v != 0 ? std::nextafter(v, std::copysign(INFINITY, v)) : v; });
  }
  mapped("a smallest byte of 1", [](int b) { return std::max(b, 1); });
  mapped("zeros that nobody wrote over", [](int) { return 0; });
}

// amax / largest value lies above a power of two where the significand of amax is above that of the largest value.
void ScaleRows::limits() {
  const float largest = largest_value(p_.element);
  const auto due = static_cast<double>(std::ldexp(largest, -std::ilogb(largest)));
  for (const double limit : {1.0, 1.25, 1.5, 1.75, 1.875, 1.9375}) {
    if (limit == due) continue;
    of_amaxes(fmt::format("rounding up above a significand of {}, where that above {} is due", limit, due),
              [limit, emax = std::ilogb(largest)](float amax, int b) {
                if (!std::isfinite(amax) || amax == 0) return b;
                const int exponent = std::ilogb(amax);
                const bool is_above = std::ldexp(double{amax}, -exponent) > limit;
                return std::clamp(exponent - emax + 127 + (is_above ? 1 : 0), 0, 254);
              });
  }
}

// Scales of FP32: a quotient that is made otherwise.
void ScaleRows::quotients() {
  const Tensor& right = p_.expected.scales();
  if (right.format != Format::fp32 || right.empty()) return;
  const auto of = [&](const char* name, float (*scale)(float amax, float largest)) {
    add(name, [&p = p_, scale] {
      Bytes bytes;
      for (const float amax : p.amaxes()) {
        const float right_scale = scale(amax, largest_value(p.element));
        const auto* const word = reinterpret_cast<const std::byte*>(&right_scale);
        bytes.insert(bytes.end(), word, word + sizeof(float));
      }
      return bytes;
    });
  };
  of("amax times the rounded reciprocal of the largest value, where the quotient is due",
     [](float amax, float largest) { return amax == 0 ? 1.0F : amax * (1.0F / largest); });
  of("the reciprocal of the scale (largest value / amax)",
     [](float amax, float largest) { return amax == 0 ? 1.0F : largest / amax; });
  of("amax itself, not divided by the largest value", [](float amax, float) { return amax == 0 ? 1.0F : amax; });
  of("a quotient cut to BF16", [](float amax, float largest) {
    const float quotient = amax == 0 ? 1.0F : amax / largest;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(quotient) & 0xFFFF0000U);
  });
}

// Blocks of zeros with a scale of the candidate's own choice, one for all of them.
void ScaleRows::blocks_of_zeros() {
  if (!p_.own_scales) return;
  add("one other scale for every block of zeros", [&p = p_] {
    const std::vector<float> amaxes = p.amaxes();
    const std::size_t width = size_of(p.own_scales->format);
    Bytes bytes = p.expected.scales().data;
    const std::byte* other = nullptr;
    for (std::size_t i = 0; i < amaxes.size() && i * width < bytes.size(); ++i) {
      const std::byte* const own = p.own_scales->data.data() + i * width;
      if (amaxes[i] != 0) continue;
      if (other == nullptr && std::memcmp(own, bytes.data() + i * width, width) != 0) other = own;
    }
    for (std::size_t i = 0; other != nullptr && i < amaxes.size() && i * width < bytes.size(); ++i) {
      if (amaxes[i] == 0) std::memcpy(bytes.data() + i * width, other, width);
    }
    return other == nullptr ? Bytes{} : bytes;
  });
}

void ScaleRows::amaxes() {
  of_values("a maximum without absolute values (negative elements not counted)",
            [](float v) { return v > 0 || std::isnan(v) ? v : 0; });
  of_values("a minimum in place of the largest magnitude (positive elements not counted)",
            [](float v) { return v < 0 || std::isnan(v) ? v : 0; });
  of_values("an amax that leaves out NaN", [](float v) { return std::isnan(v) ? 0 : v; });
  of_values("an amax that leaves out infinities", [](float v) { return std::isinf(v) ? 0 : v; });
  of_values("an amax of x rounded to BF16 first", [](float v) { return rounded(Format::bf16, v); });
  of_values("an amax of x rounded to FP16 first", [](float v) { return rounded(Format::fp16, v); });
  of_values("an amax with subnormal inputs flushed to zero", [](float v) { return std::fabs(v) < 0x1p-126F ? 0 : v; });
  amaxes_of_part_of_a_block();
  const std::int64_t rows = p_.rows(), cols = p_.cols();
  const std::int64_t whole_cols = p_.block.cols > 0 ? cols / p_.block.cols * p_.block.cols : cols;
  if (whole_cols < cols) {
    without("an amax that leaves out the ragged last columns", [=](auto, auto j) { return j >= whole_cols; });
  }
  if (whole_cols < cols)
    without("an amax that leaves out the last column of a cut block", [=](auto, auto j) { return j == cols - 1; });
  without("an amax that leaves out the last row", [=](auto i, auto) { return i == rows - 1; });
  without("an amax that leaves out the last column", [=](auto, auto j) { return j == cols - 1; });
}

void ScaleRows::amaxes_of_part_of_a_block() {
  const std::int64_t n = p_.block.rows == 1 ? p_.block.cols : p_.block.rows;
  if (n <= 1) return;
  const auto starts = block_row_starts(p_.rows(), p_.block.rows, p_.offsets);
  const auto place = [n, along_cols = p_.block.rows == 1, starts](auto i, auto j) {
    return along_cols ? j % n : i - *std::prev(std::ranges::upper_bound(starts, i));
  };
  without("an amax that leaves out each block's last element", [=](auto i, auto j) { return place(i, j) == n - 1; });
  without("an amax that leaves out each block's first element", [=](auto i, auto j) { return place(i, j) == 0; });
  if (p_.block.cols == 1 && starts.size() > 1) {
    without("an amax that leaves out the last row of each block, cut ones too",
            [starts](auto i, auto) { return std::ranges::binary_search(starts, i + 1); });
  }
  if (n > 32) without("an amax over the first 32 of each block", [=](auto i, auto j) { return place(i, j) >= 32; });
  without("an amax over three quarters of each block", [=](auto i, auto j) { return place(i, j) >= n / 4 * 3; });
  without("an amax over the first half of each block", [=](auto i, auto j) { return place(i, j) >= n / 2; });
  without("an amax over the second half of each block", [=](auto i, auto j) { return place(i, j) < n / 2; });
  without("an amax over every other element", [=](auto i, auto j) { return place(i, j) % 2 == 1; });
}

// One scale for more than a block, the largest of theirs; 0 blocks: all. Rows of blocks of an expert are its own.
void ScaleRows::coarser(const std::string& name, std::int64_t row_blocks, std::int64_t col_blocks) {
  add(name, [&p = p_, row_blocks, col_blocks] {
    const QuantizedTensor& q = p.expected;
    const std::int64_t all_rows = q.scale_rows(), all_cols = q.scale_cols();
    const std::int64_t cols = col_blocks == 0 ? std::max<std::int64_t>(1, all_cols) : col_blocks;
    const std::vector<std::int64_t> starts = block_row_starts(p.rows(), p.block.rows, p.offsets);
    const auto expert = [&](std::int64_t row) {
      return std::ranges::upper_bound(p.offsets, starts[static_cast<std::size_t>(row)]) - p.offsets.begin();
    };
    Tensor scales = q.scales();
    for (std::int64_t first = 0, end = 0; first < all_rows; first = end) {
      for (end = first;
           end < all_rows && expert(end) == expert(first) && (row_blocks == 0 || end < first + row_blocks);)
        ++end;
      for (std::int64_t left = 0; left < all_cols; left += cols) {
        const std::int64_t right = std::min(all_cols, left + cols);
        std::uint32_t largest = 0;
        const auto each = [&, first = first, end = end](auto visit) {
          for (std::int64_t r = first; r < end; ++r) {
            for (std::int64_t c = left; c < right; ++c) visit(static_cast<std::size_t>(r * all_cols + c));
          }
        };
        each([&](std::size_t at) { largest = std::max(largest, q.scales().code(at)); });
        each([&](std::size_t at) {
          std::memcpy(scales.data.data() + at * size_of(scales.format), &largest, size_of(scales.format));
        });
      }
    }
    return scales.data;
  });
}

void ScaleRows::coarser_blocks() {
  if (!p_.offsets.empty()) {
    add("blocks that do not restart at the experts' offsets",
        [&p = p_] { return quantize(p.view(), p.element, p.block, p.recipe).scales().data; });
    add("an expert's last block with the amax of rows of the next one too",
        [&p = p_] { return scales_across_ends(p); });
    coarser("one amax for each expert's rows of blocks", 0, 1);
  }
  coarser("one amax for the whole tensor", 0, 0);
  coarser("one amax for each row of blocks", 1, 0);
  coarser("one amax for each column of blocks", 0, 1);
  coarser("one amax for every two blocks along a row", 1, 2);
  coarser("one amax for every four blocks along a row", 1, 4);
  coarser("one amax for every two blocks along a column", 2, 1);
  coarser("one amax for every four blocks along a column", 4, 1);
  coarser("one amax for 32 rows of blocks (32x32 or 128x128 blocks)", 32, 1);
  coarser("one amax for 128 rows and 4 columns of blocks", 128, 4);
}

void ScaleRows::places() {
  const std::int64_t rows = p_.expected.scale_rows(), cols = p_.expected.scale_cols();
  moved("the transposed scales, written in the order of columns",
        [=](auto i, auto j) { return (i * cols + j) % rows * cols + (i * cols + j) / rows; });
  moved("the first block's scale in every block", [](auto, auto) { return std::int64_t{0}; });
  moved("the first scale of its row in every block", [=](auto i, auto) { return i * cols; });
  moved("the scale of the block before", [=](auto i, auto j) { return i * cols + j - 1; });
  moved("the scale of the block after", [=](auto i, auto j) { return i * cols + j + 1; });
  moved("the scale of the row before", [=](auto i, auto j) { return (i - 1) * cols + j; });
  moved("the scale of the row after", [=](auto i, auto j) { return (i + 1) * cols + j; });
}

}  // namespace

Table scale_rows(const BlocksProblem& p, std::size_t output) {
  ScaleRows rows(p, output);
  rows.clamps();
  rows.bytes();
  rows.quotients();
  rows.blocks_of_zeros();
  rows.amaxes();
  rows.coarser_blocks();
  rows.places();
  return rows.take();
}

std::vector<std::int64_t> BlocksProblem::scale_index() const {
  std::vector<std::int64_t> index(static_cast<std::size_t>(rows() * cols()));
  const std::vector<std::int64_t> starts = block_row_starts(rows(), block.rows, offsets);
  const std::int64_t block_cols = block.cols == 0 ? std::max<std::int64_t>(1, cols()) : block.cols;
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
    for (std::int64_t i = starts[s]; i < starts[s + 1]; ++i) {
      for (std::int64_t j = 0; j < cols(); ++j) {
        index[static_cast<std::size_t>(i * cols() + j)] =
            static_cast<std::int64_t>(s) * ((cols() + block_cols - 1) / block_cols) + j / block_cols;
      }
    }
  }
  return index;
}

std::vector<float> BlocksProblem::amaxes() const {
  const std::vector<std::int64_t> index = scale_index();
  const std::int64_t blocks = index.empty() ? 0 : std::ranges::max(index) + 1;
  std::vector<float> amaxes(static_cast<std::size_t>(blocks));
  for (std::size_t i = 0; i < index.size(); ++i) {
    float& amax = amaxes[static_cast<std::size_t>(index[i])];
    const float value = std::fabs(at(static_cast<std::int64_t>(i)));
    if (!(value <= amax) && !std::isnan(amax)) amax = value;
  }
  return amaxes;
}

// Layouts of tcgen05 and of DeepGEMM: scales put in another place than where hardware reads them.

namespace {

// Tiles of 128 x 4 in which a byte's place is another function of row and column than it should be.
template <class Offset>
Bytes tiles_with(const Tensor& scales, std::int64_t rows, std::int64_t cols, std::uint8_t pad, Offset offset) {
  const auto compact = scales.as<std::uint8_t>();
  const std::int64_t size = layout_bytes(ScaleLayout::tcgen05, {{rows}, cols});
  Bytes tiles(static_cast<std::size_t>(size), static_cast<std::byte>(pad));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const std::int64_t at = offset(i, j);
      if (at < 0 || at >= size) continue;
      tiles[static_cast<std::size_t>(at)] = static_cast<std::byte>(compact[static_cast<std::size_t>(i * cols + j)]);
    }
  }
  return tiles;
}

// Scales put in a layout, for the closures of rows.
struct Layout {
  const BlocksProblem& p;
  ScaleLayout layout;
  ScaleShape shape;

  [[nodiscard]] Bytes of(const Tensor& compact, const ScaleShape& as, std::uint8_t pad) const {
    return to_bytes(to_layout(layout, as, compact.as<std::uint8_t>(), pad));
  }
  [[nodiscard]] Bytes of(const Tensor& compact) const { return of(compact, shape, p.pad_byte); }
  [[nodiscard]] const Tensor& scales() const { return p.expected.scales(); }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(layout_bytes(layout, shape)); }
};

class LayoutRows {
 public:
  LayoutRows(const BlocksProblem& p, ScaleLayout layout, std::size_t output)
      : p_(p), l_{p, layout, scale_shape(p.expected, p.offsets)}, output_(output) {}

  void padding();
  void tiles();
  void shapes();
  Table take() { return std::move(all_); }

 private:
  void add(const std::string& name, std::function<Bytes()> bytes, bool derived = false) {
    all_.push_back(definition_of_output(output_, name, std::move(bytes), "", derived));
  }
  template <class Offset>
  void tiled(const std::string& name, Offset offset) {
    add(name, [&p = p_, offset] {
      const QuantizedTensor& q = p.expected;
      return tiles_with(q.scales(), q.scale_rows(), q.scale_cols(), p.pad_byte, offset);
    });
  }

  const BlocksProblem& p_;
  Layout l_;
  std::size_t output_;
  Table all_;
};

void LayoutRows::padding() {
  const std::uint8_t own = p_.pad_byte;
  if (p_.own_scales) {
    add(
        "the layout is right for the candidate's own scales: only those are wrong",
        [l = l_] { return l.of(*l.p.own_scales); }, true);
  }
  for (const std::uint8_t pad : std::initializer_list<std::uint8_t>{0, 1, 127, 254, 255}) {
    if (pad == own) continue;
    add("padding of " + std::to_string(pad) + " in place of " + std::to_string(own),
        [l = l_, pad] { return l.of(l.scales(), l.shape, pad); });
  }
  for (const std::uint8_t pad : {own, std::uint8_t{0}}) {
    add("compact scales, copied without changing their layout", [l = l_, pad] {
      Bytes bytes = l.scales().data;
      bytes.resize(l.bytes(), static_cast<std::byte>(pad));
      return bytes;
    });
  }
}

void LayoutRows::tiles() {
  if (l_.layout != ScaleLayout::tcgen05 || l_.shape.rows_of_expert.size() != 1 || p_.expected.block().rows != 1) return;
  const std::int64_t rows = p_.expected.scale_rows();
  const std::int64_t across = (p_.expected.scale_cols() + 3) / 4, down = (rows + 127) / 128;
  tiled("tiles in the order of columns", [=](std::int64_t i, std::int64_t j) {
    return (j / 4 * down + i / 128) * 512 + i % 32 * 16 + i % 128 / 32 * 4 + j % 4;
  });
  tiled("tiles without the interleaving of rows 0, 32, 64, 96",
        [=](std::int64_t i, std::int64_t j) { return (i / 128 * across + j / 4) * 512 + i % 128 * 4 + j % 4; });
  const std::int64_t rounded_down = std::max<std::int64_t>(1, p_.expected.scale_cols() / 4);
  if (rounded_down != across) {
    tiled("a pitch of tiles that is rounded down",
          [down_cols = p_.expected.scale_cols() / 4](std::int64_t i, std::int64_t j) {
            return (i / 128 * down_cols + j / 4) * 512 + i % 32 * 16 + i % 128 / 32 * 4 + j % 4;
          });
  }
  tiled("rows padded to 4 columns, and no tiles", [=](std::int64_t i, std::int64_t j) { return i * across * 4 + j; });
  tiled("tiles with rows and columns of the inner 32 x 16 exchanged", [=](std::int64_t i, std::int64_t j) {
    return (i / 128 * across + j / 4) * 512 + (i % 128 / 32 * 4 + j % 4) * 32 + i % 32;
  });
}

void LayoutRows::shapes() {
  const std::int64_t rows = p_.expected.scale_rows(), cols = p_.expected.scale_cols();
  if (l_.shape.rows_of_expert.size() == 1) {
    add("the layout of the scales without transposing them", [=, l = l_] {
      return l.of(l.scales(), {{rows}, cols}, l.p.pad_byte);
    });
    add("the layout of the transposed scales", [=, l = l_] {
      return l.of(transposed(l.scales()), {{cols}, rows}, l.p.pad_byte);
    });
  } else {
    add("one layout of all rows, not one for each expert", [=, l = l_] {
      return l.of(l.scales(), {{rows}, cols, l.p.expected.block()}, l.p.pad_byte);
    });
  }
  if (l_.layout == ScaleLayout::deepgemm) {
    add("words with their bytes in the opposite order", [l = l_] {
      Bytes bytes = l.of(l.scales());
      for (std::size_t i = 0; i + 3 < bytes.size(); i += 4)
        std::swap(bytes[i], bytes[i + 3]), std::swap(bytes[i + 1], bytes[i + 2]);
      return bytes;
    });
  }
  add("zeros that nobody wrote over", [size = l_.bytes()] { return Bytes(size); });
}

}  // namespace

Table layout_table(const BlocksProblem& p, ScaleLayout layout, std::size_t output) {
  if (!has_layout(layout, p.expected.block())) return {};
  LayoutRows rows(p, layout, output);
  rows.padding();
  rows.tiles();
  rows.shapes();
  return rows.take();
}

}  // namespace mxcheck
