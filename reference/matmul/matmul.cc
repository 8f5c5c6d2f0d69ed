#include "reference/matmul/matmul.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "reference/accumulate/accumulate.h"
#include "reference/accumulate/exact_tile.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"
#include "reference/matmul/operand.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kPrepared = 64;  // rows of A that a thread prepares at a time
constexpr std::int64_t kColumns = 256;  // of D, that it computes at a time

// One operand: packed, or, for exact sums of codes times scales, as values with the scales in them.
struct Prepared {
  std::optional<PackedOperand> packed;
  std::optional<ExactRows> scaled;
};

bool scales_are_exact(const Matmul& p) {
  return p.contract.sum->arithmetic == Arithmetic::exact && !p.contract.decodes && (p.a.scaled() || p.b.scaled());
}

Prepared prepare(const Matmul& matmul, const OperandWindow& w, int threads) {
  const MatmulContract& c = matmul.contract;
  Prepared p;
  if (scales_are_exact(matmul)) {
    p.scaled.emplace(w.rows, w.depth);
    std::vector<double> values(static_cast<std::size_t>(w.depth));
    for (std::int64_t i = 0; i < w.rows; ++i) {
      const std::vector<Factor> factors = exact_factors(w, i);
      std::transform(factors.begin(), factors.end(), values.begin(), value_of);
      p.scaled->set_row(i, values);
    }
    return p;
  }
  const auto pack = [&](Format format, const void* codes) {
    OperandSource source{codes, w.rows, w.depth, w.depth};
    std::vector<std::uint8_t> scales;
    if (c.sum->scale_terms != 0) {
      for (std::int64_t i = 0; i < w.rows; ++i) {
        const std::vector<std::uint8_t> row = step_scales(w, i, c.sum->scale_terms);
        scales.insert(scales.end(), row.begin(), row.end());
      }
      static constexpr std::uint8_t kNone = 0;  // a group of no depth has scales too, none of them
      source.scales = scales.empty() ? &kNone : scales.data();
      source.scale_row_stride = ceil_div(w.depth, c.sum->scale_terms);
      source.scale_format = w.operand->scale_format;
    }
    p.packed.emplace(*c.sum, format, source, threads);
  };
  if (c.decodes) {
    pack(Format::bf16, decoded_bf16(w).data());
  } else if (c.sum->arithmetic == Arithmetic::ieee_fp32 && (matmul.a.scaled() || matmul.b.scaled())) {
    pack(Format::fp32, decoded_fp32(w).data());
  } else {
    pack(w.operand->format, gathered_codes(w).data());
  }
  return p;
}

template <Format kOutput>
std::uint32_t finished(const Matmul& p, std::uint32_t acc, std::uint32_t c, bool adds_c) {
  const Contract& sum = *p.contract.sum;
  const bool halves = sum.arithmetic == Arithmetic::fused && sum.step.output.c == Format::fp16;
  float value = halves ? static_cast<float>(decode(Format::fp16, acc)) : std::bit_cast<float>(acc);
  value = p.alpha * value;
  if (adds_c) value = value + static_cast<float>(decode(kOutput, c));
  if (std::isnan(value)) return kOutput == Format::fp32 ? 0x7FFFFFFF : 0x7FFF;
  if (kOutput == Format::fp32) return std::bit_cast<std::uint32_t>(value);
  return detail::encode_with(spec(kOutput), value, Rounding::nearest_even, Overflow::non_saturate, 0);
}

// A tile of sums: rows [0, rows) of the panel by columns [j0, j1) of B.
class Tile {
 public:
  Tile(const Matmul& p, const MatmulPart& part, std::int64_t row0, std::int64_t rows)
      : p_(p), part_(part), row0_(row0), rows_(rows), a_window_(part.a.rows_from(row0, rows)) {
    a_ = prepare(p, a_window_, 1);
  }

  void compute(const Prepared& b, std::int64_t j0, std::int64_t j1, std::byte* d) {
    j0_ = j0, width_ = j1 - j0;
    acc_.assign(static_cast<std::size_t>(rows_ * width_), 0);
    if (p_.contract.from_c) start_from_c();
    if (scales_are_exact(p_)) {
      exact_tile(*a_.scaled, {0, rows_}, *b.scaled, {j0_, j0_ + width_}, {0, part_.a.depth}, acc_.data(), width_);
    } else if (p_.contract.promotion != 0) {
      promoted(b);
    } else {
      chain(b, acc_, 0, part_.a.depth);
    }
    finish(d);
  }

 private:
  [[nodiscard]] std::int64_t at(std::int64_t i, std::int64_t j) const {
    return part_.d_first + (row0_ + i) * part_.b.rows + j0_ + j;
  }

  void start_from_c() {
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < width_; ++j) acc_[static_cast<std::size_t>(i * width_ + j)] = word_of_c(at(i, j));
    }
  }
  [[nodiscard]] std::uint32_t word_of_c(std::int64_t index) const {
    std::uint32_t word = 0;
    const std::size_t width = code_width(p_.output);
    std::memcpy(&word, static_cast<const std::byte*>(p_.c) + index * static_cast<std::int64_t>(width), width);
    return word;
  }

  // k in [begin, end): in one chain, or step by step from the end.
  void chain(const Prepared& b, std::vector<std::uint32_t>& acc, std::int64_t begin, std::int64_t end) {
    const Contract& sum = *p_.contract.sum;
    const auto run = [&](std::int64_t from, std::int64_t to) {
      accumulate_tile(*a_.packed, {0, rows_}, *b.packed, {j0_, j0_ + width_}, {from, to}, acc.data(), width_);
    };
    if (!p_.contract.descending || p_.contract.promotion != 0) return begin < end ? run(begin, end) : void();
    const std::int64_t terms = sum.step.terms;
    for (std::int64_t step = ceil_div(end - begin, terms); step-- > 0;) {
      run(begin + step * terms, std::min(end, begin + (step + 1) * terms));
    }
  }

  void promoted(const Prepared& b) {
    const std::int64_t interval = p_.contract.promotion;
    const std::int64_t intervals = ceil_div(part_.a.depth, interval);
    std::vector<std::uint32_t> partial(acc_.size());
    std::vector<float> scale_b(static_cast<std::size_t>(width_));
    for (std::int64_t n = 0; n < intervals; ++n) {
      const std::int64_t k = (p_.contract.descending ? intervals - 1 - n : n) * interval;
      std::fill(partial.begin(), partial.end(), 0U);
      chain(b, partial, k, std::min(part_.a.depth, k + interval));
      for (std::int64_t j = 0; j < width_; ++j) scale_b[static_cast<std::size_t>(j)] = part_.b.scale(j0_ + j, k);
      for (std::int64_t i = 0; i < rows_; ++i) {
        const float scale_a = a_window_.scale(i, k);
        for (std::int64_t j = 0; j < width_; ++j) {
          const auto to = static_cast<std::size_t>(i * width_ + j);
          promote(acc_[to], std::bit_cast<float>(partial[to]), scale_a, scale_b[static_cast<std::size_t>(j)]);
        }
      }
    }
  }
  void promote(std::uint32_t& word, float sum, float scale_a, float scale_b) const {
    const auto acc = std::bit_cast<float>(word);
    float next = 0;
    switch (p_.contract.order) {
      case MatmulContract::Order::product: next = std::fma(sum, scale_a * scale_b, acc); break;
      case MatmulContract::Order::a_first: next = std::fma(sum * scale_a, scale_b, acc); break;
      case MatmulContract::Order::b_first: next = std::fma(sum * scale_b, scale_a, acc); break;
    }
    word = std::bit_cast<std::uint32_t>(next);
  }

  void finish(std::byte* d) const {
    switch (p_.output) {  // outside of the loops: the format's rounding is then constants
      case Format::fp32: return finish_in<Format::fp32, std::uint32_t>(d);
      case Format::bf16: return finish_in<Format::bf16, std::uint16_t>(d);
      default: return finish_in<Format::fp16, std::uint16_t>(d);
    }
  }
  template <Format kOutput, class Word>
  void finish_in(std::byte* d) const {
    const bool adds_c = p_.c != nullptr && !p_.contract.from_c;
    for (std::int64_t i = 0; i < rows_; ++i) {
      std::byte* to = d + at(i, 0) * static_cast<std::int64_t>(sizeof(Word));
      for (std::int64_t j = 0; j < width_; ++j, to += sizeof(Word)) {
        const std::uint32_t c = adds_c ? word_of_c(at(i, j)) : 0;
        const auto word =
            static_cast<Word>(finished<kOutput>(p_, acc_[static_cast<std::size_t>(i * width_ + j)], c, adds_c));
        std::memcpy(to, &word, sizeof(word));
      }
    }
  }

  const Matmul& p_;
  const MatmulPart& part_;
  std::int64_t row0_;
  std::int64_t rows_;
  OperandWindow a_window_;
  Prepared a_;
  std::int64_t j0_ = 0;
  std::int64_t width_ = 0;
  std::vector<std::uint32_t> acc_;
};

}  // namespace

std::uint32_t finished_word(const Matmul& p, std::uint32_t acc, std::uint32_t c, bool adds_c) {
  switch (p.output) {
    case Format::fp32: return finished<Format::fp32>(p, acc, c, adds_c);
    case Format::bf16: return finished<Format::bf16>(p, acc, c, adds_c);
    default: return finished<Format::fp16>(p, acc, c, adds_c);
  }
}

void matmul(const Matmul& p, void* d) {
  check_matmul(p);
  for (const MatmulPart& part : parts_of(p)) {
    if (part.a.rows == 0 || part.b.rows == 0) continue;
    const Prepared b = prepare(p, part.b, p.threads);
    const std::int64_t panels = ceil_div(part.a.rows, kPrepared);
    const std::int64_t work = part.a.rows * part.b.rows * std::max<std::int64_t>(1, part.a.depth / 8);
    parallel_ranges(panels, work, p.threads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t panel = begin; panel < end; ++panel) {
        const std::int64_t row0 = panel * kPrepared;
        const std::int64_t rows = std::min(kPrepared, part.a.rows - row0);
        Tile tile(p, part, row0, rows);
        for (std::int64_t j = 0; j < part.b.rows; j += kColumns) {
          tile.compute(b, j, std::min(part.b.rows, j + kColumns), static_cast<std::byte*>(d));
        }
        if (p.rows_done != nullptr) *p.rows_done += rows;
      }
    });
  }
}

namespace {

std::uint32_t load(const void* base, std::int64_t at, std::size_t width) {
  std::uint32_t word = 0;
  std::memcpy(&word, static_cast<const std::byte*>(base) + at * static_cast<std::int64_t>(width), width);
  return word;
}

// take(code * scale) for each element of the window, row by row. The product is exact in double: 24 bits by 24.
template <class Take>
void each_value(const OperandWindow& w, const Take& take) {
  const MatmulOperand& x = *w.operand;
  const std::size_t width = code_width(x.format);
  const std::int64_t block = x.scaled() ? x.block.cols : std::max<std::int64_t>(1, w.depth);
  for (std::int64_t i = 0; i < w.rows; ++i) {
    const std::int64_t row = w.index != nullptr ? w.index[i] : w.first_row + i;
    for (std::int64_t k = 0; k < w.depth; k += block) {
      const double scale{w.scale(i, k)};
      const std::int64_t first = row * x.row_stride + w.first_k * x.depth_stride;
      for (std::int64_t at = k; at < std::min(w.depth, k + block); ++at)
        take(decode(x.format, load(x.codes, first + at * x.depth_stride, width)) * scale);
    }
  }
}

// A number that is a normal BF16, as nearly all are that E8M0 scales give, is the upper half of its FP32.
std::uint16_t nearest_bf16(double value) {
  const auto fp32 = static_cast<float>(value);
  const auto word = std::bit_cast<std::uint32_t>(fp32);
  const std::uint32_t exponent = word >> 23 & 0xFF;
  const bool is_bf16 = static_cast<double>(fp32) == value && (word & 0xFFFF) == 0 && exponent != 0 && exponent != 255;
  if (is_bf16) return static_cast<std::uint16_t>(word >> 16);
  return encode<Bf16>(value, Rounding::nearest_even, Overflow::non_saturate).bits;
}

}  // namespace

std::size_t code_width(Format format) { return spec(format).bits <= 8 ? 1 : spec(format).bits <= 16 ? 2 : 4; }

OperandWindow OperandWindow::rows_from(std::int64_t row, std::int64_t count) const {
  OperandWindow part = *this;
  part.rows = count;
  if (index != nullptr) part.index = index + row;
  if (index == nullptr) part.first_row += row;
  if (index == nullptr && operand->scaled()) part.scale_row += row / operand->block.rows;
  return part;
}

std::uint32_t OperandWindow::code(std::int64_t i, std::int64_t k) const {
  const std::int64_t row = index != nullptr ? index[i] : first_row + i;
  return load(operand->codes, row * operand->row_stride + (first_k + k) * operand->depth_stride,
              code_width(operand->format));
}

std::uint32_t OperandWindow::scale_code(std::int64_t i, std::int64_t k) const {
  const std::int64_t row = index != nullptr ? index[i] / operand->block.rows : scale_row + i / operand->block.rows;
  const std::int64_t depth_block = scale_depth + k / operand->block.cols;
  return load(operand->scales, row * operand->scale_row_stride + depth_block * operand->scale_depth_stride,
              code_width(operand->scale_format));
}

float OperandWindow::scale(std::int64_t i, std::int64_t k) const {
  if (!operand->scaled()) return 1;
  const std::uint32_t code = scale_code(i, k);
  if (operand->scale_format == Format::fp32) return std::bit_cast<float>(code);
  const std::uint32_t mask = operand->scale_format == Format::e8m0 ? 0xFF : 0x7F;  // UE4M3's sign is ignored
  return static_cast<float>(decode(operand->scale_format, code & mask));
}

std::vector<std::byte> gathered_codes(const OperandWindow& w) {
  const std::size_t width = code_width(w.operand->format);
  std::vector<std::byte> codes(static_cast<std::size_t>(w.rows * w.depth) * width);
  const auto* base = static_cast<const std::byte*>(w.operand->codes);
  std::byte* to = codes.data();
  for (std::int64_t i = 0; i < w.rows && w.depth != 0; ++i) {
    const std::int64_t row = w.index != nullptr ? w.index[i] : w.first_row + i;
    const std::int64_t at = row * w.operand->row_stride + w.first_k * w.operand->depth_stride;
    if (w.operand->depth_stride == 1) {
      std::memcpy(to, base + at * static_cast<std::int64_t>(width), static_cast<std::size_t>(w.depth) * width);
      to += static_cast<std::size_t>(w.depth) * width;
      continue;
    }
    for (std::int64_t k = 0; k < w.depth; ++k, to += width) {
      std::memcpy(to, base + (at + k * w.operand->depth_stride) * static_cast<std::int64_t>(width), width);
    }
  }
  return codes;
}

std::vector<std::uint16_t> decoded_bf16(const OperandWindow& w) {
  const MatmulOperand& x = *w.operand;
  const auto codes_of_format = std::size_t{1} << std::min(spec(x.format).bits, 8);
  std::array<double, 256> values{};
  for (std::size_t code = 0; code < codes_of_format; ++code)
    values[code] = decode(x.format, static_cast<std::uint32_t>(code));
  std::vector<std::uint16_t> words(static_cast<std::size_t>(w.rows * w.depth));
  const auto* codes = static_cast<const std::uint8_t*>(x.codes);
  const std::int64_t block = x.scaled() ? x.block.cols : std::max<std::int64_t>(1, w.depth);
  auto to = words.begin();
  for (std::int64_t i = 0; i < w.rows; ++i) {
    const std::int64_t row = w.index != nullptr ? w.index[i] : w.first_row + i;
    const std::int64_t first = row * x.row_stride + w.first_k * x.depth_stride;
    for (std::int64_t k = 0; k < w.depth; k += block) {
      const double scale{w.scale(i, k)};
      for (std::int64_t at = k; at < std::min(w.depth, k + block); ++at)
        *to++ = nearest_bf16(values[codes[first + at * x.depth_stride] & (codes_of_format - 1)] * scale);
    }
  }
  return words;
}

std::vector<std::uint32_t> decoded_fp32(const OperandWindow& w) {
  std::vector<std::uint32_t> words;
  words.reserve(static_cast<std::size_t>(w.rows * w.depth));
  each_value(w, [&](double value) {
    words.push_back(encode(Format::fp32, value, Rounding::nearest_even, Overflow::non_saturate));
  });
  return words;
}

std::vector<Factor> exact_factors(const OperandWindow& w, std::int64_t i) {
  std::vector<Factor> factors;
  factors.reserve(static_cast<std::size_t>(w.depth));
  for (std::int64_t k = 0; k < w.depth; ++k) {
    Factor f = factor(w.operand->format, w.code(i, k));
    if (w.operand->scaled()) {
      const float scale = w.scale(i, k);
      const Factor s = factor(Format::fp32, std::bit_cast<std::uint32_t>(scale));
      const int trailing = s.significand == 0 ? 0 : std::countr_zero(s.significand);
      const std::uint64_t significand = std::uint64_t{f.significand} * (s.significand >> trailing);
      if (significand >> 32 != 0) {
        throw Error(ErrorKind::usage,
                    "an exact sum of " +
                        std::string(spec(f.kind == Factor::Kind::finite ? w.operand->format : Format::fp32).name) +
                        " codes needs scales that are powers of two");
      }
      if (f.kind == Factor::Kind::nan || s.kind == Factor::Kind::nan)
        f.kind = Factor::Kind::nan;
      else if (f.kind == Factor::Kind::infinite || s.kind == Factor::Kind::infinite) {
        const bool zero = (f.kind == Factor::Kind::finite && f.significand == 0) ||
                          (s.kind == Factor::Kind::finite && s.significand == 0);
        f.kind = zero ? Factor::Kind::nan : Factor::Kind::infinite;
      }
      f.negative = f.negative != s.negative;
      f.significand = static_cast<std::uint32_t>(significand);
      f.exponent += s.exponent;
      f.fraction_bits += s.fraction_bits - trailing;
    }
    factors.push_back(f);
  }
  return factors;
}

std::vector<Factor> plain_factors(const Contract& contract, const OperandWindow& w, std::int64_t i) {
  std::vector<Factor> factors;
  factors.reserve(static_cast<std::size_t>(w.depth));
  for (std::int64_t k = 0; k < w.depth; ++k) factors.push_back(operand(contract, w.operand->format, w.code(i, k)));
  return factors;
}

std::vector<std::uint8_t> step_scales(const OperandWindow& w, std::int64_t i, std::int64_t terms) {
  std::vector<std::uint8_t> scales;
  for (std::int64_t k = 0; k < w.depth; k += terms) scales.push_back(static_cast<std::uint8_t>(w.scale_code(i, k)));
  return scales;
}

namespace {

OperandWindow whole(const MatmulOperand& x) {
  OperandWindow w;
  w.operand = &x;
  w.rows = x.rows;
  w.depth = x.depth;
  return w;
}

std::int64_t scale_blocks(std::int64_t extent, std::int64_t block) { return block == 0 ? 0 : ceil_div(extent, block); }

}  // namespace

std::vector<MatmulPart> parts_of(const Matmul& p) {
  OperandWindow a = whole(p.a);
  a.rows = p.m();
  if (p.gathers) a.index = p.row_index.data();
  const OperandWindow b = whole(p.b);
  std::vector<MatmulPart> parts;
  if (p.grouping == Grouping::none) return {{0, a, b, 0}};
  std::int64_t a_scales = 0;
  std::int64_t b_scales = 0;
  const bool masked = p.grouping == Grouping::masked;
  for (std::int64_t e = 0; e < p.experts(); ++e) {
    const auto at = static_cast<std::size_t>(e);
    const std::int64_t begin = masked ? e * p.capacity() : p.offsets[at];
    const std::int64_t count = masked ? p.counts[at] : p.offsets[at + 1] - begin;
    MatmulPart part{e, a, b, 0};
    if (masked) a_scales = begin;  // blocks of A have one row
    if (masked || p.grouping == Grouping::rows) {
      part.a = a.rows_from(0, count);
      if (p.gathers) part.a.index = a.index + begin;
      if (!p.gathers) part.a.first_row = begin, part.a.scale_row = a_scales;
      part.b.first_row = e * p.b.rows, part.b.scale_row = e * scale_blocks(p.b.rows, p.b.block.rows);
      part.d_first = begin * p.b.rows;
      a_scales += scale_blocks(count, p.a.block.rows);
    } else {
      part.a.first_k = part.b.first_k = begin;
      part.a.depth = part.b.depth = count;
      part.a.scale_depth = a_scales, part.b.scale_depth = b_scales;
      part.d_first = e * p.m() * p.b.rows;
      a_scales += scale_blocks(count, p.a.block.cols);
      b_scales += scale_blocks(count, p.b.block.cols);
    }
    parts.push_back(part);
  }
  return parts;
}

}  // namespace mxcheck
