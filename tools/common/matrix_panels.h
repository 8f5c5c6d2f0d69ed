#pragma once
// A matrix of a tensor read from its first row to its last in panels, as often as is wanted.
//
//   MatrixPanels panels({"x.h5:/x", std::nullopt, ""});
//   std::vector<std::byte> buffer;
//   const MatrixView panel = panels.next(512, buffer);

#include <cstddef>
#include <memory>
#include <vector>

#include "goldens/io/row_reader.h"
#include "tools/common/matrix_input.h"

namespace mxcheck {

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

}  // namespace mxcheck
