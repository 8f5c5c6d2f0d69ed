#include "properties/operations/matmul/problem.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/format/packing.h"
#include "properties/core/check.h"
#include "properties/core/input.h"
#include "properties/core/limits.h"
#include "properties/core/notation.h"
#include "properties/operations/matmul/masked.h"
#include "properties/operations/matmul/operation.h"
#include "reference/common/checked_size.h"
#include "reference/matmul/operand.h"

namespace mxcheck {
namespace {

// Shapes of a matmul's tensors.
struct Shapes {
  std::int64_t experts = 1;
  std::int64_t a_rows = 0;
  std::int64_t b_rows = 0;  // of all experts
  std::int64_t d_rows = 0;
  std::int64_t scale_rows_a = 0, scale_cols_a = 0;
  std::int64_t scale_rows_b = 0, scale_cols_b = 0;
};

std::int64_t blocks_along(const Case& c, std::int64_t block) {
  if (block == 0) return 0;
  if (matmul_of(c.variant).groups != MXCHECK_DEPTH) return ceil_div(matmul_case(c).depth, block);
  std::int64_t blocks = 0;
  for (std::size_t e = 1; e < c.experts.size(); ++e) blocks += ceil_div(c.experts[e] - c.experts[e - 1], block);
  return blocks;
}

std::int64_t scale_rows(std::int64_t rows, std::int64_t block) { return block == 0 ? 0 : ceil_div(rows, block); }

Shapes shapes_of(const Case& c) {
  const MatmulVariant& v = matmul_of(c.variant);
  Shapes s;
  s.experts = groups_in(c);
  const std::int64_t matrices = matrices_in(c);
  s.a_rows = c.gather != 0 ? c.gather : c.rows;
  s.b_rows = matrices * c.cols;
  s.d_rows = v.groups == MXCHECK_DEPTH ? s.experts * c.rows : c.rows;
  if (v.scales == MXCHECK_NO_SCALES) return s;
  s.scale_rows_a = scale_rows(s.a_rows, v.block.rows), s.scale_cols_a = blocks_along(c, v.block.cols);
  s.scale_rows_b = matrices * scale_rows(c.cols, v.block_b.rows), s.scale_cols_b = blocks_along(c, v.block_b.cols);
  return s;
}

ProblemInput tensor(const char* name, Format format, std::int64_t rows, std::int64_t cols,
                    const std::vector<std::byte>& bytes) {
  return matrix_input({name, format, rows, cols}, bytes);
}

// An operand as a candidate reads it. The high nibble after the last code of an odd k holds anything.
ProblemInput operand_input(const char* name, const MatmulVariant& v, Format format, std::int64_t rows,
                           std::int64_t depth, const std::vector<std::byte>& bytes) {
  return is_packed(v) ? tensor(name, Format::e2m1x2, rows, (depth + 1) / 2, bytes)
                      : tensor(name, format, rows, depth, bytes);
}

std::vector<std::byte> packed_codes(const Case& c, std::uint64_t salt, std::int64_t depth,
                                    const std::vector<std::byte>& codes) {
  std::vector<std::byte> packed = packed_rows(values_in<std::uint8_t>(codes), depth);
  const auto line = static_cast<std::size_t>((depth + 1) / 2);
  for (std::size_t row = 1; depth % 2 != 0 && row * line <= packed.size(); ++row)
    packed[row * line - 1] |= static_cast<std::byte>(random_word(c.seed ^ salt ^ 0x0DD, row) << 4);
  return packed;
}

MatmulOperand operand_of(const MatmulVariant& v, Format format, BlockShape block, const std::vector<std::byte>& codes,
                         const std::vector<std::byte>& scales, std::int64_t rows, std::int64_t depth,
                         std::int64_t scale_cols) {
  MatmulOperand x;
  x.format = format, x.codes = codes.data();
  x.rows = rows, x.depth = depth, x.row_stride = depth;
  if (v.scales == MXCHECK_NO_SCALES) return x;
  x.block = block;
  x.scale_format = scale_format(v), x.scales = scales.data();
  x.scale_row_stride = scale_cols;
  return x;
}

TensorInfo output_info(const Case& c) {
  return {"d", c.variant.dtype, shapes_of(c).d_rows, c.cols, 128, 128, any_nan_in_d_is_equal(c)};
}

}  // namespace

MatmulProblem::MatmulProblem(const Case& from) : Problem(from) {
  const MatmulVariant& v = matmul_of(from.variant);
  const std::int64_t depth = matmul_case(from).depth;
  const Shapes s = shapes_of(from);
  a = expand_operand(from, v.format, 0xA, s.a_rows, depth);
  b = expand_operand(from, v.format_b, 0xB, s.b_rows, depth);
  scales_a = expand_operand_scales(from, 0xA, s.scale_rows_a, s.scale_cols_a);
  scales_b = expand_operand_scales(from, 0xB, s.scale_rows_b, s.scale_cols_b);
  if (matmul_case(from).adds) c_values = expand_c(from, s.d_rows * from.cols);
  if (from.gather != 0) index = draw_index(from.seed, from.rows, from.gather);
  outputs = {output_info(from)};
  if (is_packed(v)) packed_a = packed_codes(from, 0xA, depth, a), packed_b = packed_codes(from, 0xB, depth, b);
}

MatmulProblem::MatmulProblem(const Call& call) : Problem(Case{}) {
  const auto policy = read<mxcheck_matmul_policy>(call.policy);
  const auto format_a = find_format(policy.policy.format);
  const auto format_b = find_format(policy.format_b);
  const std::size_t needed = 2U + (policy.scale_type != 0 ? 2U : 0U) + (policy.accumulate != 0 ? 1U : 0U);
  if (!format_a || !format_b || call.inputs.size() < needed)
    throw Error(ErrorKind::internal, "a call of a matmul that no statement makes");
  c.variant = {call.operation, call.outputs[0].dtype};
  matmul_of(c.variant) = {*format_a,
                          *format_b,
                          {policy.policy.block_rows, policy.policy.block_cols},
                          {policy.block_b_rows, policy.block_b_cols},
                          policy.scale_type,
                          policy.grouping};
  c.rows = policy.policy.rows, c.cols = policy.policy.cols;
  matmul_case(c) = {policy.depth, policy.accumulate != 0, policy.alpha, {}};
  std::size_t next = 0;
  const auto bytes = [&] {
    const CallTensor& t = call.inputs[next++];
    return std::vector<std::byte>(t.data, t.data + t.bytes);
  };
  a = bytes(), b = bytes();
  if (is_packed(matmul_of(std::as_const(c).variant))) {
    packed_a = std::move(a), packed_b = std::move(b);
    a = to_bytes(unpacked_rows(packed_a, policy.depth)), b = to_bytes(unpacked_rows(packed_b, policy.depth));
  }
  if (policy.scale_type != MXCHECK_NO_SCALES) scales_a = bytes(), scales_b = bytes();
  if (policy.accumulate != 0) c_values = bytes();
  std::vector<std::int64_t> groups;
  for (; next < call.inputs.size(); ++next) {
    const CallTensor& t = call.inputs[next];
    if (t.is_offsets) groups = values_in<std::int64_t>({t.data, t.bytes});
    if (t.is_index) index = values_in<std::int32_t>({t.data, t.bytes}), c.gather = call.inputs[0].shape[0];
  }
  (policy.grouping == MXCHECK_MASKED ? matmul_case(c).counts : c.experts) = std::move(groups);
  outputs = {output_info(c)};
}

Call MatmulProblem::call() const {
  Call call = Problem::call();
  const TensorInfo& d = outputs.front();
  call.outputs.front().open = open_rows(c, static_cast<std::uint64_t>(d.cols) * code_width(d.format));
  return call;
}

std::vector<ProblemInput> MatmulProblem::inputs() const {
  const MatmulVariant& v = matmul_of(c.variant);
  const std::int64_t depth = matmul_case(c).depth;
  const Shapes s = shapes_of(c);
  const bool packed = is_packed(v);
  std::vector<ProblemInput> all{operand_input("A", v, v.format, s.a_rows, depth, packed ? packed_a : a),
                                operand_input("B", v, v.format_b, s.b_rows, depth, packed ? packed_b : b)};
  if (v.scales != MXCHECK_NO_SCALES) {
    all.push_back(tensor("scales of A", scale_format(v), s.scale_rows_a, s.scale_cols_a, scales_a));
    all.push_back(tensor("scales of B", scale_format(v), s.scale_rows_b, s.scale_cols_b, scales_b));
  }
  if (matmul_case(c).adds) all.push_back(tensor("C", c.variant.dtype, s.d_rows, c.cols, c_values));
  if (v.groups == MXCHECK_MASKED) {
    all.push_back(vector_input("counts", matmul_case(c).counts));
    all.back().tensor.is_counts = true;
  } else if (v.groups != MXCHECK_DENSE) {
    all.push_back(vector_input("offsets", c.experts));
  }
  if (c.gather != 0) all.push_back(vector_input("row_index", index));
  return all;
}

Matmul MatmulProblem::matmul(const MatmulContract& contract) const {
  const MatmulVariant& v = matmul_of(c.variant);
  const MatmulCase& own = matmul_case(c);
  const Shapes s = shapes_of(c);
  Matmul m;
  m.contract = contract;
  m.a = operand_of(v, v.format, v.block, a, scales_a, s.a_rows, own.depth, s.scale_cols_a);
  m.b = operand_of(v, v.format_b, v.block_b, b, scales_b, c.cols, own.depth, s.scale_cols_b);
  m.output = c.variant.dtype;
  m.alpha = own.alpha;
  static const std::byte kNoElements{};
  if (own.adds) m.c = c_values.empty() ? &kNoElements : c_values.data();
  constexpr std::array kKinds{Grouping::none, Grouping::rows, Grouping::depth, Grouping::masked};  // mxcheck_grouping
  m.grouping = kKinds.at(static_cast<std::size_t>(v.groups));
  m.offsets = c.experts, m.counts = own.counts;
  m.row_index = index, m.gathers = c.gather != 0;
  // Where there is no C to start from, a sum starts from zero.
  if (!own.adds) m.contract.from_c = false;
  return m;
}

MatmulContract MatmulProblem::contract() const { return parse_matmul_contract(contract_text(c.variant.operation)); }

std::vector<ExpectedTensor> MatmulProblem::answer() const { return {answer(contract())}; }

ExpectedTensor MatmulProblem::answer(const MatmulContract& contract) const {
  const TensorInfo info = output_info(c);
  ExpectedTensor d{info,
                   std::vector<std::byte>(static_cast<std::size_t>(info.rows * info.cols) * code_width(info.format))};
  mxcheck::matmul(matmul(contract), d.bytes.data());
  return d;
}

void MatmulProblem::explain(std::size_t, Finding& finding) const { (void)explain_steps(finding); }

std::uint32_t MatmulProblem::explain_steps(Finding& finding) const {
  if (!finding.difference) return 0;
  const Difference::Element& at = finding.difference->first;
  const Matmul m = matmul(contract());
  const bool by_depth = m.grouping == Grouping::depth;
  const std::int64_t rows = std::max<std::int64_t>(1, c.rows);
  const ExplainedOutput explained =
      explain_output(m, by_depth ? at.row / rows : 0, by_depth ? at.row % rows : at.row, at.col);
  constexpr std::size_t kMost = 24;
  finding.element.push_back(fmt::format("expected, under {}:", to_text(m.contract)));
  for (std::size_t i = 0; i < explained.lines.size(); ++i) {
    const bool left_out = explained.lines.size() > kMost && i >= kMost / 2 && i + kMost / 2 < explained.lines.size();
    if (!left_out) finding.element.push_back("  " + explained.lines[i]);
    if (left_out && i == kMost / 2) finding.element.push_back("  ...");
  }
  finding.element.push_back("expected  " + notations(c.variant.dtype, at.expected));
  finding.element.push_back("observed  " + notations(c.variant.dtype, at.observed));
  return explained.word;
}

// Operands of GEMMs. Element (row, k) is a pure function of the case, the operand and its place.
//
//   codes       integers from -2 to 2: up to 4095 of k every sum is exact, and every order and contract agrees
//   normal      normal, the rows' sizes spread over 2^-6 to 2^5, one in 256 eight times larger
//   boundaries  pairs k, k + 1 of equal sizes, each operand's with opposite signs, and terms at the edge of the window
//   bits        uniform codes, NaN and infinities included
//   wide        finite codes with uniform exponents
//   specials    normal with a NaN or an infinity in one row in eight, zeros, subnormals, and the largest values
//   sparse      one code in 32 is not zero
//   slots       a value that encodes its position: neighbouring rows, blocks of k and operands differ
//   every_word  one-hot rows: row r of one operand has a single 1, at k = (r + seed / 2) modulo the depth, and the
//               other encodes its position, so that D is that one's columns; A is one-hot where the seed is even, else
//   every_row   ones; scales are those that are special, row by row. From a seed of 2 on row r has its own, that of
//               number r + seed, in block r of k alone (modulo their number), and the others are those of normal data
//
// With cancels=D in the case, whatever its data: three products in four cancel, for k and k + D have the same sizes,
// and A the opposite sign; the others are small and stay. D is within a step of a tensor core, in another step, or in
// another block, whose scale is then the same. Orders of sums and lost bits show in what stays.
//
// E8M0 scales are 2^-20 to 2^20, under wide and bits anything from 0 to 254, under specials 255 now and then. FP32
// scales have the same exponents and random significands. E4M3 scales are 2^-3 to 2^3, under wide anything finite,
// under bits any byte, under specials zeros, NaN, signs and the ends of the format now and then.

namespace {

// Normal ones alone.
double two_to(int exponent) { return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52); }

// In cases with products that cancel, true where the products of these 16 of k of a row of A do not.
bool products_stay(std::uint64_t seed_of_a, std::int64_t row, std::int64_t sixteenth) {
  return random_word(seed_of_a ^ 0x57A75, static_cast<std::uint64_t>(row << 20 | sixteenth)) % 4 == 0;
}

class OperandCodes {
 public:
  OperandCodes(const Case& c, Format format, std::uint64_t salt, std::int64_t depth)
      : data_(c.data),
        f_(spec(format)),
        format_(format),
        seed_(c.seed ^ salt),
        depth_(depth),
        step_(c.seed / 2),
        is_a_(salt == 0xA),
        distance_(matmul_case(c).cancels),
        one_hot_((c.seed & 1) == (salt == 0xA ? 0 : 1)) {}

  // Sets the values that the elements of a row share. To be called before at().
  void go_to(std::int64_t row) {
    row_ = row;
    const auto number = static_cast<std::uint64_t>(row);
    size_ = two_to(static_cast<int>(random_word(seed_ ^ 0x2074, number) % 12) - 6);
    kind_ = random_word(seed_ ^ 0x59EC, number) % 8;
    hot_ = depth_ == 0 ? 0 : static_cast<std::int64_t>((number + step_) % static_cast<std::uint64_t>(depth_));
  }

  [[nodiscard]] std::uint32_t at(std::int64_t k) const {
    if (distance_ != 0) return cancelling(k);
    const std::uint64_t word = random_word(seed_, static_cast<std::uint64_t>(row_ * depth_ + k));
    switch (data_) {
      case Data::zeros: return 0;
      case Data::codes: return near(static_cast<double>(word % 5) - 2);
      case Data::boundaries: return paired(k, word);
      case Data::bits: return static_cast<std::uint32_t>(word >> 32) & (sign_bit(format_) * 2 - 1);
      case Data::wide: return any_finite(format_, word);
      case Data::specials: return special(word);
      case Data::sparse: return word % 32 == 0 ? normal(mix64(word)) : 0;
      case Data::slots: return slot(k);
      case Data::every_word: return one_hot_ ? one_hot(k) : slot(k);
      case Data::every_row: return near(1);
      default: return normal(word);
    }
  }

 private:
  [[nodiscard]] std::uint32_t near(double value) const { return nearest_bits(format_, value); }
  [[nodiscard]] std::uint32_t normal(std::uint64_t word) const {
    return near(four_uniforms(word) * 1.75 * size_ * ((mix64(word) & 0xFF) == 0 ? 8 : 1));
  }
  [[nodiscard]] std::uint32_t cancelling(std::int64_t k) const {
    const bool second = (k / distance_ & 1) != 0;
    const std::int64_t first = second ? k - distance_ : k;
    const std::uint64_t word = random_word(seed_ ^ 0xCA9CE2, static_cast<std::uint64_t>(row_ * depth_ + first));
    // Which products stay is A's to say, of 16 at a time, and both of a pair do.
    const bool stays = is_a_ && products_stay(seed_, row_, first / 16);
    const int least = std::max(1 - f_.bias - f_.mantissa_bits, -16);
    const int most = std::min(f_.bias, 14);  // within E5M2 and FP16
    const int exponents = stays ? (most - least + 1) / 2 : most - least + 1;
    const double size = (1 + static_cast<double>(word >> 32 & 7) / 8) *
                        two_to(least + static_cast<int>(word >> 40 & 0xFFFF) % std::max(1, exponents));
    const bool negative = (word >> 60 & 1) != 0;
    const bool flips = is_a_ && !stays && second;
    return near(negative != flips ? -size : size);
  }
  [[nodiscard]] std::uint32_t paired(std::int64_t k, std::uint64_t word) const {
    const std::uint64_t pair = random_word(seed_ ^ 0xCA9CE1, static_cast<std::uint64_t>(row_ * depth_ + k / 2));
    if (pair % 4 == 0)
      return near((static_cast<double>(word % 15) - 7) * two_to(-6 - static_cast<int>(word >> 32) % 4));
    const double value = (1 + static_cast<double>(pair >> 32 & 7) / 8) * two_to(static_cast<int>(pair >> 40) % 5);
    return near((k & 1) != 0 ? -value : value);
  }
  [[nodiscard]] std::uint32_t special(std::uint64_t word) const {
    const std::uint32_t sign = word >> 63 != 0 ? sign_bit(format_) : 0;
    if (kind_ == 0 && word % 61 == 0) return sign | f_.nan_code;
    if (kind_ == 1 && word % 61 == 0 && f_.encoding == Encoding::ieee) return sign | (f_.max_code + 1);
    if (kind_ == 2) return sign;
    if (kind_ == 3) return sign | (static_cast<std::uint32_t>(word) & ((std::uint32_t{1} << f_.mantissa_bits) - 1));
    if (kind_ == 4) return sign | (f_.max_code - static_cast<std::uint32_t>(word % 3));
    return normal(word);
  }
  [[nodiscard]] std::uint32_t one_hot(std::int64_t k) const { return k == hot_ ? near(1) : 0; }
  [[nodiscard]] std::uint32_t slot(std::int64_t k) const {
    const std::int64_t place = row_ * 7 + k / 32 * 5 + k % 32 * 3 + static_cast<std::int64_t>(seed_ % 13);
    return near((1 + static_cast<double>(place % 8) / 8) * two_to(static_cast<int>(place / 8 % 4) - 2) *
                ((place / 3) % 2 == 0 ? 1 : -1));
  }

  Data data_;
  const FormatSpec& f_;
  Format format_;
  std::uint64_t seed_;
  std::int64_t depth_;
  std::uint64_t step_;
  bool is_a_;
  std::int64_t distance_;  // of products that cancel
  bool one_hot_;
  std::int64_t row_ = 0;
  double size_ = 1;         // of normal data
  std::uint64_t kind_ = 0;  // of specials
  std::int64_t hot_ = 0;    // the k of a one-hot row
};

constexpr std::array<std::uint8_t, 8> kSpecialBytes{126, 255, 0, 254, 1, 253, 127, 128};
// Signs, zeros, infinities, NaN, subnormals and the ends of what is normal; those before the seventh are of each kind.
constexpr std::array<std::uint32_t, kSpecialScales> kSpecialWords{
    0xBF800000, 0xBEC00000, 0x80000000, 0x7F800000, 0x7FC00000, 0x80000200, 0xFF800000,
    0x00000000, 0x00000001, 0x007FFFFF, 0x80800000, 0x00800000, 0xFF7FFFFF, 0x7F7FFFFF,
    0x3F800000, 0xC12AAAAB, 0xFFC00001, 0x5F800000, 0x9F800000, 0x3FC00000};

std::uint8_t scale_byte(Data data, std::uint64_t word, std::int64_t row) {
  switch (data) {
    case Data::every_row: return kSpecialBytes[static_cast<std::size_t>(row) % kSpecialBytes.size()];
    case Data::zeros:
    case Data::codes: return 127;
    case Data::bits:
    case Data::wide: return static_cast<std::uint8_t>(word % 255);
    case Data::specials:
      if (word % 97 == 0) return 255;
      if (word % 97 < 8) return word % 2 == 0 ? 0 : 254;
      break;
    case Data::slots: return static_cast<std::uint8_t>(row);  // 256 rows: every byte, on both sides every pair
    default: break;
  }
  return static_cast<std::uint8_t>(107 + (word >> 8) % 41);
}

// Both NaN, zeros, subnormals, 1 and the largest, with and without a sign.
constexpr std::array<std::uint8_t, 12> kSpecialE4m3{0x7F, 0x00, 0xFF, 0x80, 0x01, 0x7E,
                                                    0x07, 0x08, 0xFE, 0x38, 0xB8, 0x81};

std::uint8_t e4m3_scale_byte(Data data, std::uint64_t word, std::int64_t row) {
  const std::uint64_t some = word >> 8;
  switch (data) {
    case Data::every_row: return kSpecialE4m3[static_cast<std::size_t>(row) % kSpecialE4m3.size()];
    case Data::zeros:
    case Data::codes: return 0x38;
    case Data::bits:
    case Data::wide: return static_cast<std::uint8_t>(data == Data::bits ? some : some % 0x7F);
    case Data::specials:
      if (word % 97 < kSpecialE4m3.size()) return kSpecialE4m3[word % 97];
      break;
    case Data::slots: return static_cast<std::uint8_t>(row);  // 256 rows: every byte, on both sides every pair
    default: break;
  }
  return static_cast<std::uint8_t>(0x20 + some % 0x30);
}

float scale_value(Data data, std::uint64_t word, std::int64_t row) {
  const std::uint8_t byte = scale_byte(data, word, row);
  if (data == Data::zeros || data == Data::codes) return 1;
  if (data == Data::every_row)
    return std::bit_cast<float>(kSpecialWords[static_cast<std::size_t>(row) % kSpecialScales]);
  const std::uint32_t mantissa = static_cast<std::uint32_t>(word >> 40) & 0x7FFFFF;
  if (data == Data::specials && word % 97 == 9) return 0;
  return std::bit_cast<float>(std::uint32_t{byte} << 23 | mantissa);
}

}  // namespace

std::vector<std::byte> expand_operand(const Case& c, Format format, std::uint64_t salt, std::int64_t rows,
                                      std::int64_t depth) {
  const std::size_t width = code_width(format);
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows * depth) * width);
  parallel_ranges(rows, rows * depth, 0, [&](std::int64_t begin, std::int64_t end) {
    OperandCodes codes(c, format, salt, depth);
    std::byte* to = bytes.data() + static_cast<std::size_t>(begin * depth) * width;
    for (std::int64_t row = begin; row < end; ++row) {
      codes.go_to(row);
      for (std::int64_t k = 0; k < depth; ++k, to += width) {
        const std::uint32_t code = codes.at(k);
        std::memcpy(to, &code, width);
      }
    }
  });
  return bytes;
}

std::vector<std::byte> expand_operand_scales(const Case& c, std::uint64_t salt, std::int64_t rows,
                                             std::int64_t blocks) {
  const int kind = matmul_of(c.variant).scales;
  const bool bytes_only = kind != MXCHECK_FP32;
  std::vector<std::byte> out(static_cast<std::size_t>(rows * blocks) * (bytes_only ? 1 : 4));
  // Blocks whose products cancel have the same scales.
  const std::int64_t width = salt == 0xA ? matmul_of(c.variant).block.cols : matmul_of(c.variant).block_b.cols;
  const bool paired_scales = kind == MXCHECK_E4M3 && salt == 0xA && matmul_case(c).cancels != 0;
  const std::int64_t paired = width > 0 ? matmul_case(c).cancels / width : 0;
  const bool in_one_block = c.data == Data::every_row && c.seed >= kSpecialInOneBlock;
  for (std::int64_t i = 0; i < rows * blocks; ++i) {
    const bool is_second = paired > 0 && (i % blocks / paired & 1) != 0;
    const std::int64_t number = is_second ? i - paired : i;
    const std::uint64_t word = random_word(c.seed ^ salt ^ 0x5CA1E, static_cast<std::uint64_t>(number));
    const std::int64_t row = i / blocks + (in_one_block ? static_cast<std::int64_t>(c.seed % 1024) : 0);
    const bool is_usual = in_one_block && i % blocks != i / blocks % blocks;
    const Data data = is_usual ? Data::normal : c.data;
    std::uint8_t byte = kind == MXCHECK_E4M3 ? e4m3_scale_byte(data, word, row) : scale_byte(data, word, row);
    // E2M1 has too few sizes: here blocks of products that cancel are large, and of those that stay small.
    if (paired_scales && products_stay(c.seed ^ salt, row, number % blocks))
      byte = static_cast<std::uint8_t>(0x01 + word % 0x0F);
    else if (paired_scales)
      byte = static_cast<std::uint8_t>(0x60 + word % 0x1F);
    const float value = scale_value(data, word, row);
    if (bytes_only)
      out[static_cast<std::size_t>(i)] = std::byte{byte};
    else
      std::memcpy(out.data() + 4 * i, &value, 4);
  }
  return out;
}

std::vector<std::byte> expand_c(const Case& c, std::int64_t count) {
  const Format format = c.variant.dtype;
  const std::size_t width = code_width(format);
  std::vector<std::byte> out(static_cast<std::size_t>(count) * width);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t word = random_word(c.seed ^ 0xC, static_cast<std::uint64_t>(i));
    std::uint32_t bits = static_cast<std::uint32_t>(word >> 32);  // bits, wide: any word
    if (format != Format::fp32) bits &= 0xFFFF;
    const double value = (static_cast<double>(word % 4096) - 2048) / 256;
    const bool far = word >> 60 == 0;  // a C that rules the window
    if (c.data == Data::zeros)
      bits = 0;
    else if (c.data == Data::codes)
      bits = nearest_bits(format, static_cast<double>(word % 9) - 4);
    else if (c.data != Data::bits && c.data != Data::wide) {
      bits = nearest_bits(format, value * (far ? two_to(static_cast<int>(word >> 16) % 24) : 1));
    }
    std::memcpy(out.data() + static_cast<std::size_t>(i) * width, &bits, width);
  }
  return out;
}

}  // namespace mxcheck
