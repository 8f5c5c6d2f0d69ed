// A linear map and its gradients are one product, of operands that are read as they lie or transposed.

#include "reference/training/linear.h"

#include "reference/common/checked_size.h"
#include "reference/matmul/matmul.h"
#include "reference/training/parts.h"

namespace mxcheck {
namespace {

// rows x cols as it lies in memory, and its transpose.
MatmulOperand as_it_lies(std::span<const std::uint16_t> words, std::int64_t rows, std::int64_t cols) {
  return {.format = Format::bf16, .codes = words.data(), .rows = rows, .depth = cols, .row_stride = cols};
}
MatmulOperand transposed(std::span<const std::uint16_t> words, std::int64_t rows, std::int64_t cols) {
  return {.format = Format::bf16,
          .codes = words.data(),
          .rows = cols,
          .depth = rows,
          .row_stride = 1,
          .depth_stride = cols};
}

template <class T>
std::vector<T> product(const MatmulOperand& a, const MatmulOperand& b, int threads) {
  Matmul m;
  m.contract = parse_matmul_contract("sm90_bf16");
  m.a = a, m.b = b;
  m.output = sizeof(T) == 2 ? Format::bf16 : Format::fp32;
  m.threads = threads;
  std::vector<T> d;
  resize_or_throw(d, checked_product(a.rows, b.rows, "linear"), "linear");
  matmul(m, d.data());
  return d;
}

void check_x(const LinearShape& s, std::span<const std::uint16_t> x) {
  require_size("x of a linear map", std::ssize(x), s.rows * s.in);
}
void check_dy(const LinearShape& s, std::span<const std::uint16_t> dy) {
  require_size("dy of a linear map", std::ssize(dy), s.rows * s.out);
}
void check_w(const LinearShape& s, std::span<const std::uint16_t> w) {
  require_size("w of a linear map", std::ssize(w), s.out * s.in);
}

template <class T>
std::vector<T> forward_product(const LinearShape& s, std::span<const std::uint16_t> x, std::span<const std::uint16_t> w,
                               int threads) {
  check_x(s, x), check_w(s, w);
  return product<T>(as_it_lies(x, s.rows, s.in), as_it_lies(w, s.out, s.in), threads);
}

template <class T>
std::vector<T> dx_product(const LinearShape& s, std::span<const std::uint16_t> dy, std::span<const std::uint16_t> w,
                          int threads) {
  check_dy(s, dy), check_w(s, w);
  return product<T>(as_it_lies(dy, s.rows, s.out), transposed(w, s.out, s.in), threads);
}

}  // namespace

std::vector<std::uint16_t> linear_bf16(const LinearShape& s, std::span<const std::uint16_t> x,
                                       std::span<const std::uint16_t> w, int threads) {
  return forward_product<std::uint16_t>(s, x, w, threads);
}
std::vector<float> linear(const LinearShape& s, std::span<const std::uint16_t> x, std::span<const std::uint16_t> w,
                          int threads) {
  return forward_product<float>(s, x, w, threads);
}

std::vector<float> linear_dx(const LinearShape& s, std::span<const std::uint16_t> dy, std::span<const std::uint16_t> w,
                             int threads) {
  return dx_product<float>(s, dy, w, threads);
}
std::vector<std::uint16_t> linear_dx_bf16(const LinearShape& s, std::span<const std::uint16_t> dy,
                                          std::span<const std::uint16_t> w, int threads) {
  return dx_product<std::uint16_t>(s, dy, w, threads);
}

std::vector<float> linear_dw(const LinearShape& s, std::span<const std::uint16_t> dy, std::span<const std::uint16_t> x,
                             int threads) {
  check_dy(s, dy), check_x(s, x);
  return product<float>(transposed(dy, s.rows, s.out), transposed(x, s.rows, s.in), threads);
}

}  // namespace mxcheck
