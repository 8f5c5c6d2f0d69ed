// Attention and its gradient, head by head against the definition's lines; that gradients are derivatives is
// step_test.cc's.

#include "reference/training/attention.h"

#include <gtest/gtest.h>

#include "numerics/elementary/elementary.h"
#include "numerics/error.h"
#include "reference/training/linear.h"
#include "tests/reference/training/plain.h"

namespace mxcheck {
namespace {

using namespace plain;
using Words = std::vector<std::uint16_t>;

// Part 0, 1 or 2 of one head of one sequence: length x c.
Words head_of(const AttentionShape& s, const Words& qkv, std::int64_t sequence, std::int64_t head, std::int64_t part) {
  Words x;
  for (std::int64_t i = 0; i < s.length; ++i) {
    for (std::int64_t j = 0; j < s.head_width; ++j)
      x.push_back(
          qkv[static_cast<std::size_t>(((sequence * s.length + i) * 3 + part) * s.width() + head * s.head_width + j)]);
  }
  return x;
}

std::size_t at(std::int64_t i, std::int64_t j, std::int64_t cols) { return static_cast<std::size_t>(i * cols + j); }

Words rotated(const AttentionShape& s, const Words& x, const RotaryTable& table) {
  Words y = x;
  for (std::int64_t i = 0; i < s.length; ++i) {
    for (std::int64_t j = 0; j < s.head_width / 2; ++j) {
      const float a = wide(x[at(i, j, s.head_width)]), b = wide(x[at(i, j + s.head_width / 2, s.head_width)]);
      const float cosine = table.cosine[at(i, j, s.head_width / 2)], sine = table.sine[at(i, j, s.head_width / 2)];
      y[at(i, j, s.head_width)] = bf16(sub(mul(a, cosine), mul(b, sine)));
      y[at(i, j + s.head_width / 2, s.head_width)] = bf16(add(mul(b, cosine), mul(a, sine)));
    }
  }
  return y;
}

Words rotated_back(const AttentionShape& s, const std::vector<float>& x, const RotaryTable& table) {
  Words y(x.size());
  for (std::int64_t i = 0; i < s.length; ++i) {
    for (std::int64_t j = 0; j < s.head_width / 2; ++j) {
      const float a = x[at(i, j, s.head_width)], b = x[at(i, j + s.head_width / 2, s.head_width)];
      const float cosine = table.cosine[at(i, j, s.head_width / 2)], sine = table.sine[at(i, j, s.head_width / 2)];
      y[at(i, j, s.head_width)] = bf16(add(mul(a, cosine), mul(b, sine)));
      y[at(i, j + s.head_width / 2, s.head_width)] = bf16(sub(mul(b, cosine), mul(a, sine)));
    }
  }
  return y;
}

float scale_of(const AttentionShape& s) { return static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_width))); }

Words probabilities(const AttentionShape& s, const std::vector<float>& z) {
  Words p(z.size(), 0);
  for (std::int64_t i = 0; i < s.length; ++i) {
    std::vector<float> e;
    float largest = -INFINITY;
    for (std::int64_t j = 0; j <= i; ++j)
      largest = std::max(largest, mul(z[at(i, j, s.length)], scale_of(s)));  // 1 / sqrt(4)
    for (std::int64_t j = 0; j <= i; ++j) e.push_back(exp_rn(sub(mul(z[at(i, j, s.length)], scale_of(s)), largest)));
    const float sum = pairwise(e);
    for (std::int64_t j = 0; j <= i; ++j) p[at(i, j, s.length)] = bf16(div(e[static_cast<std::size_t>(j)], sum));
  }
  return p;
}

Words score_gradient(const AttentionShape& s, const Words& p, const std::vector<float>& dp) {
  Words dz(p.size(), 0);
  for (std::int64_t i = 0; i < s.length; ++i) {
    std::vector<float> products;
    for (std::int64_t j = 0; j <= i; ++j) products.push_back(mul(dp[at(i, j, s.length)], wide(p[at(i, j, s.length)])));
    const float sum = pairwise(products);
    for (std::int64_t j = 0; j <= i; ++j)
      dz[at(i, j, s.length)] =
          bf16(mul(mul(wide(p[at(i, j, s.length)]), sub(dp[at(i, j, s.length)], sum)), scale_of(s)));
  }
  return dz;
}

Words turned(const Words& w, std::int64_t rows, std::int64_t cols) {
  Words t(w.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) t[at(c, r, rows)] = w[at(r, c, cols)];
  }
  return t;
}

void expect_the_definition(const AttentionShape& shape, int exponents) {
  const std::int64_t length = shape.length;
  const std::int64_t c = shape.head_width;
  const RotaryTable table = rotary_table(length, c);
  const Words qkv = words(static_cast<std::size_t>(shape.tokens() * 3 * shape.width()), 5, exponents);
  const Words d_out = words(static_cast<std::size_t>(shape.tokens() * shape.width()), 6, exponents);
  const Attention a = attention(shape, table, qkv, 1);
  const Words d_qkv = attention_backward(shape, table, a, d_out, 1);
  const LinearShape scores{length, c, length};
  const LinearShape values{length, length, c};
  for (std::int64_t s = 0; s < shape.sequences; ++s) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      const Words q = rotated(shape, head_of(shape, qkv, s, h, 0), table),
                  k = rotated(shape, head_of(shape, qkv, s, h, 1), table);
      const Words v = head_of(shape, qkv, s, h, 2);
      EXPECT_EQ(head_of(shape, a.qkv, s, h, 0), q);
      EXPECT_EQ(head_of(shape, a.qkv, s, h, 1), k);
      EXPECT_EQ(head_of(shape, a.qkv, s, h, 2), v);
      const Words p = probabilities(shape, linear(scores, q, k, 1));
      const auto first = a.p.begin() + (s * shape.heads + h) * length * length;
      EXPECT_EQ(Words(first, first + length * length), p);
      Words out, d_att;
      for (std::int64_t i = 0; i < length; ++i) {
        for (std::int64_t j = 0; j < c; ++j) {
          const std::size_t place = at(s * length + i, h * c + j, shape.width());
          out.push_back(a.out[place]), d_att.push_back(d_out[place]);
        }
      }
      EXPECT_EQ(out, linear_bf16(values, p, turned(v, length, c), 1));
      const Words dz = score_gradient(shape, p, linear(scores, d_att, v, 1));
      const auto by_rows = [&](const Words& m, const Words& x) { return linear(values, m, turned(x, length, c), 1); };
      EXPECT_EQ(head_of(shape, d_qkv, s, h, 0), rotated_back(shape, by_rows(dz, k), table));
      EXPECT_EQ(head_of(shape, d_qkv, s, h, 1), rotated_back(shape, by_rows(turned(dz, length, length), q), table));
      EXPECT_EQ(head_of(shape, d_qkv, s, h, 2),
                linear_bf16(values, turned(p, length, length), turned(d_att, length, c), 1));
    }
  }
}

TEST(Attention, heads_are_those_of_the_definition) {
  expect_the_definition({2, 7, 3, 4}, 6);
  expect_the_definition({1, 5, 2, 2}, 20);  // scores beyond the range of exp, had their largest not been subtracted
  // So many elements that a difference in FP32's last bit reaches BF16 in some; 1 / sqrt(6) is no power of two.
  expect_the_definition({1, 450, 1, 6}, 2);
}

TEST(Attention, threads_change_nothing) {
  const AttentionShape s{3, 40, 4, 8};
  const RotaryTable table = rotary_table(s.length, s.head_width);
  const Words qkv = words(static_cast<std::size_t>(s.tokens() * 3 * s.width()), 1, 6);
  const Words d_out = words(static_cast<std::size_t>(s.tokens() * s.width()), 2, 6);
  const Attention one = attention(s, table, qkv, 1), three = attention(s, table, qkv, 3);
  EXPECT_EQ(one.p, three.p);
  EXPECT_EQ(one.out, three.out);
  EXPECT_EQ(attention_backward(s, table, one, d_out, 1), attention_backward(s, table, one, d_out, 3));
}

// P is +0 after a row's own position, and products take it: an infinity there is a NaN, in that column of every row.
TEST(Attention, what_is_not_finite_is_not_skipped) {
  const AttentionShape s{1, 3, 1, 2};
  const RotaryTable table = rotary_table(3, 2);
  Words qkv(18, 0x3F80);
  qkv[16] = 0x7F80;  // v of the last position, column 0: +Inf
  const Attention a = attention(s, table, qkv, 1);
  EXPECT_EQ(a.out[0], 0x7FFF);
  EXPECT_EQ(a.out[1], 0x3F80);
  qkv[16] = 0x3F80;
  qkv[6] = 0x7FC0;  // q of position 1: its row alone
  const Attention b = attention(s, table, qkv, 1);
  EXPECT_EQ(b.out[0], 0x3F80);
  EXPECT_EQ(b.out[2], 0x7FFF);
  EXPECT_EQ(b.p[3], 0x7FFF);
  EXPECT_EQ(b.p[4], 0x7FFF);
  EXPECT_EQ(b.p[5], 0);
}

TEST(Attention, sizes_that_do_not_agree_are_refused) {
  constexpr AttentionShape kShape{2, 7, 3, 4};
  const RotaryTable table = rotary_table(7, 4);
  const Words qkv(static_cast<std::size_t>(kShape.tokens() * 3 * kShape.width()));
  const Attention a = attention(kShape, table, qkv, 1);
  EXPECT_THROW(attention(kShape, rotary_table(8, 4), qkv, 1), Error);
  EXPECT_THROW(attention({1, 7, 3, 4}, table, qkv, 1), Error);
  EXPECT_THROW(attention({0, 7, 3, 4}, table, {}, 1), Error);
  EXPECT_THROW(attention_backward(kShape, table, a, qkv, 1), Error);
  EXPECT_THROW(attention_backward(kShape, table, {}, Words(a.out.size()), 1), Error);
}

}  // namespace
}  // namespace mxcheck
