#pragma once
// A tensor as the matrix that quantization takes, read and quantized in panels: memory does not grow with the tensor.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "goldens/io/row_reader.h"
#include "goldens/io/tensor_file.h"
#include "numerics/scale/recipe.h"
#include "reference/common/matrix.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {

struct MatrixInput {
  std::string location;               // for messages
  std::optional<std::int64_t> index;  // which matrix of three dimensions
  std::string dtype;                  // "bf16" or "fp16": what 16-bit integers are the bits of; empty: none
};

// The part of a tensor that is to be read: a matrix, and how many bytes of other matrices lie before it.
struct MatrixHead {
  Format dtype = Format::fp32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t bytes_before = 0;
};
MatrixHead matrix_head(const MatrixInput& input, const TensorHead& head);

// The matrix of a tensor with two dimensions (or three and an index) of F32, BF16 or F16. Error{input} or Error{usage}
// for anything else. The view refers to the tensor's data.
MatrixView matrix_of(const MatrixInput& input, const Tensor& tensor);

// A matrix of a tensor read from its first row to its last in panels, as often as is wanted.
//
//   MatrixPanels panels({"x.h5:/x", std::nullopt, ""});
//   std::vector<std::byte> buffer;
//   const MatrixView panel = panels.next(512, buffer);
class MatrixPanels {
 public:
  // A file's tensor, or real:NAME. Errors: those of open_rows and matrix_head.
  explicit MatrixPanels(MatrixInput input);

  [[nodiscard]] const MatrixHead& head() const { return head_; }
  // The next rows. The view is of the buffer, or of embedded data. Error{input} when the file ends before.
  MatrixView next(std::int64_t rows, std::vector<std::byte>& buffer);
  void rewind();  // Error{input} when the tensor is another one than it was

 private:
  void open();

  MatrixInput input_;
  std::unique_ptr<RowReader> rows_;  // none for embedded tensors
  const std::byte* embedded_ = nullptr;
  MatrixHead head_;
  std::int64_t row_bytes_ = 0;
  std::int64_t at_ = 0;  // the next row
};

// Large enough for every core to have work, small enough for caches to help.
inline constexpr std::int64_t kPanelBytes = 16 << 20;

struct PanelRange {
  std::size_t at = 0;  // rows of blocks [at, end)
  std::size_t end = 0;
};

// Splits a matrix into panels of whole rows of blocks (starts: block_row_starts), each of at most kPanelBytes. A row of
// blocks that is larger is a panel by itself.
std::vector<PanelRange> panels(const std::vector<std::int64_t>& starts, std::int64_t row_bytes);

// The expert offsets within rows [first, first + rows), counted from the first of these rows; empty without experts.
std::vector<std::int64_t> offsets_within(std::span<const std::int64_t> offsets, std::int64_t first, std::int64_t rows);

// True if the reference computes this row of blocks too: one in 64, chosen by a hash, so that they follow no period.
bool is_checked(std::size_t row_of_blocks);

// Error{internal}: the SIMD library and the reference differ in matrix rows [begin, end).
[[noreturn]] void refuse_difference(std::int64_t begin, std::int64_t end);

// Panels of a matrix quantized: by the SIMD library where it offers the recipe, one row of blocks in 64 then checked by
// the reference; elsewhere by the reference.
class PanelQuantizer {
 public:
  PanelQuantizer(Format source, Format element, BlockShape block, const Recipe& recipe);
  // Two levels of scales: the matrix's, of which the panels are parts.
  void set_magnitudes(const Magnitudes& whole) { whole_ = whole; }

  // Writes quantize(panel, element, block, recipe, offsets, threads) to q, whose memory is used again. The panel
  // is the matrix rows from starts.front() to starts.back(), those of its rows of blocks (block_row_starts); the first
  // of them is the matrix's row of blocks `number`. Offsets are the panel's own. From several threads at once, with a q
  // each. Errors: those of quantize(); Error{internal} where library and reference differ.
  void quantize(const MatrixView& panel, std::span<const std::int64_t> starts, std::size_t number,
                std::span<const std::int64_t> offsets, int threads, QuantizedTensor& q) const;

 private:
  Format element_;
  BlockShape block_;
  Recipe recipe_;
  bool simd_;
  std::optional<Magnitudes> whole_;
};

}  // namespace mxcheck
