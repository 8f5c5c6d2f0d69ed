#include "tools/parallel/inputs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <utility>

#include "properties/core/rng.h"
#include "reference/common/matrix.h"
#include "reference/common/parallel.h"
#include "reference/router/router.h"

namespace mxcheck {
namespace {

// About normal: the sum of four uniform numbers of 16 bits.
double normal_of(std::uint64_t word) {
  constexpr double kMean = 4 * 32767.5;
  constexpr double kDeviation = 37837.0;  // 65536 / sqrt(3)
  const auto part = [&](int i) { return static_cast<double>((word >> (16 * i)) & 0xFFFFU); };
  return (part(0) + part(1) + part(2) + part(3) - kMean) / kDeviation;
}

std::uint16_t bf16_of(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

struct Filling {
  std::uint64_t seed;
  std::int64_t cols;  // elements of a token or an expert
  double scale;
};

// Row i is row rows[i] of the whole tensor.
std::vector<std::uint16_t> filled(const Filling& f, const std::vector<std::int64_t>& rows) {
  std::vector<std::uint16_t> out(rows.size() * static_cast<std::size_t>(f.cols));
  parallel_ranges(std::ssize(out), std::ssize(out), 0, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t place = rows[static_cast<std::size_t>(i / f.cols)] * f.cols + i % f.cols;
      const std::uint64_t word = random_word(f.seed, static_cast<std::uint64_t>(place));
      out[static_cast<std::size_t>(i)] = bf16_of(normal_of(word) * f.scale);
    }
  });
  return out;
}

std::vector<std::int64_t> range(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = first; i < last; ++i) rows.push_back(i);
  return rows;
}

std::uint64_t seed_of(const ParallelOptions& o, std::string_view name) {
  return derived_seed(static_cast<std::uint64_t>(o.seed), name);
}

}  // namespace

std::vector<std::uint16_t> parallel_x(const ParallelOptions& o, std::int64_t first, std::int64_t last) {
  return filled({seed_of(o, "x"), o.width, 1.0}, range(first, last));
}

std::vector<std::uint16_t> parallel_d_o(const ParallelOptions& o, std::int64_t first, std::int64_t last) {
  return filled({seed_of(o, "d_o"), o.width, 0.01}, range(first, last));
}

std::vector<std::uint16_t> parallel_w1(const ParallelOptions& o, const std::vector<std::int64_t>& experts) {
  return filled({seed_of(o, "w1"), o.width * 2 * o.inner, 1 / std::sqrt(static_cast<double>(o.width))}, experts);
}

std::vector<std::uint16_t> parallel_w2(const ParallelOptions& o, const std::vector<std::int64_t>& experts) {
  return filled({seed_of(o, "w2"), o.inner * o.width, 1 / std::sqrt(static_cast<double>(o.inner))}, experts);
}

mxcheck_kernels::parallel::HomeSlots parallel_slots(const ParallelOptions& o, std::int64_t first, std::int64_t last) {
  const std::uint64_t seed = seed_of(o, "logits");
  std::vector<float> logits(static_cast<std::size_t>((last - first) * o.experts));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const std::int64_t place = first * o.experts + static_cast<std::int64_t>(i);
    const double expert = static_cast<double>(place % o.experts);
    double value = normal_of(random_word(seed, static_cast<std::uint64_t>(place)));
    if (o.load == "skewed") value -= 2 * std::log1p(expert);
    if (o.load == "one") value -= 100 * expert;
    logits[i] = static_cast<float>(value);
  }
  mxcheck_kernels::parallel::HomeSlots slots;
  slots.width = o.top_k;
  const Router router{.variant = &router_variant_named("topk-softmax"), .top_k = o.top_k};
  const MatrixView view{Format::fp32, static_cast<const std::byte*>(static_cast<const void*>(logits.data())),
                        last - first, o.experts, o.experts};
  Routes routes = route(router, view);
  slots.experts = std::move(routes.experts), slots.weights = std::move(routes.weights);
  return slots;
}

}  // namespace mxcheck
