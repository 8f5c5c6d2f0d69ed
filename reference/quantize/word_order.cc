#include "reference/quantize/word_order.h"

#include <cstddef>
#include <string>

#include "numerics/elementary/elementary.h"
#include "numerics/error.h"
#include "reference/common/checked_size.h"
#include "reference/common/parallel.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kTile = 128;  // rows and columns of the tile of a group of threads

// The first thread of the group that has this element's tile, in groups of so many threads.
std::uint64_t first_thread(const WordMatrix& x, std::int64_t row, std::int64_t col, std::int64_t threads) {
  return static_cast<std::uint64_t>(threads * (col / kTile + ceil_div(x.cols, kTile) * (row / kTile)));
}

WordPlace place_of(std::uint64_t first, std::int64_t thread, std::int64_t call, std::int64_t output) {
  return {first + static_cast<std::uint64_t>(thread), static_cast<std::uint64_t>(call), static_cast<int>(output)};
}

// 256 threads. All rows of the tile come first, 32 at a time; then its columns, 64 at a time, of which a thread has
// two neighbours.
WordPlace te_blockwise(const WordMatrix& x, std::int64_t row, std::int64_t col) {
  const std::uint64_t first = first_thread(x, row, col, 256);
  const std::int64_t r = row % kTile, c = col % kTile;
  if (!x.is_of_columns()) return place_of(first, r % 32 * 8 + c / 16, r / 32, c % 16 / 4);
  const std::int64_t before = x.has_rows() ? 4 : 0;
  return place_of(first, c % 64 / 2 * 8 + r / 16, before + c / 64 * 2 + c % 2, r % 16 / 4);
}

// Two halves of a block of 16 are read in the opposite order by the upper half of a warp, against bank conflicts.
std::int64_t half_of(std::int64_t thread, std::int64_t c) { return (c % 16 / 8 + thread % 32 / 16) % 2; }

// 128 threads, 32 rows at a time: the columns of these first, a thread each, then the rows, 16 at a time.
WordPlace te_transpose(const WordMatrix& x, std::int64_t row, std::int64_t col) {
  const std::uint64_t first = first_thread(x, row, col, 128);
  const std::int64_t r = row % kTile, c = col % kTile;
  const std::int64_t columns = x.has_columns() ? 2 : 0, rows = x.has_rows() ? 2 : 0;  // calls
  const std::int64_t call = r / 32 * (columns + rows) + r % 32 / 16;
  if (x.is_of_columns()) return place_of(first, c, call, r % 16 / 4);
  const std::int64_t thread = r % 16 * 8 + c / 16;
  return place_of(first, thread, call + columns, 2 * half_of(thread, c) + c % 8 / 4);
}

// 128 threads, a quarter of the tile at a time: its rows first, 32 at a time, then its columns, of which a thread has
// 16 rows of two neighbours. Warp w has the rows 16 * ((shift(lane) + w) % 4) of lane's columns.
template <class Shift>
WordPlace te_tuned_by(const WordMatrix& x, std::int64_t row, std::int64_t col, const Shift& shift) {
  const std::uint64_t first = first_thread(x, row, col, 128);
  const std::int64_t r = row % 64, c = col % 64;
  const std::int64_t quarter = row % kTile / 64 * 2 + col % kTile / 64;
  const std::int64_t call = quarter * (x.has_columns() ? 4 : 2);
  if (!x.is_of_columns()) {
    const std::int64_t thread = r % 32 * 4 + c / 16;
    return place_of(first, thread, call + r / 32, 2 * half_of(thread, c) + c % 8 / 4);
  }
  const std::int64_t lane = c / 2;
  const std::int64_t warp = (r / 16 + 4 - shift(lane) % 4) % 4;
  return place_of(first, 32 * warp + lane, call + 2 + c % 2, r % 16 / 4);
}

WordPlace te_tuned(const WordMatrix& x, std::int64_t row, std::int64_t col) {
  return te_tuned_by(x, row, col, [](std::int64_t lane) { return lane / 2; });
}
WordPlace te_tuned_2_13(const WordMatrix& x, std::int64_t row, std::int64_t col) {
  return te_tuned_by(x, row, col, [](std::int64_t lane) { return lane; });
}

constexpr std::array<WordOrder, 4> kOrders{
    {{"te_blockwise", "block_scaled_1d_cast_transpose_kernel", "Transformer Engine 2.10 to 2.18 and d0067d0",
      "NVIDIA/TransformerEngine v2.10 (769ed77), v2.14 (f031cf8), v2.18 (27486e0), d0067d0: "
      "transformer_engine/common/transpose/quantize_transpose_vector_blockwise_fp4.cu",
      1, true, te_blockwise},
     {"te_transpose", "quantize_transpose_nvfp4_kernel, quantize_transpose_nvfp4_2D_kernel",
      "Transformer Engine 2.10 to 2.18 and d0067d0",
      "NVIDIA/TransformerEngine v2.10 (769ed77), v2.18 (27486e0), d0067d0: "
      "transformer_engine/common/cast/nvfp4/quantize_transpose_nvfp4.cuh",
      32, true, te_transpose},
     {"te_tuned", "quantize_transpose_nvfp4_tuned_1D_kernel", "Transformer Engine 2.17, 2.18 and d0067d0",
      "NVIDIA/TransformerEngine v2.17 (2e559f0), v2.18 (27486e0), d0067d0: "
      "transformer_engine/common/cast/nvfp4/specialized/quantize_transpose_nvfp4_tuned_1D.cuh",
      32, false, te_tuned},
     {"te_tuned_2_13", "quantize_transpose_nvfp4_tuned_1D_kernel", "Transformer Engine 2.13 to 2.16",
      "NVIDIA/TransformerEngine v2.13 (2877704), v2.16 (4220403): "
      "transformer_engine/common/cast/nvfp4/specialized/quantize_transpose_nvfp4_tuned_1D.cuh",
      32, false, te_tuned_2_13}}};

// Empty if the kernel has the output.
std::string reason_against(const WordOrder& order, const WordMatrix& x) {
  const std::string name(order.name);
  if (x.rows < 0 || x.cols < 0)
    return "words of a matrix of " + std::to_string(x.rows) + " x " + std::to_string(x.cols);
  if (x.output == WordOutput::columns && !order.has_columns_alone)
    return "words " + name + ":columns: this kernel has no columns without rows; columns_of_both has both";
  if (x.rows % order.multiple == 0 && x.cols % order.multiple == 0) return {};
  return "words " + name + ": this kernel takes multiples of " + std::to_string(order.multiple) +
         " rows and columns, and the matrix has " + std::to_string(x.rows) + " x " + std::to_string(x.cols) +
         "; Transformer Engine then has te_blockwise";
}

}  // namespace

std::span<const WordOrder> word_orders() { return kOrders; }

const WordOrder& word_order_named(std::string_view name) { return entry_named(kOrders, "word order", name); }

NamedWords parse_words(std::string_view text) {
  const std::size_t colon = text.find(':');
  const WordOrder& order = word_order_named(text.substr(0, colon));
  if (colon == std::string_view::npos) return {&order};
  return {&order, entry_named(kWordOutputs, "output of words", text.substr(colon + 1)).value};
}

std::string to_text(const NamedWords& words) {
  return std::string(words.order->name) + ":" + std::string(name_in(kWordOutputs, words.output));
}

WordMatrix word_matrix(WordOutput output, std::int64_t rows, std::int64_t cols) {
  const WordMatrix x{rows, cols, output};
  return x.is_of_columns() ? WordMatrix{cols, rows, output} : x;
}

bool has_words(const WordOrder& order, const WordMatrix& x) { return reason_against(order, x).empty(); }

void check_words_of(const WordOrder& order, const WordMatrix& x) {
  const std::string reason = reason_against(order, x);
  if (!reason.empty()) throw Error(ErrorKind::usage, reason);
}

std::uint32_t ordered_word(const WordOrder& order, const WordMatrix& x, const WordSeed& seed, std::int64_t row,
                           std::int64_t col) {
  const WordPlace place = order.place(x, row, col);
  const std::uint64_t low = seed.first + place.call;
  const std::uint64_t high = place.thread + (low < seed.first ? 1 : 0);
  const std::array<std::uint32_t, 4> four =
      philox_words(seed.key, static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
                   static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32));
  const auto element = static_cast<std::uint32_t>((x.is_of_columns() ? row : col) % 4);
  const std::uint32_t byte =
      seed.bytes == WordBytes::natural ? element : (element & 1U) << 1 | element >> 1;  // 0, 2, 1, 3
  return four[static_cast<std::size_t>(place.output)] >> 8 * byte << 24;
}

std::vector<std::uint32_t> ordered_words(const WordOrder& order, const WordMatrix& x, const WordSeed& seed,
                                         int threads) {
  check_words_of(order, x);
  const bool is_transposed = x.is_of_columns();
  const std::int64_t rows = is_transposed ? x.cols : x.rows, cols = is_transposed ? x.rows : x.cols;
  std::vector<std::uint32_t> words(static_cast<std::size_t>(checked_product(rows, cols, "matrix elements")));
  parallel_ranges(rows, std::ssize(words) * 8, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) {
        words[static_cast<std::size_t>(i * cols + j)] =
            ordered_word(order, x, seed, is_transposed ? j : i, is_transposed ? i : j);
      }
    }
  });
  return words;
}

}  // namespace mxcheck
