#include "properties/operations/matmul/definitions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/tensor.h"
#include "numerics/text.h"
#include "properties/operations/matmul/fields.h"
#include "properties/operations/matmul/operation.h"
#include "properties/operations/matmul/problem.h"
#include "reference/common/checked_size.h"
#include "reference/matmul/operand.h"

namespace mxcheck {
namespace {

constexpr std::string_view kSplit = ", split-k of ";
constexpr std::string_view kParts = " in parts of ";
constexpr std::string_view kAdded = ", added ";
constexpr const char* kSplitSource = "cuBLAS, MKL: docs/identify.md";

const void* moved(const void* data, std::int64_t elements, Format format) {
  return static_cast<const std::byte*>(data) + elements * static_cast<std::int64_t>(size_of(format));
}

// k in [first, end), where blocks of scales begin at first.
Matmul part_of(Matmul m, std::int64_t first, std::int64_t end) {
  for (MatmulOperand* x : {&m.a, &m.b}) {
    x->codes = moved(x->codes, first * x->depth_stride, x->format);
    x->depth = end - first;
    if (x->scaled()) x->scales = moved(x->scales, first / x->block.cols * x->scale_depth_stride, x->scale_format);
  }
  return m;
}

Bytes answer_in_one(Matmul m, const MatmulContract& contract) {
  m.contract = contract;
  const std::int64_t outputs = m.rows_of_d() * m.b.rows;
  m.threads = outputs * m.a.depth > (1 << 22) ? 0 : 1;
  Bytes d(static_cast<std::size_t>(outputs) * size_of(m.output));
  matmul(m, d.data());
  return d;
}

Bytes answer_in_one(const Matmul& m) { return answer_in_one(m, m.contract); }

struct Split {
  MatmulContract contract;
  std::int64_t parts = 0;
  std::int64_t length = 0;
  std::string order;  // "", descending, pairwise
};

std::optional<Split> split_of(const std::string& text) {
  const std::size_t at = text.find(kSplit);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t in = text.find(kParts, at);
  if (in == std::string::npos) throw Error(ErrorKind::usage, "'" + text + "' is no definition of a product");
  const std::size_t added = std::min(text.find(kAdded, in), text.size());
  const auto number = [&](std::size_t from, std::size_t to) {
    const auto value = parse_number<std::int64_t>(std::string_view(text).substr(from, to - from));
    if (!value || *value < 1) throw Error(ErrorKind::usage, "'" + text + "' is no definition of a product");
    return *value;
  };
  Split split{parse_matmul_contract(text.substr(0, at)), number(at + kSplit.size(), in),
              number(in + kParts.size(), added), ""};
  if (added < text.size()) split.order = text.substr(added + kAdded.size());
  return split;
}

// The parts as products, in FP32.
std::vector<Matmul> parts_of_split(const Split& split, const Matmul& m) {
  const std::int64_t k = m.a.depth;
  if (m.c != nullptr || m.grouping == Grouping::depth || k == 0 || ceil_div(k, split.length) != split.parts) {
    throw Error(ErrorKind::usage, "K of " + std::to_string(k) + " has no " + std::to_string(split.parts) +
                                      " parts of " + std::to_string(split.length));
  }
  std::vector<Matmul> parts;
  for (std::int64_t first = 0; first < k; first += split.length) {
    parts.push_back(part_of(m, first, std::min(k, first + split.length)));
    parts.back().contract = split.contract, parts.back().output = Format::fp32, parts.back().alpha = 1;
  }
  if (split.order == "descending") std::ranges::reverse(parts);
  return parts;
}

float sum_of(const Split& split, std::span<const float> parts) {
  if (split.order == "pairwise" && parts.size() == 4) return (parts[0] + parts[1]) + (parts[2] + parts[3]);
  return std::accumulate(parts.begin() + 1, parts.end(), parts.front());
}

std::uint32_t finished_sum(const Matmul& m, float sum) {
  return encode(m.output, m.alpha * sum, Rounding::nearest_even, Overflow::non_saturate);
}

Bytes answer_in_parts(const Split& split, const Matmul& m) {
  std::vector<Tensor> sums;
  for (const Matmul& part : parts_of_split(split, m)) sums.push_back({"", Format::fp32, {}, answer_in_one(part)});
  Tensor d = make_tensor(m.output, {static_cast<std::int64_t>(sums.front().size())});
  std::vector<float> parts(sums.size());
  for (std::size_t i = 0; i < d.size(); ++i) {
    if (!m.writes_row(static_cast<std::int64_t>(i) / m.b.rows)) continue;
    for (std::size_t p = 0; p < parts.size(); ++p) parts[p] = sums[p].as<float>()[i];
    d.set_code(i, finished_sum(m, sum_of(split, parts)));
  }
  return std::move(d.data);
}

// Contracts.

void add_variants(const Contract& c, const Matmul& m, std::int64_t longest, std::vector<std::string>& texts) {
  const std::string name(c.name);
  const bool scaled = m.a.scaled() || m.b.scaled();
  texts.push_back(name);
  if (scaled) texts.push_back(name + "+decode");
  if (m.c != nullptr) texts.push_back(name + "+from_c");
  if (c.arithmetic != Arithmetic::fused) return;
  texts.push_back(name + "+descending");
  if (m.c != nullptr) texts.push_back(name + "+from_c+descending");
  if (scaled) texts.push_back(name + "+decode+descending");
  for (std::int64_t every = c.step.terms; every <= longest; every += c.step.terms) {
    const bool is_usual = every >= 128 && std::has_single_bit(static_cast<std::uint64_t>(every));
    if (every > m.a.depth && !is_usual) continue;
    const std::string promoted = name + "+promote" + std::to_string(every);
    for (const char* order : {"", "+a_first", "+b_first"}) {
      if (!scaled && order[0] != '\0') continue;  // without scales all orders are one
      texts.push_back(promoted + order);
      texts.push_back(promoted + order + "+descending");
    }
  }
}

// The contracts that take the operands and the output; promoted sums up to the longest.
std::vector<std::string> contract_texts(Matmul m, std::int64_t longest) {
  std::vector<std::string> texts;
  for (const Contract& c : all_contracts()) add_variants(c, m, longest, texts);
  std::erase_if(texts, [&](const std::string& text) {
    try {
      m.contract = parse_matmul_contract(text);
      check_matmul(m);
      return false;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::usage) throw;
      return true;
    }
  });
  return texts;
}

std::string source_of(const std::string& name) {
  if (name.find(kSplit) != std::string::npos) return kSplitSource;
  const MatmulContract contract = parse_matmul_contract(name);
  const std::string promoted = contract.promotion != 0 ? ", promoted as DeepGEMM and DeepSeek-V3 do" : "";
  return std::string(contract.sum->note) + promoted + " (" + std::string(to_text(contract.sum->evidence)) + ")";
}

// Split-k.

// The lengths that so many parts can have: multiples of a tile, of the step and of the blocks of scales.
std::vector<std::int64_t> lengths_of(const Matmul& m, std::int64_t parts, std::int64_t step) {
  std::vector<std::int64_t> lengths;
  std::int64_t unit = step;
  for (const MatmulOperand* x : {&m.a, &m.b}) unit = std::lcm(unit, std::max<std::int64_t>(1, x->block.cols));
  for (std::int64_t tile : {1, 32, 64, 128}) {
    const std::int64_t each = std::lcm(unit, tile);
    const std::int64_t length = ceil_div(ceil_div(m.a.depth, parts), each) * each;
    if (length != 0 && ceil_div(m.a.depth, length) == parts && std::ranges::find(lengths, length) == lengths.end())
      lengths.push_back(length);
  }
  return lengths;
}

void add_splits(const std::string& text, const Matmul& m, std::vector<std::string>& texts) {
  const MatmulContract contract = parse_matmul_contract(text);
  const bool usual = contract.promotion == 0 || 256 % contract.promotion == 0;  // 32, 64, 128, 256
  if (contract.descending || contract.promotion == m.a.depth || !usual) return;
  const bool scaled = m.a.scaled() || m.b.scaled();
  if (contract.promotion == 0 && !scaled && contract.sum->arithmetic == Arithmetic::fused)
    return;  // as promotion alone
  const std::int64_t step = contract.promotion != 0 ? contract.promotion : std::max(1, contract.sum->step.terms);
  for (std::int64_t parts = 2; parts <= 4; ++parts) {
    for (const std::int64_t length : lengths_of(m, parts, step)) {
      if (contract.promotion == length && !scaled) continue;  // as promotion alone; with scales parts round twice
      const std::string split =
          text + std::string(kSplit) + std::to_string(parts) + std::string(kParts) + std::to_string(length);
      texts.push_back(split);
      if (parts > 2) texts.push_back(split + std::string(kAdded) + "descending");
      if (parts == 4) texts.push_back(split + std::string(kAdded) + "pairwise");
    }
  }
}

// Slips.

// Matrices of this operand, one below the other.
std::int64_t matrices_of(const Matmul& m, MatmulOperand Matmul::*side) {
  const bool many = m.grouping == Grouping::rows || m.grouping == Grouping::masked;
  return many && side == &Matmul::b ? m.experts() : 1;
}

std::uint32_t sign_of(Format format) { return std::uint32_t{1} << (spec(format).bits - 1); }

class Slips {
 public:
  explicit Slips(const Matmul& m) : m_(m) {}

  void add(std::string name, std::function<Bytes(Matmul)> answer) {
    table_.push_back(definition_of_output(0, std::move(name), [m = m_, a = std::move(answer)] { return a(m); }));
  }
  // The product with something else changed.
  void changed(std::string name, void (*change)(Matmul&)) {
    add(std::move(name), [change](Matmul m) {
      change(m);
      return answer_in_one(m);
    });
  }
  void of_epilogue();
  void halves(const std::string& which, std::int64_t length);
  void of_groups();
  void of_codes(MatmulOperand Matmul::*side, const std::string& of);
  void of_pairs(MatmulOperand Matmul::*side, const std::string& of);
  void of_scales(MatmulOperand Matmul::*side, const std::string& of);
  void of_e8m0(MatmulOperand Matmul::*side, const std::string& of);
  void of_e4m3(MatmulOperand Matmul::*side, const std::string& of);
  void with_scales(MatmulOperand Matmul::*side, const std::string& name, float (*value)(std::uint8_t));
  void with_blocks_of_32(MatmulOperand Matmul::*side, const std::string& of);
  [[nodiscard]] bool takes(MatmulOperand Matmul::*side, Format format) const;  // true if the contract does
  Table take() { return std::move(table_); }

 private:
  const Matmul& m_;
  Table table_;
};

void Slips::of_epilogue() {
  if (m_.c != nullptr) changed("C not added", [](Matmul& m) { m.c = nullptr, m.contract.from_c = false; });
  if (m_.alpha != 1) changed("alpha of 1", [](Matmul& m) { m.alpha = 1; });
  if (m_.output == Format::bf16 && m_.c == nullptr) {  // FP32 first, then its upper half
    add("D cut to BF16 in place of rounded", [](Matmul m) {
      m.output = Format::fp32;
      const Bytes words = answer_in_one(m);
      Bytes cut(words.size() / 2);
      for (std::size_t i = 0; i + 1 < cut.size(); i += 2) cut[i] = words[2 * i + 2], cut[i + 1] = words[2 * i + 3];
      return cut;
    });
  }
  if (m_.a.depth >= 2 && m_.grouping != Grouping::depth && m_.c == nullptr) {
    halves("k in two halves", m_.a.depth / 2);
    if (m_.a.depth >= 256) halves("k in two halves of whole blocks of 128", m_.a.depth / 256 * 128);
  }
  if (m_.a.depth > 128 && m_.grouping != Grouping::depth) {
    changed("the last block of 128 of k left out", [](Matmul& m) { m = part_of(m, 0, (m.a.depth - 1) / 128 * 128); });
  }
}

// Split-k by way of a workspace in BF16.
void Slips::halves(const std::string& which, std::int64_t length) {
  add(which + ", whose sums are rounded to BF16 before they are added", [length](const Matmul& m) {
    const auto part = [&](std::int64_t from, std::int64_t to) {
      Matmul x = part_of(m, from, to);
      x.output = Format::bf16;
      return Tensor{"", Format::bf16, {}, answer_in_one(x)};
    };
    const Tensor first = part(0, length), second = part(length, m.a.depth);
    Tensor d = make_tensor(m.output, {static_cast<std::int64_t>(first.size())});
    for (std::size_t i = 0; i < d.size(); ++i) {
      const double sum = decode(Format::bf16, first.code(i)) + decode(Format::bf16, second.code(i));
      d.set_code(i, encode(m.output, sum, Rounding::nearest_even, Overflow::non_saturate));
    }
    return std::move(d.data);
  });
}

// A group along k without terms is zero.
void Slips::of_groups() {
  if (m_.grouping != Grouping::depth) return;
  add("a group without terms left with what the group before it has", [](const Matmul& m) {
    Bytes d = answer_in_one(m);
    const std::size_t group = m.experts() == 0 ? 0 : d.size() / static_cast<std::size_t>(m.experts());
    for (std::size_t e = 1; e + 1 < m.offsets.size(); ++e) {
      if (m.offsets[e] == m.offsets[e + 1])
        std::copy_n(d.begin() + static_cast<std::ptrdiff_t>((e - 1) * group), group,
                    d.begin() + static_cast<std::ptrdiff_t>(e * group));
    }
    return d;
  });
}

bool Slips::takes(MatmulOperand Matmul::*side, Format format) const {
  Matmul m = m_;
  (m.*side).format = format;
  try {
    check_matmul(m);
    return true;
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::usage) throw;
    return false;
  }
}

void Slips::of_codes(MatmulOperand Matmul::*side, const std::string& of) {
  const MatmulOperand& x = m_.*side;
  for (const Format other : kQuantizedFormats) {
    if (other == x.format || spec(other).bits != spec(x.format).bits || !takes(side, other)) continue;
    add(std::string(spec(x.format).name) + " codes of " + of + " read as " + std::string(spec(other).name),
        [side, other](Matmul m) {
          (m.*side).format = other;
          return answer_in_one(m);
        });
  }
  if (spec(x.format).bits > 8) return;
  const auto with_codes = [&](const std::string& name, auto code) {
    add(name, [side, code](Matmul m) {
      MatmulOperand& x = m.*side;
      const std::int64_t matrices = matrices_of(m, side);
      const auto count = static_cast<std::size_t>(matrices * x.rows * x.row_stride);
      if (x.depth_stride != 1) throw Error(ErrorKind::usage, "codes that do not follow one another");
      const std::span<const std::uint8_t> own(static_cast<const std::uint8_t*>(x.codes), count);
      std::vector<std::uint8_t> changed(own.begin(), own.end());
      for (std::uint8_t& c : changed) c = static_cast<std::uint8_t>(code(x.format, c));
      x.codes = changed.data();
      return answer_in_one(m);
    });
  };
  with_codes("subnormal codes of " + of + " taken for zero", [](Format f, std::uint32_t c) {
    return std::fabs(decode(f, c)) < std::ldexp(1.0, 1 - spec(f).bias) ? c & sign_of(f) : c;
  });
  with_codes("codes of " + of + " without their sign",
             [](Format f, std::uint32_t c) { return std::isnan(decode(f, c)) ? c : c & ~sign_of(f); });
  if (x.format == Format::e2m1) return of_pairs(side, of);
  with_codes("NaN codes of " + of + " taken for zero",
             [](Format f, std::uint32_t c) { return std::isnan(decode(f, c)) ? 0U : c; });
}

// Two E2M1 codes of a byte.
void Slips::of_pairs(MatmulOperand Matmul::*side, const std::string& of) {
  add("the two codes of each byte of " + of + " exchanged", [side](Matmul m) {
    MatmulOperand& x = m.*side;
    const std::int64_t rows = x.rows * matrices_of(m, side);
    const std::span own(static_cast<const std::uint8_t*>(x.codes), static_cast<std::size_t>(rows * x.row_stride));
    std::vector<std::uint8_t> codes(own.begin(), own.end());
    for (std::int64_t row = 0; row < rows; ++row) {
      std::uint8_t* const line = codes.data() + row * x.row_stride;
      for (std::int64_t k = 0; k + 1 < x.depth; k += 2) std::swap(line[k], line[k + 1]);
    }
    x.codes = codes.data();
    return answer_in_one(m);
  });
}

void Slips::with_scales(MatmulOperand Matmul::*side, const std::string& name, float (*value)(std::uint8_t)) {
  add(name, [side, value](Matmul m) {
    MatmulOperand& x = m.*side;
    const std::span<const std::uint8_t> own(
        static_cast<const std::uint8_t*>(x.scales),
        static_cast<std::size_t>(matrices_of(m, side) * ceil_div(x.rows, x.block.rows) * x.scale_row_stride));
    std::vector<float> scales;
    for (const std::uint8_t byte : own) scales.push_back(value(byte));
    x.scale_format = Format::fp32, x.scales = scales.data();
    return answer_in_one(m);
  });
}

void Slips::of_e8m0(MatmulOperand Matmul::*side, const std::string& of) {
  with_scales(side, of + " scale bytes taken for numbers", [](std::uint8_t byte) { return static_cast<float>(byte); });
  with_scales(side, "the reciprocals of " + of + " scales",
              [](std::uint8_t byte) { return std::ldexp(1.0F, 127 - byte); });
  with_scales(side, of + " scale byte 255 taken for 2^128, infinity",
              [](std::uint8_t byte) { return std::ldexp(1.0F, byte - 127); });
  with_scales(side, of + " scale byte 0 taken for zero", [](std::uint8_t byte) {
    return byte == 0 ? 0 : byte == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, byte - 127);
  });
}

float e4m3_value(std::uint32_t byte) { return static_cast<float>(decode(Format::e4m3, byte)); }

// UE4M3, whose sign counts for nothing.
void Slips::of_e4m3(MatmulOperand Matmul::*side, const std::string& of) {
  with_scales(side, of + " scales with their sign", [](std::uint8_t byte) { return e4m3_value(byte); });
  with_scales(side, of + " scale bytes read as E8M0",
              [](std::uint8_t byte) { return static_cast<float>(decode(Format::e8m0, byte)); });
  with_scales(side, of + " scales of NaN taken for 448",
              [](std::uint8_t byte) { return e4m3_value(std::min(byte & 0x7FU, 0x7EU)); });
  with_scales(side, of + " subnormal scales taken for zero", [](std::uint8_t byte) {
    const std::uint32_t magnitude = byte & 0x7FU;
    return magnitude < 8 ? 0 : e4m3_value(magnitude);
  });
  with_blocks_of_32(side, of);
  if (m_.alpha == 1) return;
  add("alpha multiplied into " + of + " scales, before operands are rounded to BF16", [side](Matmul m) {
    MatmulOperand& x = m.*side;
    const auto count = static_cast<std::size_t>(matrices_of(m, side) * x.rows * x.scale_row_stride);
    std::vector<float> scales;
    for (const std::uint8_t byte : std::span(static_cast<const std::uint8_t*>(x.scales), count))
      scales.push_back(e4m3_value(byte & 0x7FU) * m.alpha);
    x.scale_format = Format::fp32, x.scales = scales.data(), m.alpha = 1;
    return answer_in_one(m);
  });
}

void Slips::with_blocks_of_32(MatmulOperand Matmul::*side, const std::string& of) {
  add("each of " + of + " scales taken for 32 of k, every second one left out", [side](Matmul m) {
    MatmulOperand& x = m.*side;
    const std::int64_t line = x.scale_row_stride;
    const auto count = static_cast<std::size_t>(matrices_of(m, side) * x.rows * line);
    const std::span own(static_cast<const std::uint8_t*>(x.scales), count);
    std::vector<std::uint8_t> scales(own.begin(), own.end());
    for (std::size_t i = 1; i < count; ++i) {
      if (i % static_cast<std::size_t>(line) % 2 == 1) scales[i] = scales[i - 1];
    }
    x.scales = scales.data();
    return answer_in_one(m);
  });
}

void Slips::of_scales(MatmulOperand Matmul::*side, const std::string& of) {
  if (!(m_.*side).scaled()) return;
  add(of + " scales taken as 1", [side](Matmul m) {
    MatmulOperand& x = m.*side;
    const std::uint32_t one = encode(x.scale_format, 1, Rounding::nearest_even, Overflow::saturate);
    x.scales = &one, x.scale_row_stride = x.scale_depth_stride = 0;
    return answer_in_one(m);
  });
  if ((m_.*side).scale_format == Format::e8m0) of_e8m0(side, of);
  if ((m_.*side).scale_format == Format::e4m3) of_e4m3(side, of);
  const MatmulOperand& x = m_.*side;
  const bool restarts = m_.grouping == Grouping::rows && side == &Matmul::a && x.block.rows != 1;
  if (x.scale_row_stride < 2 || x.scale_depth_stride != 1 || restarts) return;
  add(of + " scales taken from the block of k before", [side](Matmul m) {  // the first keeps its own
    MatmulOperand& x = m.*side;
    const std::int64_t matrices = matrices_of(m, side);
    const std::size_t width = size_of(x.scale_format);
    const std::size_t line = static_cast<std::size_t>(x.scale_row_stride) * width;
    const std::span<const std::byte> own(static_cast<const std::byte*>(x.scales),
                                         static_cast<std::size_t>(matrices * ceil_div(x.rows, x.block.rows)) * line);
    Bytes shifted(own.begin(), own.end());
    for (std::size_t i = 0; i < shifted.size(); ++i) shifted[i] = i % line < width ? own[i] : own[i - width];
    x.scales = shifted.data();
    return answer_in_one(m);
  });
}

}  // namespace

Definition product_definition(const std::string& name, const Matmul& m) {
  return definition_of_output(
      0, name, [name, m] { return answer_of_product(name, m); }, source_of(name));
}

Bytes answer_of_product(const std::string& name, const Matmul& m) {
  if (const auto split = split_of(name)) return answer_in_parts(*split, m);
  return answer_in_one(m, parse_matmul_contract(name));
}

std::uint32_t word_of_product(const std::string& name, const Matmul& m, std::int64_t expert, std::int64_t i,
                              std::int64_t j) {
  if (const auto split = split_of(name)) {
    std::vector<float> sums;
    for (const Matmul& part : parts_of_split(*split, m))
      sums.push_back(std::bit_cast<float>(explain_output(part, expert, i, j).word));
    return finished_sum(m, sum_of(*split, sums));
  }
  Matmul one = m;
  one.contract = parse_matmul_contract(name);
  return explain_output(one, expert, i, j).word;
}

Table product_contracts(const Matmul& m, std::int64_t longest) {
  Table table;
  for (const std::string& text : contract_texts(m, std::max(longest, m.a.depth)))
    table.push_back(product_definition(text, m));
  return table;
}

Table product_splits(const Matmul& m) {
  if (m.c != nullptr || m.grouping == Grouping::depth) return {};
  Matmul whole = m;
  whole.output = Format::fp32;
  std::vector<std::string> texts;
  for (const std::string& text : contract_texts(whole, m.a.depth)) add_splits(text, m, texts);
  Table table;
  for (const std::string& text : texts) table.push_back(product_definition(text, m));
  return table;
}

Table product_slips(const Matmul& m) {
  Slips slips(m);
  slips.of_epilogue();
  slips.of_groups();
  slips.of_codes(&Matmul::a, "A");
  slips.of_codes(&Matmul::b, "B");
  slips.of_scales(&Matmul::a, "A's");
  slips.of_scales(&Matmul::b, "B's");
  return slips.take();
}

std::string other_words(const std::string& name, const Matmul& m) {
  if (m.a.scaled() || m.b.scaled() || m.c != nullptr || name.find(kSplit) != std::string::npos) return {};
  const MatmulContract contract = parse_matmul_contract(name);
  const std::int64_t parts = contract.promotion == 0 ? 0 : ceil_div(m.a.depth, contract.promotion);
  if (parts < 2 || parts > 4) return {};
  return "split-k of " + std::to_string(parts) + std::string(kParts) + std::to_string(contract.promotion) +
         (contract.descending ? std::string(kAdded) + "descending" : "") + ", no promotion within them";
}

// The table that the gate asks.

namespace {

constexpr std::int64_t kLongestPromotion = 512;
constexpr std::int64_t kMostToMatch = std::int64_t{1} << 24;  // multiplications: as many as a drawn case has

// Rows that have the first word wrong in which D is, the claim apart, are not computed any further: they say nothing.
void keep_possible(Table& table, const MatmulProblem& p, const Matmul& m, std::span<const std::byte> observed) {
  const ExpectedTensor expected = p.answer().front();
  if (observed.size() != expected.bytes.size()) return table.clear();
  const std::optional<Difference> wrong = compare(expected.info, expected.bytes, observed, 0);
  if (!wrong) return;
  const Difference::Element& at = wrong->first;
  const std::int64_t of_expert = m.grouping == Grouping::depth ? std::max<std::int64_t>(1, m.m()) : expected.info.rows;
  const auto is_possible = [&](const Definition& row) {
    if (row.name == to_text(m.contract)) return true;
    try {
      const std::uint32_t word = word_of_product(row.name, m, at.row / of_expert, at.row % of_expert, at.col);
      return word == at.observed || (std::isnan(decode(m.output, word)) && std::isnan(decode(m.output, at.observed)));
    } catch (const Error& e) {  // not defined for these values
      if (e.kind() != ErrorKind::usage) throw;
      return false;
    }
  };
  for (Definition& row : table) {
    if (!is_possible(row)) row.bytes = [](std::size_t) { return Bytes(); };
  }
}

}  // namespace

Table MatmulProblem::definitions(std::span<const Bytes> observed) const {
  if (c.elements() * matmul_case(c).depth > kMostToMatch) return {};
  const Matmul m = matmul(contract());
  // Sums that are longer than k differ in longer cases.
  Table table = product_contracts(m, kLongestPromotion);
  std::ranges::move(product_splits(m), std::back_inserter(table));
  keep_possible(table, *this, m, observed.front());
  // A contract that adds C first is the same without a C: where other cases have one, its name tells them apart.
  const std::size_t count = contract().from_c && !matmul_case(c).adds ? table.size() : 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t end = table[i].name.find_first_of("+,");
    Definition adding = table[i];
    adding.name.insert(end == std::string::npos ? adding.name.size() : end, "+from_c");
    table.push_back(std::move(adding));
  }
  std::ranges::move(product_slips(m), std::back_inserter(table));
  return table;
}

}  // namespace mxcheck
