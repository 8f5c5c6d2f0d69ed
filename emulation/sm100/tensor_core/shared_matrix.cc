#include "emulation/sm100/tensor_core/shared_matrix.h"

#include "numerics/error.h"

namespace mxcheck::emulation::sm100 {
namespace {

constexpr std::uint32_t kSharedMatrixUnit =
    16;  // bytes: what a swizzle moves as a whole, since it leaves bits 3:0 alone
constexpr int kAtomRows = 8;

// s of the XOR.
constexpr int swizzle_bits(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::none: return 0;
    case Swizzle::b32: return 1;
    case Swizzle::b64: return 2;
    case Swizzle::b128: return 3;
    case Swizzle::b128_atom32: break;
  }
  throw Error(ErrorKind::usage, "the 128-byte swizzle with 32-byte atoms is not modelled: 0, 2, 4 and 6 are");
}

constexpr std::uint32_t field(std::uint64_t bits, int high, int low) {
  return static_cast<std::uint32_t>((bits >> low) & ((std::uint64_t{1} << (high - low + 1)) - 1));
}

std::string text(std::uint32_t value) { return std::to_string(value); }

void shared_matrix_check(const OperandLayout& layout) {
  const bool whole = !layout.mn_major || layout.rows * layout.element_bytes % static_cast<int>(kSharedMatrixUnit) == 0;
  if ((layout.element_bytes == 1 || layout.element_bytes == 2) && layout.rows > 0 && whole &&
      layout.k * layout.element_bytes == 32) {
    return;
  }
  throw Error(ErrorKind::usage, "an operand of " + std::to_string(layout.rows) + " by " + std::to_string(layout.k) +
                                    " elements of " + std::to_string(layout.element_bytes) +
                                    " bytes: 32 bytes of K, and if MN-major whole 16 bytes of MN, are right");
}

// One 16-byte unit. `line` and `unit` are the row and the unit along K (K-major), or k and the unit along MN.
std::uint32_t unit_address(const SharedMatrix& d, bool mn_major, int line, int unit) {
  const std::uint32_t span = swizzle_span(d.swizzle);
  const auto in_atom = static_cast<std::uint32_t>(line % kAtomRows);
  const auto atom = static_cast<std::uint32_t>(line / kAtomRows);
  const auto u = static_cast<std::uint32_t>(unit);
  std::uint32_t offset = in_atom * span;
  if (d.swizzle == Swizzle::none) {
    // LBO and SBO trade places between the two majors, here alone.
    offset += mn_major ? atom * d.leading + u * d.stride : atom * d.stride + u * d.leading;
  } else {
    const std::uint32_t along = u * kSharedMatrixUnit;
    offset += atom * d.stride + (mn_major ? along / span * d.leading + along % span : along);
  }
  return swizzled(d.swizzle, d.start + offset);
}

int lines_of(const OperandLayout& layout) { return layout.mn_major ? layout.k : layout.rows; }

int units_of(const OperandLayout& layout) {
  return (layout.mn_major ? layout.rows : layout.k) * layout.element_bytes / static_cast<int>(kSharedMatrixUnit);
}

// Rules of a read through a swizzle: where `bytes` of a row start, and whether the atoms after the first are aligned.
void check_swizzled(const SharedMatrix& d, const char* what, std::uint32_t bytes, bool several_atoms,
                    std::vector<std::string>& problems) {
  if (d.swizzle == Swizzle::none) return;
  const std::uint32_t span = swizzle_span(d.swizzle);
  const std::uint32_t atom = span * kAtomRows;
  if (d.start / span % kAtomRows != 0) {
    problems.push_back(std::string(what) + " starts at " + text(d.start) + ", in row " +
                       text(d.start / span % kAtomRows) + " of a " + text(span) +
                       "-byte swizzle: the first row, up to " + text(span - kSharedMatrixUnit) +
                       " after a multiple of " + text(atom) + ", is right");
  }
  if (d.start % span + bytes > span) {
    problems.push_back(std::string(what) + " reads " + text(bytes) + " bytes at " + text(d.start % span) +
                       " of a row of a " + text(span) + "-byte swizzle, past its end: at most " + text(span) +
                       " fit in");
  }
  if (several_atoms && d.stride % atom != 0) {
    problems.push_back(std::string(what) + " has the stride offset " + text(d.stride) + " with a " + text(span) +
                       "-byte swizzle: only multiples of " + text(atom) + ", the pattern's period, are modelled");
  }
}

void check_end(const char* what, const char* line_name, int line, int unit, std::uint32_t address,
               std::uint32_t shared_bytes, std::vector<std::string>& problems) {
  problems.push_back(std::string(what) + " reads " + text(kSharedMatrixUnit) + " bytes at " + text(address) + " (" +
                     line_name + " " + std::to_string(line) + ", unit " + std::to_string(unit) +
                     "): shared memory has " + text(shared_bytes));
}

}  // namespace

DecodedMatrix decode_shared_matrix(std::uint64_t bits) {
  DecodedMatrix d;
  const auto problem = [&](int high, int low, const std::string& what) {
    const std::string where =
        high == low ? "bit " + std::to_string(low) : "bits " + std::to_string(high) + ":" + std::to_string(low);
    d.problems.push_back("matrix descriptor: " + where + " = " + text(field(bits, high, low)) + " " + what);
  };
  d.matrix.start = field(bits, 13, 0) * kSharedMatrixUnit;
  d.matrix.leading = field(bits, 29, 16) * kSharedMatrixUnit;
  d.matrix.stride = field(bits, 45, 32) * kSharedMatrixUnit;
  d.matrix.base_offset = static_cast<int>(field(bits, 51, 49));
  constexpr const char* kReserved = "where 0 is right: reserved";
  if (field(bits, 15, 14) != 0) problem(15, 14, kReserved);
  if (field(bits, 31, 30) != 0) problem(31, 30, kReserved);
  if (field(bits, 48, 46) != 1) problem(48, 46, "where 1 is right: the constant of tcgen05 (Hopper's is 0)");
  if (field(bits, 51, 49) != 0) problem(51, 49, "is a base offset, which is not modelled: 0 is right");
  if (field(bits, 52, 52) != 0) problem(52, 52, "makes the leading offset absolute, which sm_103a has: 0 is right");
  if (field(bits, 60, 53) != 0) problem(60, 53, kReserved);
  switch (const std::uint32_t code = field(bits, 63, 61); code) {
    case 0:
    case 2:
    case 4:
    case 6: d.matrix.swizzle = static_cast<Swizzle>(code); break;
    case 1:
      problem(63, 61, "is the 128-byte swizzle with 32-byte atoms, which is not modelled: 0, 2, 4 and 6 are");
      break;
    default: problem(63, 61, "is no swizzle: 0 is none, 2 128 bytes, 4 64 bytes, 6 32 bytes"); break;
  }
  return d;
}

std::uint32_t swizzle_span(Swizzle swizzle) { return kSharedMatrixUnit << swizzle_bits(swizzle); }

std::uint32_t swizzled(Swizzle swizzle, std::uint32_t address) {
  const std::uint32_t mask = (1U << swizzle_bits(swizzle)) - 1;
  return address ^ (((address >> 7) & mask) << 4);
}

std::uint32_t element_address(const SharedMatrix& matrix, const OperandLayout& layout, int row, int k) {
  const int across = layout.mn_major ? row : k;
  const int byte = across * layout.element_bytes;
  const auto unit = static_cast<int>(kSharedMatrixUnit);
  return unit_address(matrix, layout.mn_major, layout.mn_major ? k : row, byte / unit) +
         static_cast<std::uint32_t>(byte % unit);
}

std::vector<std::uint32_t> operand_units(const SharedMatrix& matrix, const OperandLayout& layout) {
  shared_matrix_check(layout);
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
  std::vector<std::string> problems;
  const int lines = lines_of(layout);
  const int units = units_of(layout);
  const std::uint32_t span = swizzle_span(matrix.swizzle);
  auto bytes = static_cast<std::uint32_t>(units) * kSharedMatrixUnit;
  // Along MN an operand of several spans starts at one's beginning, and goes on by the leading offset.
  const bool several_spans = layout.mn_major && matrix.swizzle != Swizzle::none && bytes > span;
  if (several_spans) bytes = span;
  check_swizzled(matrix, "the operand", bytes, lines > kAtomRows, problems);
  if (several_spans && matrix.leading % (span * kAtomRows) != 0) {
    problems.push_back("the operand has the leading offset " + text(matrix.leading) + " with a " + text(span) +
                       "-byte swizzle: only multiples of " + text(span * kAtomRows) +
                       ", the pattern's period, are modelled");
  }
  for (int line = 0; line < lines; ++line) {
    for (int unit = 0; unit < units; ++unit) {
      const std::uint32_t address = unit_address(matrix, layout.mn_major, line, unit);
      if (address + kSharedMatrixUnit <= shared_bytes) continue;
      check_end("the operand", layout.mn_major ? "k" : "row", line, unit, address, shared_bytes, problems);
      return problems;
    }
  }
  return problems;
}

CpSource cp_source(CpShape shape) {
  switch (shape) {
    case CpShape::rows32x128b_warpx4: return {32, 1};
    case CpShape::rows128x128b: return {128, 1};
    case CpShape::rows128x256b: return {128, 2};
    case CpShape::rows4x256b: return {4, 2};
    case CpShape::rows64x128b_02_13:
    case CpShape::rows64x128b_01_23: return {64, 1};
  }
  throw Error(ErrorKind::usage, "a shape of tcgen05.cp that there is not");
}

CpLanes cp_lanes(CpShape shape, int row) {
  switch (shape) {
    case CpShape::rows32x128b_warpx4: return {4, {row, row + 32, row + 64, row + 96}};
    case CpShape::rows128x128b:
    case CpShape::rows128x256b: return {1, {row, 0, 0, 0}};
    case CpShape::rows4x256b: return {1, {32 * row, 0, 0, 0}};
    case CpShape::rows64x128b_02_13: return {2, {row, row + 64, 0, 0}};
    case CpShape::rows64x128b_01_23: {
      const int lane = row / 32 * 64 + row % 32;
      return {2, {lane, lane + 32, 0, 0}};
    }
  }
  throw Error(ErrorKind::usage, "a shape of tcgen05.cp that there is not");
}

// The walk of a K-major operand.
std::uint32_t cp_address(const SharedMatrix& matrix, int row, int unit) {
  return unit_address(matrix, false, row, unit);
}

std::vector<std::string> cp_problems(const SharedMatrix& matrix, CpShape shape, std::uint32_t shared_bytes) {
  std::vector<std::string> problems;
  const CpSource source = cp_source(shape);
  check_swizzled(matrix, "the copy", static_cast<std::uint32_t>(source.units) * kSharedMatrixUnit,
                 source.rows > kAtomRows, problems);
  for (int row = 0; row < source.rows; ++row) {
    for (int unit = 0; unit < source.units; ++unit) {
      const std::uint32_t address = cp_address(matrix, row, unit);
      if (address + kSharedMatrixUnit <= shared_bytes) continue;
      check_end("the copy", "row", row, unit, address, shared_bytes, problems);
      return problems;
    }
  }
  return problems;
}

}  // namespace mxcheck::emulation::sm100
