#include "emulation/sm100/tensor_core/gather.h"

#include <cstring>
#include <string>
#include <vector>

#include "numerics/error.h"

namespace mxcheck::emulation::sm100 {
namespace {

constexpr std::size_t kUnit = 16;

// K-major: the units come in the order of the rows' bytes.
void gather_rows(std::span<const std::uint32_t> units, std::span<const std::byte> shared, std::uint8_t* out) {
  for (const std::uint32_t unit : units) {
    std::memcpy(out, shared.data() + unit, kUnit);
    out += kUnit;
  }
}

// MN-major: a unit is a piece of a column, and spreads over the rows.
void gather_columns(std::span<const std::uint32_t> units, const OperandLayout& layout,
                    std::span<const std::byte> shared, std::uint8_t* out) {
  const auto bytes = static_cast<std::size_t>(layout.element_bytes);
  const auto row_bytes = static_cast<std::size_t>(layout.k) * bytes;
  const std::size_t units_per_k = static_cast<std::size_t>(layout.rows) * bytes / kUnit;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::size_t first_row = i % units_per_k * (kUnit / bytes);
    std::uint8_t* to = out + first_row * row_bytes + i / units_per_k * bytes;
    const std::byte* from = shared.data() + units[i];
    for (std::size_t j = 0; j < kUnit; j += bytes) {
      std::memcpy(to, from + j, bytes);
      to += row_bytes;
    }
  }
}

}  // namespace

void gather(const SharedMatrix& matrix, const OperandLayout& layout, std::span<const std::byte> shared,
            std::uint8_t* out) {
  const std::vector<std::uint32_t> units = operand_units(matrix, layout);
  for (const std::uint32_t unit : units) {
    if (unit + kUnit <= shared.size()) continue;
    throw Error(ErrorKind::usage, "an operand's 16 bytes at " + std::to_string(unit) + ", outside of " +
                                      std::to_string(shared.size()) + " bytes of shared memory");
  }
  layout.mn_major ? gather_columns(units, layout, shared, out) : gather_rows(units, shared, out);
}

}  // namespace mxcheck::emulation::sm100
