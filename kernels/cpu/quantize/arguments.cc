#include "kernels/cpu/quantize/arguments.h"

#include <array>
#include <cstring>
#include <string>

#include "kernels/common/refusal.h"
#include "kernels/cpu/partition.h"
#include "kernels/cpu/quantize/scalar_cast.h"

namespace mxcheck_kernels::cpu {
namespace {

constexpr std::array kRecipes{OfferedRecipe{"rceil", ScaleRule::rceil}, OfferedRecipe{"floor", ScaleRule::floor},
                              OfferedRecipe{"ocp", ScaleRule::floor}, OfferedRecipe{"torchao", ScaleRule::rceil_fp32},
                              OfferedRecipe{"te", ScaleRule::te}};
constexpr std::array kBlocks{Shape{1, 32},  Shape{32, 1},    Shape{32, 32}, Shape{1, 128},
                             Shape{128, 1}, Shape{128, 128}, Shape{1, 0}};

}  // namespace

QuantizePolicy read_policy(QuantizeOperation operation, const mxcheck_policy* policy, DLDataType type) {
  // A cast from FP64 has the policy of one from FP32: kernels/common does not know the type.
  const bool is_wide = operation == QuantizeOperation::cast && same(type, kFp64Type);
  const QuantizePolicy read = read_quantize_policy(operation, policy, is_wide ? kFp32Type : type, kRecipes, kBlocks);
  if (policy->threads < 0) invalid("policy.threads is " + std::to_string(policy->threads) + ": must be 0 or more");
  return read;
}

void require_scales(const char* name, const Checked& t, const ScaleMap& map, mxcheck_layout layout) {
  if (layout == MXCHECK_COMPACT) return require_shape(name, t, map.bands(), map.scale_cols());
  if (t.cols == map.bytes()) return;
  invalid(std::string(name) + " has " + std::to_string(t.cols) + " bytes: must be " + std::to_string(map.bytes()) +
          ", the tiles of these blocks and experts");
}

// A strided tensor lies in memory as a plain one of its outer extent's rows does, each as long as the inner extent
// spans: that one is checked, and nothing of it overlaps if rows of it do not.
StridedX::StridedX(const DLTensor& tensor, DLDataType type) : width_(tensor.dtype.bits / 8U) {
  const bool is_plain = tensor.ndim != 2 || tensor.shape == nullptr || tensor.strides == nullptr ||
                        tensor.shape[0] < 0 || tensor.shape[1] <= 1 || tensor.strides[1] == 1;
  if (is_plain) {
    x_ = check_tensor("x", tensor, type, 2, Strides::any);
    return;
  }
  const std::int64_t rows = tensor.shape[0];
  const std::int64_t cols = tensor.shape[1];
  const std::int64_t row_stride = rows > 1 ? tensor.strides[0] : 0;  // of one row it has no meaning
  col_stride_ = tensor.strides[1];
  if (col_stride_ < 1) invalid("x has column stride " + std::to_string(col_stride_) + ": must be 1 or more");
  const bool is_turned = rows > 1 && row_stride < col_stride_;
  if (is_turned && row_stride < 1) invalid("x has row stride " + std::to_string(row_stride) + ": must be 1 or more");
  const std::int64_t inner = is_turned ? rows : cols;
  const std::int64_t step = is_turned ? row_stride : col_stride_;
  std::array<std::int64_t, 2> shape{is_turned ? cols : rows, 0};
  if (__builtin_mul_overflow(inner - 1, step, &shape[1]) || __builtin_add_overflow(shape[1], 1, &shape[1]))
    invalid("x of " + std::to_string(rows) + " x " + std::to_string(cols) + " with these strides overflows");
  std::array<std::int64_t, 2> strides{is_turned ? col_stride_ : row_stride, 1};
  DLTensor whole = tensor;
  whole.shape = shape.data(), whole.strides = strides.data();
  x_ = check_tensor(is_turned ? "x, transposed," : "x, with its column stride,", whole, type, 2, Strides::any);
  x_.rows = rows, x_.cols = cols, x_.stride = row_stride;
}

Checked StridedX::rows(std::int32_t threads) {
  Checked rows = x_;
  if (col_stride_ == 1) return rows;
  rows.stride = rows.cols;
  rows.bytes = static_cast<std::uint64_t>(rows.rows * rows.cols) * width_;
  copy_.reset(new std::byte[rows.bytes]);
  rows.data = copy_.get();
  const auto copy = [&]<class T>(std::int64_t begin, std::int64_t end, T) {
    const T* from = static_cast<const T*>(x_.data);
    for (std::int64_t i = begin; i < end; ++i) {
      T* to = static_cast<T*>(rows.data) + i * rows.cols;
      for (std::int64_t j = 0; j < rows.cols; ++j) to[j] = from[i * x_.stride + j * col_stride_];
    }
  };
  const std::int64_t parts = part_count(rows.rows, static_cast<std::int64_t>(rows.bytes), threads);
  for_each_part(rows.rows, parts, [&](std::int64_t begin, std::int64_t end) {
    if (width_ == 2) {
      copy(begin, end, std::uint16_t{});
    } else if (width_ == 4) {
      copy(begin, end, std::uint32_t{});
    } else {
      copy(begin, end, std::uint64_t{});
    }
  });
  return rows;
}

void check_options(const mxcheck_call& call) {
  for (int i = 1; i < call.num_inputs; ++i) {
    const DLDataType type = call.inputs[i].dtype;
    if (type.code == kDLInt && type.bits == 32 && type.lanes == 1)
      unsupported("a row index is not offered: gather the rows first");
  }
  if (call.num_inputs > 2) invalid("3 inputs: must be x and, optionally, offsets");
}

Offsets check_offsets(const mxcheck_call& call, int inputs, std::int64_t rows) {
  return check_offsets(call.num_inputs == inputs ? nullptr : call.inputs + inputs, rows);
}

Offsets check_offsets(const DLTensor* tensor, std::int64_t rows) {
  if (tensor == nullptr) return {};
  const Checked t = check_tensor("offsets", *tensor, kInt64Type, 1, Strides::contiguous);
  if (t.cols == 0) invalid("offsets is empty: must hold one value more than there are experts");
  const std::span<const std::int64_t> offsets(static_cast<const std::int64_t*>(t.data),
                                              static_cast<std::size_t>(t.cols));
  if (offsets.front() != 0) invalid("offsets[0] is " + std::to_string(offsets.front()) + ": must be 0");
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1]) {
      invalid("offsets[" + std::to_string(i) + "] is " + std::to_string(offsets[i]) +
              ": must be at least the one before it, " + std::to_string(offsets[i - 1]));
    }
  }
  if (offsets.back() != rows) {
    invalid("the last of the offsets is " + std::to_string(offsets.back()) + ": must be the number of rows, " +
            std::to_string(rows));
  }
  return {t, offsets};
}

RowIndex check_row_index(const DLTensor* tensor, std::int64_t rows, std::int64_t source_rows) {
  if (tensor == nullptr) return {};
  const Checked t = check_tensor("row_index", *tensor, kInt32Type, 1, Strides::contiguous);
  require_shape("row_index", t, 1, rows);
  const auto* values = static_cast<const std::int32_t*>(t.data);
  for (std::int64_t i = 0; i < rows; ++i) {
    if (values[i] < 0 || values[i] >= source_rows) {
      invalid("row_index[" + std::to_string(i) + "] is " + std::to_string(values[i]) +
              ": must be 0 or more and less than the rows of x, " + std::to_string(source_rows));
    }
  }
  return {t, values};
}

}  // namespace mxcheck_kernels::cpu
