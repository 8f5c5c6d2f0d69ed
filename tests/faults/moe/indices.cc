// Faults of indices that have too few bits: right in every layer of fewer than 2^16 tokens and rows.

#include <algorithm>

#include "tests/faults/moe/faulty.h"

namespace mxcheck::faults {
namespace {

std::int64_t low_bits(std::int64_t index, int bits) { return index & ((std::int64_t{1} << bits) - 1); }

}  // namespace

// Row t is that of the token that 16 bits of t name: gathered by the right row_token, it is what the wrong one gives.
Words faulty_gather(std::span<const std::uint16_t> tokens, std::int64_t cols) {
  Words read(tokens.begin(), tokens.end());
  if (!has("row_token_read_as_16_bits")) return read;
  for (std::int64_t t = 0; t * cols < std::ssize(read); ++t)
    std::copy_n(tokens.begin() + low_bits(t, 16) * cols, cols, read.begin() + t * cols);
  return read;
}

// The last offset is the policy's `routed`, which has all of its bits.
LayerRoutes faulty_offsets(const LayerRoutes& routes) {
  LayerRoutes r = routes;
  for (std::size_t e = 1; e + 1 < r.offsets.size(); ++e)
    r.offsets[e] = std::max(r.offsets[e - 1], low_bits(r.offsets[e], 16));
  return r;
}

std::int64_t faulty_count(std::int64_t rows) {
  return has("rows_of_an_expert_counted_in_16_bits") ? low_bits(rows, 16) : rows;
}

std::int64_t faulty_first_slot(std::int64_t slot) {
  return has("token_offsets_read_as_16_bits") ? low_bits(slot, 16) : slot;
}

// -1 is told from a row before it is cut.
std::int32_t faulty_row(std::int32_t row) {
  return has("token_rows_read_as_16_bits") && row >= 0 ? static_cast<std::int32_t>(low_bits(row, 16)) : row;
}

// A later token's store over an earlier one's stays; elements that nothing is stored to are zeros.
Words faulty_elements(Words out) {
  if (!has("elements_of_o_and_dx_counted_in_20_bits")) return out;
  for (std::int64_t i = low_bits(-1, 20) + 1; i < std::ssize(out); ++i) {
    std::uint16_t& element = out[static_cast<std::size_t>(i)];
    out[static_cast<std::size_t>(low_bits(i, 20))] = element;
    element = 0;
  }
  return out;
}

}  // namespace mxcheck::faults
