#include "reference/training/norm.h"

#include <cmath>

#include "numerics/elementary/elementary.h"
#include "reference/training/parts.h"

namespace mxcheck {
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
