#include "tools/common/matrix_panels.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "goldens/make/embedded.h"
#include "numerics/error.h"
#include "tools/common/panels.h"

namespace mxcheck {

MatrixPanels::MatrixPanels(MatrixInput input) : input_(std::move(input)) { open(); }

void MatrixPanels::open() {
  if (input_.location.starts_with(kRealPrefix)) {
    const Tensor& tensor = real_tensor(std::string_view(input_.location).substr(kRealPrefix.size()));
    head_ = matrix_head(input_, {tensor.dtype, tensor.shape});
    embedded_ = tensor.data.data() + head_.bytes_before;
  } else {
    rows_ = open_rows(input_.location);
    head_ = matrix_head(input_, rows_->head());
    std::vector<std::byte> before;  // other matrices of the tensor
    for (std::int64_t left = head_.bytes_before; left > 0; left -= static_cast<std::int64_t>(before.size())) {
      before.resize(static_cast<std::size_t>(std::min(left, kPanelBytes)));
      rows_->read(before);
    }
  }
  row_bytes_ = head_.cols * (head_.dtype == Format::fp32 ? 4 : 2);
  at_ = 0;
}

void MatrixPanels::rewind() {
  const MatrixHead before = head_;
  open();
  if (head_.dtype == before.dtype && head_.rows == before.rows && head_.cols == before.cols) return;
  throw Error(ErrorKind::input, input_.location + ": became another tensor while it was read");
}

MatrixView MatrixPanels::next(std::int64_t rows, std::vector<std::byte>& buffer) {
  MatrixView view{head_.dtype, nullptr, rows, head_.cols, head_.cols, std::exchange(at_, at_ + rows)};
  if (embedded_ != nullptr) {
    view.data = embedded_ + view.first_row * row_bytes_;
    return view;
  }
  buffer.resize(static_cast<std::size_t>(rows * row_bytes_));
  rows_->read(buffer);
  view.data = buffer.data();
  return view;
}

}  // namespace mxcheck
