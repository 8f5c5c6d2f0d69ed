// What goes wrong when scales are put where hardware reads them.

#include <algorithm>

#include "properties/diagnosis/golden_problem.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {
namespace {

std::vector<std::byte> padded(std::vector<std::uint8_t> bytes, std::size_t size, std::uint8_t pad) {
  bytes.resize(size, pad);
  return dataset_bytes(bytes);
}

// Tiles of 128 x 4 in which a byte's place is another function of row and column than it should be.
template <class Offset>
std::vector<std::byte> tiles_with(const std::vector<std::uint8_t>& compact, std::int64_t rows, std::int64_t cols,
                                  std::uint8_t pad, Offset offset) {
  std::vector<std::byte> tiles(static_cast<std::size_t>(layout_bytes(ScaleLayout::tcgen05, {{rows}, cols})),
                               static_cast<std::byte>(pad));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const std::int64_t at = offset(i, j);
      if (at >= 0 && at < static_cast<std::int64_t>(tiles.size())) {
        tiles[static_cast<std::size_t>(at)] = static_cast<std::byte>(compact[static_cast<std::size_t>(i * cols + j)]);
      }
    }
  }
  return tiles;
}

}  // namespace

std::vector<Hypothesis> layout_hypotheses(const GoldenProblem& p, bool tcgen05) {
  const Quantized& q = p.expected;
  const ScaleLayout layout = tcgen05 ? ScaleLayout::tcgen05 : ScaleLayout::deepgemm;
  if (!has_layout(layout, q.block)) return {};
  const bool row_blocks = q.block.rows == 1;
  const ScaleShape shape = scale_shape(q, p.offsets);
  const std::vector<std::int64_t>& by_expert = shape.rows_of_expert;
  const auto lay_out = [=](const std::vector<std::uint8_t>& compact, std::uint8_t pad) {
    return dataset_bytes(to_layout(layout, shape, compact, pad));
  };
  std::vector<Hypothesis> all;
  if (p.own_scales) {
    all.push_back({"the layout is right for the candidate's own scales: only those are wrong",
                   [=, &p] { return lay_out(*p.own_scales, p.pad_byte); }, true});
  }
  for (const std::uint8_t pad : std::initializer_list<std::uint8_t>{0, 1, 127, 254, 255}) {
    if (pad == p.pad_byte) continue;
    all.push_back({"padding of " + std::to_string(pad) + " in place of " + std::to_string(p.pad_byte),
                   [=, &p] { return lay_out(p.expected.scales, pad); }});
  }
  const std::size_t size = lay_out(q.scales, p.pad_byte).size();
  for (const std::uint8_t pad : {p.pad_byte, std::uint8_t{0}}) {
    all.push_back({"compact scales, copied without changing their layout",
                   [=, &p] { return padded(p.expected.scales, size, pad); }});
  }
  const std::int64_t rows = q.scale_rows, cols = q.scale_cols;
  if (by_expert.size() == 1 && row_blocks) {
    const std::int64_t across = (cols + 3) / 4, down = (rows + 127) / 128;
    const auto tiled = [&](const std::string& text, auto offset) {
      if (tcgen05) {
        all.push_back({text, [=, &p] { return tiles_with(p.expected.scales, rows, cols, p.pad_byte, offset); }});
      }
    };
    tiled("tiles in the order of columns", [=](std::int64_t i, std::int64_t j) {
      return (j / 4 * down + i / 128) * 512 + i % 32 * 16 + i % 128 / 32 * 4 + j % 4;
    });
    tiled("tiles without the interleaving of rows 0, 32, 64, 96",
          [=](std::int64_t i, std::int64_t j) { return (i / 128 * across + j / 4) * 512 + i % 128 * 4 + j % 4; });
    tiled("rows padded to 4 columns, and no tiles", [=](std::int64_t i, std::int64_t j) { return i * across * 4 + j; });
    tiled("tiles with rows and columns of the inner 32 x 16 exchanged", [=](std::int64_t i, std::int64_t j) {
      return (i / 128 * across + j / 4) * 512 + (i % 128 / 32 * 4 + j % 4) * 32 + i % 32;
    });
  }
  if (by_expert.size() == 1) {
    all.push_back({"the layout of the scales without transposing them", [=, &p] {
                     return dataset_bytes(to_layout(layout, {{rows}, cols}, p.expected.scales, p.pad_byte));
                   }});
    all.push_back({"the layout of the transposed scales", [=, &p] {
                     std::vector<std::uint8_t> turned(p.expected.scales.size());
                     for (std::int64_t i = 0; i < rows * cols; ++i) {
                       turned[static_cast<std::size_t>(i % cols * rows + i / cols)] =
                           p.expected.scales[static_cast<std::size_t>(i)];
                     }
                     return dataset_bytes(to_layout(layout, {{cols}, rows}, turned, p.pad_byte));
                   }});
  } else {
    all.push_back(
        {"one layout of all rows, not one for each expert", [=, &p] {
           return dataset_bytes(to_layout(layout, {{rows}, cols, p.expected.block}, p.expected.scales, p.pad_byte));
         }});
  }
  if (!tcgen05) {
    all.push_back({"words with their bytes in the opposite order", [=, &p] {
                     std::vector<std::byte> bytes = lay_out(p.expected.scales, p.pad_byte);
                     for (std::size_t i = 0; i + 3 < bytes.size(); i += 4) {
                       std::swap(bytes[i], bytes[i + 3]), std::swap(bytes[i + 1], bytes[i + 2]);
                     }
                     return bytes;
                   }});
  }
  all.push_back({"zeros that nobody wrote over", [size] { return std::vector<std::byte>(size); }});
  return all;
}

}  // namespace mxcheck
