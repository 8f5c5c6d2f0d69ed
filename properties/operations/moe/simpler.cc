// Simpler layers in place of a failing one: fewer experts, rows, tokens and columns, then plainer data. Every element
// is that of its place, so that what is left is what it was.

#include <algorithm>
#include <utility>

#include "properties/core/limits.h"
#include "properties/operations/moe/operation.h"

namespace mxcheck {
namespace {

using Sizes = std::vector<std::int64_t>;

Sizes sizes_of(const Case& c) {
  Sizes sizes;
  for (std::size_t e = 0; e + 1 < c.experts.size(); ++e) sizes.push_back(c.experts[e + 1] - c.experts[e]);
  return sizes;
}

class SimplerLayers {
 public:
  explicit SimplerLayers(const Case& c) : c_(c) {}

  template <class Change>
  void with(const Change& change) {
    Case n = c_;
    change(n);
    fit_moe(n);
    if (n != c_) all_.push_back(std::move(n));
  }
  void with_sizes(const Sizes& sizes) {
    with([&](Case& n) {
      n.experts.assign(1, 0);
      for (const std::int64_t size : sizes) n.experts.push_back(n.experts.back() + size);
    });
  }

  std::vector<Case> take() { return std::move(all_); }

 private:
  const Case& c_;
  std::vector<Case> all_;
};

void fewer_experts(const Case& c, SimplerLayers& simpler) {
  const Sizes sizes = sizes_of(c);
  const std::size_t count = sizes.size();
  simpler.with_sizes({*std::max_element(sizes.begin(), sizes.end())});
  if (count > 2) simpler.with_sizes({sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(count / 2)});
  if (count > 2) simpler.with_sizes({sizes.begin() + static_cast<std::ptrdiff_t>(count / 2), sizes.end()});
  if (count > 1) simpler.with_sizes({sizes.begin() + 1, sizes.end()});
  if (count > 1) simpler.with_sizes({sizes.begin(), sizes.end() - 1});
}

// All that an expert can lose at once, then half of it, then a row.
void fewer_rows(const Case& c, SimplerLayers& simpler) {
  const Sizes sizes = sizes_of(c);
  Sizes ones = sizes;
  for (std::int64_t& size : ones) size = std::min<std::int64_t>(size, 1);
  simpler.with_sizes(ones);
  const std::size_t shown = std::min<std::size_t>(sizes.size(), 4);
  for (std::size_t e = 0; e < shown; ++e) {
    for (const std::int64_t size : {std::int64_t{0}, sizes[e] / 2, sizes[e] - 1}) {
      if (size < 0 || size >= sizes[e]) continue;
      Sizes fewer = sizes;
      fewer[e] = size;
      simpler.with_sizes(fewer);
    }
  }
}

// Multiples of 128 before others: a library may take no others.
void narrower(const Case& c, SimplerLayers& simpler) {
  const auto widths = [](std::int64_t width) {
    std::vector<std::int64_t> all;
    for (const std::int64_t to : {std::int64_t{128}, std::int64_t{32}, std::int64_t{8}, std::int64_t{1}, width / 2}) {
      if (to > 0 && to < width) all.push_back(to);
    }
    return all;
  };
  for (const std::int64_t cols : widths(c.cols)) simpler.with([&](Case& n) { n.cols = cols; });
  for (const std::int64_t inner : widths(moe_case(c).inner)) simpler.with([&](Case& n) { moe_case(n).inner = inner; });
}

}  // namespace

std::vector<Case> simpler_layers(const Case& c, const Finding&) {
  if (c.experts.size() < 2) return {};
  SimplerLayers simpler(c);
  const MoeCase& own = moe_case(c);
  fewer_experts(c, simpler);
  for (const std::int64_t rows : smaller_extents(c.rows)) simpler.with([&](Case& n) { n.rows = rows; });
  narrower(c, simpler);
  fewer_rows(c, simpler);
  if (c.threads != 0) simpler.with([](Case& n) { n.threads = 0; });
  if (c.misaligned.any()) simpler.with([](Case& n) { n.misaligned = {}; });
  if (own.drops != 0) simpler.with([](Case& n) { moe_case(n).drops = 0; });
  if (own.k > 1) simpler.with([](Case& n) { moe_case(n).k = 1; });
  if (own.k > 1) simpler.with([](Case& n) { moe_case(n).k -= 1; });
  if (own.k != 0) simpler.with([](Case& n) { moe_case(n).k = 0; });
  if (c.data != Data::zeros && c.data != Data::codes) simpler.with([](Case& n) { n.data = Data::codes; });
  if (c.data != Data::zeros) simpler.with([](Case& n) { n.data = Data::zeros; });
  if (c.seed > 1) simpler.with([](Case& n) { n.seed = 1; });
  return simpler.take();
}

}  // namespace mxcheck
