// Attention and its gradient, head by head against the definition's lines; that gradients are derivatives is
// step_test.cc's.

#include "reference/training/attention.h"
#include "numerics/elementary/elementary.h"
#include "tests/reference/training/test_training.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

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

// turn: 1, or -1 for the way back.
Words rotated(const AttentionShape& s, const std::vector<float>& x, const RotaryTable& table, float turn) {
  Words y(x.size());
  for (std::int64_t i = 0; i < s.length; ++i) {
    for (std::int64_t j = 0; j < s.head_width / 2; ++j) {
      const float a = x[at(i, j, s.head_width)], b = x[at(i, j + s.head_width / 2, s.head_width)];
      const float cosine = table.cosine[at(i, j, s.head_width / 2)];
      const float sine = turn * table.sine[at(i, j, s.head_width / 2)];
      y[at(i, j, s.head_width)] = bf16(sub(mul(a, cosine), mul(b, sine)));
      y[at(i, j + s.head_width / 2, s.head_width)] = bf16(add(mul(b, cosine), mul(a, sine)));
    }
  }
  return y;
}
Words rotated(const AttentionShape& s, const Words& x, const RotaryTable& table) {
  std::vector<float> values(x.size());
  std::transform(x.begin(), x.end(), values.begin(), wide);
  return rotated(s, values, table, 1);
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
      EXPECT_EQ(head_of(shape, d_qkv, s, h, 0), rotated(shape, by_rows(dz, k), table, -1));
      EXPECT_EQ(head_of(shape, d_qkv, s, h, 1), rotated(shape, by_rows(turned(dz, length, length), q), table, -1));
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

// A linear map and its gradients: exact on small integers, and the same product whichever way operands lie.

Words linear_test_turned(const Words& w, std::int64_t rows, std::int64_t cols) {
  Words t(w.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c)
      t[static_cast<std::size_t>(c * rows + r)] = w[static_cast<std::size_t>(r * cols + c)];
  }
  return t;
}

Words integers(std::size_t count, int seed) {
  Words w;
  for (std::size_t i = 0; i < count; ++i)
    w.push_back(plain::bf16(static_cast<float>((static_cast<int>(i) * 7 + seed) % 9 - 4)));
  return w;
}

// Sums of products of integers below 5 are exact in every order, and below 2^8 in BF16 too.
TEST(Linear, products_of_integers_are_exact) {
  const LinearShape s{5, 7, 3};
  const Words x = integers(35, 1);
  const Words w = integers(21, 2);
  const Words dy = integers(15, 3);
  const auto at = [](const Words& m, std::int64_t cols, std::int64_t r, std::int64_t c) {
    return plain::wide(m[static_cast<std::size_t>(r * cols + c)]);
  };
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for (std::int64_t o = 0; o < s.out; ++o) {
      float y = 0;
      for (std::int64_t i = 0; i < s.in; ++i) y += at(x, 7, r, i) * at(w, 7, o, i);
      EXPECT_EQ(linear(s, x, w, 1)[static_cast<std::size_t>(r * 3 + o)], y);
      EXPECT_EQ(plain::wide(linear_bf16(s, x, w, 1)[static_cast<std::size_t>(r * 3 + o)]), y);
    }
    for (std::int64_t i = 0; i < s.in; ++i) {
      float dx = 0;
      for (std::int64_t o = 0; o < s.out; ++o) dx += at(dy, 3, r, o) * at(w, 7, o, i);
      EXPECT_EQ(linear_dx(s, dy, w, 1)[static_cast<std::size_t>(r * 7 + i)], dx);
    }
  }
  for (std::int64_t o = 0; o < s.out; ++o) {
    for (std::int64_t i = 0; i < s.in; ++i) {
      float dw = 0;
      for (std::int64_t r = 0; r < s.rows; ++r) dw += at(dy, 3, r, o) * at(x, 7, r, i);
      EXPECT_EQ(linear_dw(s, dy, x, 1)[static_cast<std::size_t>(o * 7 + i)], dw);
    }
  }
}

// The order of a contract's sum is by k, not by how operands lie: gradients are the map of transposed tensors.
TEST(Linear, gradients_are_the_same_product_of_transposed_operands) {
  const LinearShape s{45, 67, 35};
  const Words x = plain::words(45 * 67, 1);
  const Words w = plain::words(35 * 67, 2);
  const Words dy = plain::words(45 * 35, 3);
  EXPECT_EQ(linear_dx(s, dy, w, 1), linear({45, 35, 67}, dy, linear_test_turned(w, 35, 67), 1));
  EXPECT_EQ(linear_dx_bf16(s, dy, w, 1), linear_bf16({45, 35, 67}, dy, linear_test_turned(w, 35, 67), 1));
  EXPECT_EQ(linear_dw(s, dy, x, 1),
            linear({35, 45, 67}, linear_test_turned(dy, 45, 35), linear_test_turned(x, 45, 67), 1));
  EXPECT_EQ(linear_dw(s, dy, x, 1), linear_dw(s, dy, x, 3));
  const std::vector<float> y = linear(s, x, w, 1);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(linear_bf16(s, x, w, 3)[i], plain::bf16(y[i]));
}

TEST(Linear, sizes_that_do_not_agree_are_refused) {
  const LinearShape s{4, 8, 2};
  const Words x(32), w(16), dy(8);
  EXPECT_THROW(linear(s, w, w, 1), Error);
  EXPECT_THROW(linear_bf16(s, x, x, 1), Error);
  EXPECT_THROW(linear_dx(s, x, w, 1), Error);
  EXPECT_THROW(linear_dx_bf16(s, dy, x, 1), Error);
  EXPECT_THROW(linear_dw(s, dy, dy, 1), Error);
}

// docs/training.md, norm, for one row.
float plain_scale(const std::vector<float>& x) {
  std::vector<float> squares;
  for (const float v : x) squares.push_back(mul(v, v));
  return div(1, root(add(div(pairwise(squares), static_cast<float>(x.size())), 0x1p-16F)));
}

std::vector<float> part(const std::vector<float>& v, std::size_t row, std::size_t width) {
  return {v.begin() + static_cast<std::ptrdiff_t>(row * width),
          v.begin() + static_cast<std::ptrdiff_t>((row + 1) * width)};
}

TEST(Norm, rows_and_gradients_are_those_of_the_definition) {
  // The last has so many elements that a difference in FP32's last bit reaches BF16 in some of them.
  for (const auto& [kRows, width] : {std::pair{19U, 1U}, {19U, 2U}, {19U, 13U}, {3000U, 64U}}) {
    const std::vector<float> x = values(kRows * width, 1), dy = values(kRows * width, 2), gain = values(width, 3, 4);
    const Norm n = norm(x, gain, 1);
    const NormGradient g = norm_backward(dy, x, n.scale, gain, 1);
    std::vector<std::vector<float>> columns(width);
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::vector<float> row = part(x, r, width), d = part(dy, r, width);
      const float scale = plain_scale(row);
      EXPECT_EQ(n.scale[r], scale);
      std::vector<float> v, t, products;
      for (std::size_t i = 0; i < width; ++i) {
        ASSERT_EQ(n.y[r * width + i], bf16(mul(mul(row[i], scale), gain[i])));
        v.push_back(mul(row[i], scale)), t.push_back(mul(d[i], gain[i]));
        products.push_back(mul(t[i], v[i]));
        columns[i].push_back(mul(d[i], v[i]));
      }
      const float q = div(pairwise(products), static_cast<float>(width));
      for (std::size_t i = 0; i < width; ++i)
        ASSERT_EQ(g.dx[r * width + i], mul(scale, sub(t[i], mul(v[i], q)))) << width << ' ' << r << ' ' << i;
    }
    for (std::size_t i = 0; i < width; ++i) EXPECT_EQ(g.dgain[i], pairwise(columns[i]));
  }
}

TEST(Norm, threads_change_nothing) {
  const std::vector<float> x = values(3000 * 48, 1), dy = values(3000 * 48, 2), gain = values(48, 3);
  const Norm one = norm(x, gain, 1), three = norm(x, gain, 3);
  EXPECT_EQ(one.y, three.y);
  EXPECT_EQ(one.scale, three.scale);
  const NormGradient a = norm_backward(dy, x, one.scale, gain, 1), b = norm_backward(dy, x, one.scale, gain, 3);
  EXPECT_EQ(a.dx, b.dx);
  EXPECT_EQ(a.dgain, b.dgain);
}

TEST(Norm, rows_of_zeros_of_nan_and_beyond_the_range) {
  const std::vector<float> x{0, 0, 1e-30F, -1e-30F, 3e38F, 1, kInf, 1, kNaN, 1};
  const Norm n = norm(x, std::vector<float>{1, 2}, 1);
  EXPECT_EQ(n.scale[0], 256);  // 2^-16 alone is under the root
  EXPECT_EQ(n.y[0], 0);
  EXPECT_EQ(n.scale[1], 256);
  EXPECT_EQ(n.y[3], bf16(-2 * 256e-30F));
  EXPECT_EQ(n.scale[2], 0);  // the square is infinite
  EXPECT_EQ(n.y[4], 0);
  EXPECT_EQ(n.y[6], 0x7FFF);  // Inf * 0
  EXPECT_EQ(n.y[8], 0x7FFF);
  EXPECT_EQ(n.y[9], 0x7FFF);
}

TEST(Norm, sizes_that_do_not_agree_are_refused) {
  const std::vector<float> six(6), four(4), two(2), three(3);
  EXPECT_THROW(norm(six, four, 1), Error);
  EXPECT_THROW(norm(six, {}, 1), Error);
  EXPECT_THROW(norm_backward(four, six, three, two, 1), Error);
  EXPECT_THROW(norm_backward(six, six, two, two, 1), Error);
}

}  // namespace
}  // namespace mxcheck
