// Each sequence and head by itself: products under sm90_bf16 of operands that are read where they lie in qkv.
//
// Rows of P have +0 after their own position and products take them with all the rest: a sum over fewer columns would
// differ where v holds an infinity or a NaN further on.

#include "reference/training/attention.h"

#include <cmath>
#include <limits>

#include "numerics/elementary/elementary.h"
#include "reference/common/checked_size.h"
#include "reference/matmul/matmul.h"
#include "reference/training/parts.h"

namespace mxcheck {
namespace {

using Words = std::vector<std::uint16_t>;

void check_shape(const AttentionShape& s, const RotaryTable& table) {
  require(s.sequences > 0 && s.length > 0 && s.heads > 0 && s.head_width > 0 && s.head_width % 2 == 0,
          "attention needs sequences, a length, heads, and heads of an even number of columns");
  require_size("a rotary table", std::ssize(table.cosine), s.length * s.head_width / 2);
  require_size("a rotary table", std::ssize(table.sine), std::ssize(table.cosine));
}

// A matrix of `rows` positions in memory whose rows lie `stride` apart, as it lies or transposed.
MatmulOperand rows_at(const std::uint16_t* at, std::int64_t rows, std::int64_t cols, std::int64_t stride) {
  return {.format = Format::bf16, .codes = at, .rows = rows, .depth = cols, .row_stride = stride};
}
MatmulOperand columns_at(const std::uint16_t* at, std::int64_t rows, std::int64_t cols, std::int64_t stride) {
  return {.format = Format::bf16, .codes = at, .rows = cols, .depth = rows, .row_stride = 1, .depth_stride = stride};
}

template <class T>
std::vector<T> product(const MatmulOperand& a, const MatmulOperand& b) {
  Matmul m;
  m.contract = parse_matmul_contract("sm90_bf16");
  m.a = a, m.b = b;
  m.output = sizeof(T) == 2 ? Format::bf16 : Format::fp32;
  m.threads = 1;
  std::vector<T> d(static_cast<std::size_t>(a.rows * b.rows));
  matmul(m, d.data());
  return d;
}

// q and k of every token, turned by the token's position.
void rotate(const AttentionShape& s, const RotaryTable& table, Words& qkv, int threads) {
  const std::int64_t half = s.head_width / 2;
  parallel_ranges(s.tokens(), std::ssize(qkv), threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t head = 0; head < 2 * s.heads; ++head) {
        std::uint16_t* const x = qkv.data() + t * 3 * s.width() + head * s.head_width;
        for (std::int64_t j = 0; j < half; ++j) {
          const auto at = static_cast<std::size_t>(t % s.length * half + j);
          const float a = widen(x[j]);
          const float b = widen(x[j + half]);
          x[j] = to_bf16(a * table.cosine[at] - b * table.sine[at]);
          x[j + half] = to_bf16(b * table.cosine[at] + a * table.sine[at]);
        }
      }
    }
  });
}

// Row i of P, from the numbers of its columns 0 ... i. A NaN, or a +Inf, makes the whole row NaN, whatever the largest.
void softmax_row(std::span<float> z, float scale, std::span<std::uint16_t> p) {
  float largest = -std::numeric_limits<float>::infinity();
  for (float& v : z) {
    v *= scale;
    if (v > largest) largest = v;
  }
  for (float& v : z) v = exp_rn(v - largest);
  const float sum = pairwise_sum(z);
  for (std::size_t j = 0; j < z.size(); ++j) p[j] = to_bf16(z[j] / sum);
}

// One sequence's head: where its q begins in qkv, its P in p, its columns in out.
struct Head {
  std::int64_t q, p, out;
};
Head head_at(const AttentionShape& s, std::int64_t index) {
  const std::int64_t first_token = index / s.heads * s.length;
  const std::int64_t column = index % s.heads * s.head_width;
  return {first_token * 3 * s.width() + column, index * s.length * s.length, first_token * s.width() + column};
}

// body(head) for each head of each sequence.
template <class Body>
void each_head(const AttentionShape& s, int threads, Body body) {
  const std::int64_t heads = s.sequences * s.heads;
  parallel_ranges(heads, heads * s.length * s.length, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(head_at(s, i));
  });
}

template <class T>
void copy_rows(const std::vector<T>& from, std::int64_t cols, T* to, std::int64_t stride) {
  for (std::size_t i = 0; i < from.size(); ++i)
    to[static_cast<std::int64_t>(i) / cols * stride + static_cast<std::int64_t>(i) % cols] = from[i];
}

void head_forward(const AttentionShape& s, const Head& h, Attention& a) {
  const std::int64_t stride = 3 * s.width();
  const float scale = one_over_root(s.head_width);
  const std::uint16_t* const q = a.qkv.data() + h.q;
  std::vector<float> z = product<float>(rows_at(q, s.length, s.head_width, stride),
                                        rows_at(q + s.width(), s.length, s.head_width, stride));
  std::uint16_t* const p = a.p.data() + h.p;
  for (std::int64_t i = 0; i < s.length; ++i) {
    const auto columns = static_cast<std::size_t>(i + 1);
    softmax_row({z.data() + i * s.length, columns}, scale, {p + i * s.length, columns});
  }
  copy_rows(product<std::uint16_t>(rows_at(p, s.length, s.length, s.length),
                                   columns_at(q + 2 * s.width(), s.length, s.head_width, stride)),
            s.head_width, a.out.data() + h.out, s.width());
}

// dZ from P and dP; +0 after a row's own position.
Words score_gradient(const AttentionShape& s, std::span<const std::uint16_t> p, std::span<const float> dp) {
  const float scale = one_over_root(s.head_width);
  Words dz(p.size());
  std::vector<float> products;
  for (std::int64_t i = 0; i < s.length; ++i) {
    const std::size_t first = static_cast<std::size_t>(i * s.length);
    const auto columns = static_cast<std::size_t>(i + 1);
    products.resize(columns);
    for (std::size_t j = 0; j < columns; ++j) products[j] = dp[first + j] * widen(p[first + j]);
    const float sum = pairwise_sum(products);
    for (std::size_t j = 0; j < columns; ++j)
      dz[first + j] = to_bf16((widen(p[first + j]) * (dp[first + j] - sum)) * scale);
  }
  return dz;
}

// Rows of a rotated tensor's gradient, turned back and rounded.
void rotate_back(const AttentionShape& s, const RotaryTable& table, const std::vector<float>& from, std::uint16_t* to) {
  const std::int64_t half = s.head_width / 2;
  for (std::int64_t i = 0; i < s.length; ++i) {
    const float* const x = from.data() + i * s.head_width;
    std::uint16_t* const y = to + i * 3 * s.width();
    for (std::int64_t j = 0; j < half; ++j) {
      const auto at = static_cast<std::size_t>(i * half + j);
      y[j] = to_bf16(x[j] * table.cosine[at] + x[j + half] * table.sine[at]);
      y[j + half] = to_bf16(x[j + half] * table.cosine[at] - x[j] * table.sine[at]);
    }
  }
}

void head_backward(const AttentionShape& s, const RotaryTable& table, const Head& h, const Attention& kept,
                   std::span<const std::uint16_t> d_out, Words& d_qkv) {
  const std::int64_t stride = 3 * s.width();
  const std::int64_t c = s.head_width;
  const std::uint16_t* const q = kept.qkv.data() + h.q;
  const std::uint16_t* const k = q + s.width();
  const std::uint16_t* const v = k + s.width();
  const std::uint16_t* const d_att = d_out.data() + h.out;
  const std::span<const std::uint16_t> p =
      std::span(kept.p).subspan(static_cast<std::size_t>(h.p), static_cast<std::size_t>(s.length * s.length));
  const std::vector<float> dp = product<float>(rows_at(d_att, s.length, c, s.width()), rows_at(v, s.length, c, stride));
  std::uint16_t* const dq = d_qkv.data() + h.q;
  copy_rows(product<std::uint16_t>(columns_at(p.data(), s.length, s.length, s.length),
                                   columns_at(d_att, s.length, c, s.width())),
            c, dq + 2 * s.width(), stride);
  const Words dz = score_gradient(s, p, dp);
  rotate_back(s, table,
              product<float>(rows_at(dz.data(), s.length, s.length, s.length), columns_at(k, s.length, c, stride)), dq);
  rotate_back(s, table,
              product<float>(columns_at(dz.data(), s.length, s.length, s.length), columns_at(q, s.length, c, stride)),
              dq + s.width());
}

}  // namespace

Attention attention(const AttentionShape& s, const RotaryTable& table, std::span<const std::uint16_t> qkv,
                    int threads) {
  check_shape(s, table);
  require_size("qkv", std::ssize(qkv), checked_product(s.tokens(), 3 * s.width(), "qkv"));
  Attention a;
  a.qkv.assign(qkv.begin(), qkv.end());
  resize_or_throw(a.p, checked_product(s.sequences * s.heads, s.length * s.length, "attention"), "attention");
  a.out.resize(static_cast<std::size_t>(s.tokens() * s.width()));
  rotate(s, table, a.qkv, threads);
  each_head(s, threads, [&](const Head& h) { head_forward(s, h, a); });
  return a;
}

std::vector<std::uint16_t> attention_backward(const AttentionShape& s, const RotaryTable& table, const Attention& kept,
                                              std::span<const std::uint16_t> d_out, int threads) {
  check_shape(s, table);
  require_size("qkv as it was kept", std::ssize(kept.qkv), s.tokens() * 3 * s.width());
  require_size("p as it was kept", std::ssize(kept.p), s.sequences * s.heads * s.length * s.length);
  require_size("the gradient of attention", std::ssize(d_out), s.tokens() * s.width());
  Words d_qkv(kept.qkv.size());
  each_head(s, threads, [&](const Head& h) { head_backward(s, table, h, kept, d_out, d_qkv); });
  return d_qkv;
}

// A linear map and its gradients are one product, of operands that are read as they lie or transposed.

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
std::vector<T> linear_product(const MatmulOperand& a, const MatmulOperand& b, int threads) {
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
  return linear_product<T>(as_it_lies(x, s.rows, s.in), as_it_lies(w, s.out, s.in), threads);
}

template <class T>
std::vector<T> dx_product(const LinearShape& s, std::span<const std::uint16_t> dy, std::span<const std::uint16_t> w,
                          int threads) {
  check_dy(s, dy), check_w(s, w);
  return linear_product<T>(as_it_lies(dy, s.rows, s.out), transposed(w, s.out, s.in), threads);
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
  return linear_product<float>(transposed(dy, s.rows, s.out), transposed(x, s.rows, s.in), threads);
}

namespace {

// Rows of x, where the gain's width fits.
std::int64_t rows_of(std::span<const float> x, std::span<const float> gain) {
  require(!gain.empty() && x.size() % gain.size() == 0, "a norm of width " + std::to_string(gain.size()) + " has " +
                                                            std::to_string(x.size()) +
                                                            " elements; whole rows are needed");
  return static_cast<std::int64_t>(x.size() / gain.size());
}

// RN(1 / RN(sqrt(RN(RN(sum / width) + 2^-16)))) of the squares' sum.
float scale_of(std::span<const float> x, std::vector<float>& squares) {
  for (std::size_t i = 0; i < x.size(); ++i) squares[i] = x[i] * x[i];
  const float mean = pairwise_sum(squares) / static_cast<float>(x.size());
  return 1.0F / std::sqrt(mean + kNormEpsilon);
}

// The gradient of one row, from dy and that row's scale.
void row_gradient(std::span<const float> dy, std::span<const float> x, float scale, std::span<const float> gain,
                  std::vector<float>& products, std::span<float> dx) {
  for (std::size_t i = 0; i < x.size(); ++i) products[i] = (dy[i] * gain[i]) * (x[i] * scale);
  const float mean = pairwise_sum(products) / static_cast<float>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) dx[i] = scale * (dy[i] * gain[i] - (x[i] * scale) * mean);
}

}  // namespace

Norm norm(std::span<const float> x, std::span<const float> gain, int threads) {
  const std::int64_t rows = rows_of(x, gain);
  const std::int64_t width = std::ssize(gain);
  Norm n{std::vector<std::uint16_t>(x.size()), std::vector<float>(static_cast<std::size_t>(rows))};
  parallel_ranges(rows, std::ssize(x), threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> squares(gain.size());
    for (std::int64_t r = begin; r < end; ++r) {
      const std::span<const float> row = row_of(x, r, width);
      const std::span<std::uint16_t> y = row_of(std::span(n.y), r, width);
      const float scale = scale_of(row, squares);
      n.scale[static_cast<std::size_t>(r)] = scale;
      for (std::size_t i = 0; i < row.size(); ++i) y[i] = to_bf16((row[i] * scale) * gain[i]);
    }
  });
  return n;
}

NormGradient norm_backward(std::span<const float> dy, std::span<const float> x, std::span<const float> scale,
                           std::span<const float> gain, int threads) {
  const std::int64_t rows = rows_of(x, gain);
  const std::int64_t width = std::ssize(gain);
  require_size("dy of a norm", std::ssize(dy), std::ssize(x));
  require_size("scales of a norm", std::ssize(scale), rows);
  NormGradient g{std::vector<float>(x.size()), std::vector<float>(gain.size())};
  parallel_ranges(rows, std::ssize(x), threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> products(gain.size());
    for (std::int64_t r = begin; r < end; ++r) {
      row_gradient(row_of(dy, r, width), row_of(x, r, width), scale[static_cast<std::size_t>(r)], gain, products,
                   row_of(std::span(g.dx), r, width));
    }
  });
  parallel_ranges(width, std::ssize(x), threads, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> column(scale.size());
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto at = static_cast<std::size_t>(r * width + i);
        column[static_cast<std::size_t>(r)] = dy[at] * (x[at] * scale[static_cast<std::size_t>(r)]);
      }
      g.dgain[static_cast<std::size_t>(i)] = pairwise_sum(column);
    }
  });
  return g;
}

}  // namespace mxcheck
