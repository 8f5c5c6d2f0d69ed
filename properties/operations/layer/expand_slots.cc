// Slots of tokens, and h as codes.

#include "properties/operations/layer/expand.h"

namespace mxcheck {

// Where row i of y is y(i, j) whatever the window, a token's slots are those of its place: what is added up stays the
// same while tokens and columns around it go.
DrawnSlots expand_slots(const Case& c) {
  const LayerCase& own = layer_case(c);
  DrawnSlots slots{{0}, {}};
  for (std::int64_t t = own.first_row; t < own.first_row + c.rows; ++t) {
    const std::uint64_t word = random_word(c.seed ^ 0x70CE, static_cast<std::uint64_t>(t));
    // A third of the tokens have as many as there may be; others any number, none among them.
    const auto any = static_cast<std::int64_t>((word >> 8) % static_cast<std::uint64_t>(own.most + 1));
    const std::int64_t count = word % 3 == 0 ? own.most : any;
    for (std::int64_t slot = 0; slot < count; ++slot) {
      const std::uint64_t one = random_word(c.seed ^ 0x5107, static_cast<std::uint64_t>(t << 20 | slot));
      const bool dropped = own.y_rows == 0 || one % 100 < static_cast<std::uint64_t>(own.drops);
      const auto row = dropped ? 0 : (one >> 16) % static_cast<std::uint64_t>(own.y_rows);
      slots.token_rows.push_back(dropped ? -1 : static_cast<std::int32_t>(row));
    }
    slots.token_offsets.push_back(static_cast<std::int64_t>(slots.token_rows.size()));
  }
  return slots;
}

std::vector<std::uint8_t> expand_coded_h(const Case& c) {
  const LayerCase& own = layer_case(c);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(c.rows * 2 * c.cols));
  if (c.data == Data::zeros) return codes;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < 2 * c.cols; ++j) {
      const auto place = static_cast<std::uint64_t>((own.first_row + i) << 31 | (own.first_col + j));
      std::uint64_t word = random_word(c.seed ^ 0xC0DE, place);
      if (c.data == Data::slots) word = static_cast<std::uint64_t>(i * 37 + j * 5);
      if (c.data == Data::every_word) word = c.seed + static_cast<std::uint64_t>(i * 2 * c.cols + j);
      const bool special = c.data == Data::bits || c.data == Data::every_word;
      auto code = static_cast<std::uint32_t>(word & 0xFF);
      // No NaN and no infinity among ordinary ones.
      if (!special && (code & 0x7F) > spec(c.variant.dtype).max_code) code = spec(c.variant.dtype).max_code;
      if (c.data == Data::specials && word >> 60 == 0) code = static_cast<std::uint32_t>(word >> 50 & 0x80) | 0x7F;
      if (c.data == Data::sparse && word >> 59 != 0) code = 0;
      codes[static_cast<std::size_t>(i * 2 * c.cols + j)] = static_cast<std::uint8_t>(code);
    }
  }
  return codes;
}

std::vector<std::uint8_t> expand_scales_of_h(const Case& c) {
  const std::int64_t across = (2 * c.cols + 31) / 32;
  const LayerCase& own = layer_case(c);
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(c.rows * across), 127);
  if (c.data == Data::zeros) return scales;
  const bool any = c.data == Data::bits || c.data == Data::wide || c.data == Data::specials;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < across; ++j) {
      const auto place = static_cast<std::uint64_t>((own.first_row + i) << 31 | j);
      const std::uint64_t word = random_word(c.seed ^ 0x5CA1, place);
      auto scale = static_cast<std::uint8_t>(118 + word % 10);
      if (any && word % 4 == 0) scale = static_cast<std::uint8_t>(word >> 8);
      scales[static_cast<std::size_t>(i * across + j)] = scale;
    }
  }
  return scales;
}

}  // namespace mxcheck
