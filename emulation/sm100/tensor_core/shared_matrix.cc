#include "emulation/sm100/tensor_core/shared_matrix.h"

#include <cstring>
#include <utility>

#include "emulation/sm100/tensor_core/instruction.h"
#include "numerics/error.h"

namespace mxcheck::emulation::sm100 {
namespace {

void check_swizzle(Swizzle swizzle) {
  if (swizzle != Swizzle::b128_atom32) return;
  throw Error(ErrorKind::usage, "the 128-byte swizzle with 32-byte atoms is not modelled: 0, 2, 4 and 6 are");
}

std::string text(std::uint32_t value) { return std::to_string(value); }

// Bits, and what is wrong with them.
std::pair<Field, const char*> matrix_rule_text(MatrixRule rule) {
  constexpr const char* kReserved = "where 0 is right: reserved";
  switch (rule) {
    case MatrixRule::bits_15_14: return {{15, 14}, kReserved};
    case MatrixRule::bits_31_30: return {{31, 30}, kReserved};
    case MatrixRule::constant: return {{48, 46}, "where 1 is right: the constant of tcgen05 (Hopper's is 0)"};
    case MatrixRule::no_base_offset: return {{51, 49}, "is a base offset, which is not modelled: 0 is right"};
    case MatrixRule::relative: return {{52, 52}, "makes the leading offset absolute, which sm_103a has: 0 is right"};
    case MatrixRule::bits_60_53: return {{60, 53}, kReserved};
    case MatrixRule::no_atoms_of_32:
      return {{63, 61}, "is the 128-byte swizzle with 32-byte atoms, which is not modelled: 0, 2, 4 and 6 are"};
    case MatrixRule::swizzle: break;
  }
  return {{63, 61}, "is no swizzle: 0 is none, 2 128 bytes, 4 64 bytes, 6 32 bytes"};
}

void shared_matrix_check(const OperandLayout& layout) {
  const bool whole = !layout.mn_major || layout.rows * layout.element_bytes % static_cast<int>(kSharedUnit) == 0;
  if ((layout.element_bytes == 1 || layout.element_bytes == 2) && layout.rows > 0 && whole &&
      layout.k * layout.element_bytes == 32) {
    return;
  }
  throw Error(ErrorKind::usage, "an operand of " + std::to_string(layout.rows) + " by " + std::to_string(layout.k) +
                                    " elements of " + std::to_string(layout.element_bytes) +
                                    " bytes: 32 bytes of K, and if MN-major whole 16 bytes of MN, are right");
}

// The rules of a read through a swizzle that are broken, `bytes` of each row, in words.
void say_broken(const SharedMatrix& d, const std::string& what, std::uint32_t bytes, Rules<ReadRule> broken,
                std::vector<std::string>& problems) {
  const std::uint32_t span = swizzle_span(d.swizzle);
  const std::uint32_t atom = span * kAtomRows;
  const std::string periods = "-byte swizzle: only multiples of " + text(atom) + ", the pattern's period, are modelled";
  if (broken.has(ReadRule::first_row)) {
    problems.push_back(what + " starts at " + text(d.start) + ", in row " + text(d.start / span % kAtomRows) +
                       " of a " + text(span) + "-byte swizzle: the first row, up to " + text(span - kSharedUnit) +
                       " after a multiple of " + text(atom) + ", is right");
  }
  if (broken.has(ReadRule::row_end)) {
    problems.push_back(what + " reads " + text(bytes) + " bytes at " + text(d.start % span) + " of a row of a " +
                       text(span) + "-byte swizzle, past its end: at most " + text(span) + " fit in");
  }
  if (broken.has(ReadRule::stride)) {
    problems.push_back(what + " has the stride offset " + text(d.stride) + " with a " + text(span) + periods);
  }
  if (broken.has(ReadRule::leading)) {
    problems.push_back(what + " has the leading offset " + text(d.leading) + " with a " + text(span) + periods);
  }
}

// The first unit that is not in shared memory.
void say_outside(const SharedMatrix& d, const std::string& what, const OperandLayout& layout,
                 std::uint32_t shared_bytes, std::vector<std::string>& problems) {
  const int units = units_of(layout);
  for (int line = 0; line < lines_of(layout); ++line) {
    const int unit = first_outside(d, layout.mn_major, line, units, shared_bytes);
    if (unit == units) continue;
    problems.push_back(what + " reads " + text(kSharedUnit) + " bytes at " +
                       text(unit_address(d, layout.mn_major, line, unit)) + " (" + (layout.mn_major ? "k" : "row") +
                       " " + std::to_string(line) + ", unit " + std::to_string(unit) + "): shared memory has " +
                       text(shared_bytes));
    return;
  }
}

// K-major: the units come in the order of the rows' bytes.
void gather_rows(std::span<const std::uint32_t> units, std::span<const std::byte> shared, std::uint8_t* out) {
  for (const std::uint32_t unit : units) {
    std::memcpy(out, shared.data() + unit, kSharedUnit);
    out += kSharedUnit;
  }
}

// MN-major: a unit is a piece of a column, and spreads over the rows.
void gather_columns(std::span<const std::uint32_t> units, const OperandLayout& layout,
                    std::span<const std::byte> shared, std::uint8_t* out) {
  const auto bytes = static_cast<std::size_t>(layout.element_bytes);
  const auto row_bytes = static_cast<std::size_t>(layout.k) * bytes;
  const std::size_t units_per_k = static_cast<std::size_t>(layout.rows) * bytes / kSharedUnit;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::size_t first_row = i % units_per_k * (kSharedUnit / bytes);
    std::uint8_t* to = out + first_row * row_bytes + i / units_per_k * bytes;
    const std::byte* from = shared.data() + units[i];
    for (std::size_t j = 0; j < kSharedUnit; j += bytes) {
      std::memcpy(to, from + j, bytes);
      to += row_bytes;
    }
  }
}

}  // namespace

DecodedMatrix decode_shared_matrix(std::uint64_t bits) {
  const ReadMatrix read = read_matrix(bits);
  DecodedMatrix d{read, {}};
  for (int i = 0; i <= static_cast<int>(MatrixRule::swizzle); ++i) {
    const auto rule = static_cast<MatrixRule>(i);
    if (!read.broken.has(rule)) continue;
    const auto [field, what] = matrix_rule_text(rule);
    d.problems.push_back("matrix descriptor: " + name_of(field) + " = " + text(value_of(bits, field)) + " " + what);
  }
  return d;
}

std::uint32_t swizzle_span(Swizzle swizzle) {
  check_swizzle(swizzle);
  return kSharedUnit << swizzle_bits(swizzle);
}

std::uint32_t swizzled(Swizzle swizzle, std::uint32_t address) {
  check_swizzle(swizzle);
  return unit_address({.start = address, .swizzle = swizzle}, false, 0, 0);
}

std::vector<std::uint32_t> operand_units(const SharedMatrix& matrix, const OperandLayout& layout) {
  shared_matrix_check(layout);
  check_swizzle(matrix.swizzle);
  const int lines = lines_of(layout);
  const int units = units_of(layout);
  std::vector<std::uint32_t> all;
  all.reserve(static_cast<std::size_t>(lines) * static_cast<std::size_t>(units));
  for (int line = 0; line < lines; ++line) {
    for (int unit = 0; unit < units; ++unit) all.push_back(unit_address(matrix, layout.mn_major, line, unit));
  }
  return all;
}

std::vector<std::string> operand_problems(const SharedMatrix& matrix, const OperandLayout& layout,
                                          std::uint32_t shared_bytes) {
  shared_matrix_check(layout);
  check_swizzle(matrix.swizzle);
  std::vector<std::string> problems;
  say_broken(matrix, "the operand", row_bytes_of(matrix, layout), broken_rules(matrix, layout), problems);
  say_outside(matrix, "the operand", layout, shared_bytes, problems);
  return problems;
}

std::vector<std::string> cp_problems(const SharedMatrix& matrix, CpShape shape, std::uint32_t shared_bytes) {
  check_swizzle(matrix.swizzle);
  std::vector<std::string> problems;
  const CpSource source = cp_source(shape);
  const OperandLayout layout{false, 1, source.rows, source.units * static_cast<int>(kSharedUnit)};
  say_broken(matrix, "the copy", static_cast<std::uint32_t>(layout.k), broken_rules(matrix, shape), problems);
  say_outside(matrix, "the copy", layout, shared_bytes, problems);
  return problems;
}

void gather(const SharedMatrix& matrix, const OperandLayout& layout, std::span<const std::byte> shared,
            std::uint8_t* out) {
  const std::vector<std::uint32_t> units = operand_units(matrix, layout);
  for (const std::uint32_t unit : units) {
    if (unit + kSharedUnit <= shared.size()) continue;
    throw Error(ErrorKind::usage, "an operand's 16 bytes at " + std::to_string(unit) + ", outside of " +
                                      std::to_string(shared.size()) + " bytes of shared memory");
  }
  layout.mn_major ? gather_columns(units, layout, shared, out) : gather_rows(units, shared, out);
}

}  // namespace mxcheck::emulation::sm100
