#include "tools/common/matrix_input.h"

#include "numerics/error.h"

namespace mxcheck {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::usage, text); }

Format matrix_dtype(const MatrixInput& o, const TensorHead& tensor) {
  if (!o.dtype.empty()) {
    if (tensor.dtype != Dtype::u16) {
      refuse("--dtype " + o.dtype + " reinterprets 16-bit unsigned integers; " + o.location + " holds " +
             safetensors_name(tensor.dtype));
    }
    return o.dtype == "bf16" ? Format::bf16 : Format::fp16;
  }
  if (tensor.dtype == Dtype::f32) return Format::fp32;
  if (tensor.dtype == Dtype::bf16) return Format::bf16;
  if (tensor.dtype == Dtype::f16) return Format::fp16;
  std::string hint = tensor.dtype == Dtype::f64 ? "; convert it to F32 first, so that the rounding is yours" : "";
  if (tensor.dtype == Dtype::u16) hint = "; if these are the bits of BF16, say --dtype bf16";
  throw Error(ErrorKind::input,
              o.location + ": has dtype " + safetensors_name(tensor.dtype) + "; F32, BF16 or F16 is needed" + hint);
}

}  // namespace

MatrixHead matrix_head(const MatrixInput& o, const TensorHead& tensor) {
  const std::vector<std::int64_t>& shape = tensor.shape;
  MatrixHead head;
  head.dtype = matrix_dtype(o, tensor);
  const std::string rank = o.location + ": has " + std::to_string(shape.size()) + " dimensions; ";
  if (o.index && shape.size() != 3) throw Error(ErrorKind::input, rank + "--index picks a matrix out of three");
  if (!o.index && shape.size() == 3) {
    throw Error(ErrorKind::input, rank + "two are needed: pick one of its " + std::to_string(shape[0]) +
                                      " matrices with --index I, or reshape it");
  }
  if (!o.index && shape.size() != 2) throw Error(ErrorKind::input, rank + "two are needed: reshape it to [rows, cols]");
  head.rows = shape[shape.size() - 2];
  head.cols = shape[shape.size() - 1];
  if (o.index) {
    if (*o.index < 0 || *o.index >= shape[0]) {
      refuse("--index " + std::to_string(*o.index) + ": " + o.location + " holds matrices 0 to " +
             std::to_string(shape[0] - 1));
    }
    head.bytes_before = *o.index * head.rows * head.cols * static_cast<std::int64_t>(size_of(tensor.dtype));
  }
  return head;
}

MatrixView matrix_of(const MatrixInput& o, const Tensor& tensor) {
  const MatrixHead head = matrix_head(o, {tensor.dtype, tensor.shape});
  return {head.dtype, tensor.data.data() + head.bytes_before, head.rows, head.cols, head.cols};
}

}  // namespace mxcheck
