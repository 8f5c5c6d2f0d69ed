// Cases of matmul that every run has, beside those that are drawn: by variant, and once for each kind of kernel.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "properties/operations/matmul/fields.h"
#include "properties/operations/matmul/operation.h"
#include "properties/operations/matmul/problem.h"
#include "reference/matmul/matmul.h"

namespace mxcheck {

// Shapes and data that every variant meets on every run.
std::vector<Case> usual_matmuls(const Variant& v, Suite suite) {
  std::vector<Case> cases{
      matmul_corner(v, 0, 5, 128, Data::zeros, 1),      matmul_corner(v, 3, 0, 128, Data::zeros, 2),
      matmul_corner(v, 5, 7, 0, Data::normal, 3),       matmul_corner(v, 1, 1, 128, Data::boundaries, 4),
      matmul_corner(v, 130, 136, 384, Data::slots, 5),  matmul_corner(v, 65, 264, 640, Data::boundaries, 6),
      matmul_corner(v, 257, 129, 256, Data::wide, 7),   matmul_corner(v, 64, 8, 128, Data::specials, 8),
      matmul_corner(v, 200, 72, 1280, Data::normal, 9),
  };
  if (matmul_of(v).groups == MXCHECK_ROWS) {  // one expert with everything; sizes around the edges of tiles
    cases[4].experts = {0, 0, 130, 130};
    cases[8].experts = {0, 1, 1, 65, 128, 200};
    Case sizes = matmul_corner(v, 0, 40, 256, Data::slots, 10);
    sizes.experts = {0};
    for (std::int64_t n : {0, 1, 63, 64, 65, 127, 128, 129, 2, 0, 255, 256, 257})
      sizes.experts.push_back(sizes.experts.back() + n);
    sizes.rows = sizes.experts.back();
    cases.push_back(sizes);
  }
  if (matmul_of(v).groups == MXCHECK_DEPTH) cases[8].experts = {0, 0, 128, 640, 640, 1280};
  if (is_masked(v)) {  // a row each; nothing; full ones; one of many
    const auto counts = [](Case& c, std::int64_t capacity, std::vector<std::int64_t> of) {
      c.rows = static_cast<std::int64_t>(of.size()) * capacity, matmul_case(c).counts = std::move(of);
    };
    counts(cases[3], 1, {1, 0, 1}), counts(cases[4], 70, {0, 0, 0}), counts(cases[5], 65, {65, 65});
    counts(cases[6], 129, {128, 129, 1}), counts(cases[8], 200, {64, 200, 0, 65, 127, 1});
    counts(cases[7], 16, std::vector<std::int64_t>(40));
    matmul_case(cases[7]).counts[35] = 16;
  }
  // One operand one-hot over a tile: at every k in the quick suite, in every row at every k in the exhaustive one.
  const std::uint64_t step = suite == Suite::quick ? 128 : suite == Suite::full ? 32 : 1;
  for (std::uint64_t shift = 0; shift < 256; shift += step) {
    for (const std::uint64_t operand : {std::uint64_t{0}, std::uint64_t{1}}) {
      cases.push_back(matmul_corner(v, 128, 256, 256, Data::every_word, 2 * shift + operand));
    }
  }
  if (matmul_of(v).scales != MXCHECK_NO_SCALES && suite != Suite::quick) {  // every pair of scale bytes
    cases.push_back(
        matmul_corner(v, 256, matmul_of(v).block_b.rows == 128 ? 32768 : 256, matmul_of(v).block.cols, Data::slots, 0));
    if (matmul_of(v).groups == MXCHECK_ROWS) cases.back().experts = {0, 256};
    if (matmul_of(v).groups == MXCHECK_DEPTH) cases.back().experts = {0, matmul_of(v).block.cols};
    if (is_masked(v)) cases.back().rows = 256, matmul_case(cases.back()).counts = {256};
  }
  return cases;
}

// Cases that one kernel of a library may compute otherwise than the others, once for each contract, kind of groups and
// of scales: two large extents at a time, C where there is nothing to be added to it, and alpha where it is infinite or
// tiny, as the product of two tensors' scales may be.

namespace {

struct Shape {
  std::int64_t rows, cols, depth;
  bool adds;
  float alpha;
};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr Shape kShapes[] = {{72, 24, 2304, false, 1},        {3, 520, 2176, false, 1},
                             {136, 264, 128, false, 1},       {5, 8, 0, true, 1},
                             {5, 8, 0, true, -0.5F},          {9, 40, 128, true, -0.0F},
                             {9, 40, 128, true, 0x1.8p-130F}, {9, 40, 128, false, kInfinity},
                             {9, 40, 128, true, -kInfinity}};
// An alpha that makes everything NaN, once for each type of D too: an epilogue that leaves the product out where alpha
// is 1, or the sum where it is not above 0, takes another branch there.
constexpr Shape kNaNs[] = {{9, 40, 128, false, kNaN}, {9, 40, 128, true, kNaN}, {5, 8, 0, false, kInfinity}};
// All three extents large or odd at once, beyond what is drawn: schedules by one extent take another branch there. The
// first and the last cost as much as ten drawn cases, so that a contract has them once, in dense GEMMs.
constexpr Shape kThreeAtOnce[] = {{66, 66, 8320, false, 1}, {2, 4104, 264, false, 1}, {17'160, 8, 136, false, 1}};
// An epilogue that rounds alpha * sum + C once, which shows where D is FP32, and one that leaves out an alpha of NaN
// for some sizes: once for each type of D.
constexpr Shape kEpilogues[] = {{9, 40, 128, true, 1.0F / 3}, {20, 24, 256, true, -0x1.921fb6p-3F},
                                {70, 24, 128, true, 0.7F},    {3, 136, 384, true, 1.0F / 3},
                                {1, 1, 128, false, kNaN},     {70, 24, 256, true, kNaN},
                                {3, 136, 384, false, kNaN}};

Case shaped(const Variant& v, const Shape& shape, std::uint64_t seed) {
  Case c = matmul_corner(v, shape.rows, shape.cols, shape.depth, Data::normal, seed);
  matmul_case(c).adds = shape.adds, matmul_case(c).alpha = shape.alpha;
  return c;
}

// Few masked groups of more rows than a tile has, at a k of several blocks: most cases have many small groups.
void add_few_masked(const Variant& v, std::vector<Case>& cases) {
  struct Few {
    std::int64_t capacity, cols, depth;
    std::vector<std::int64_t> counts;
  };
  const Few all[] = {{200, 72, 384, {200}},
                     {260, 136, 640, {257}},
                     {129, 24, 2176, {129}},
                     {300, 40, 512, {300, 1}},
                     {256, 8, 1280, {0, 255, 129}}};
  for (const Few& few : all) {
    Case c = matmul_corner(v, few.capacity, few.cols, few.depth, Data::normal, 51 + cases.size());
    c.rows = static_cast<std::int64_t>(few.counts.size()) * few.capacity;
    matmul_case(c).counts = few.counts;
    cases.push_back(std::move(c));
  }
}

// True for the first of its kind.
template <class Kind>
bool is_first(std::vector<Kind>& known, Kind kind) {
  if (std::ranges::find(known, kind) != known.end()) return false;
  known.push_back(std::move(kind));
  return true;
}

// kThreeAtOnce and kEpilogues.
void add_rare_shapes(std::span<const Variant> variants, std::vector<Case>& cases) {
  constexpr std::uint64_t kSeed = 301;
  std::uint64_t seed = kSeed;
  std::vector<std::string> contracts;
  std::vector<std::tuple<std::string, int, int>> kinds;
  std::vector<std::tuple<std::string, int, int, Format>> kinds_of_d;
  for (const Variant& v : variants) {
    const MatmulVariant& own = matmul_of(v);
    const bool has_all = own.groups == MXCHECK_DENSE && is_first(contracts, v.operation);
    const bool is_new = is_first(kinds, {v.operation, own.groups, own.scales});
    for (const Shape& shape : kThreeAtOnce) {
      if (has_all || (is_new && shape.rows == 2)) cases.push_back(shaped(v, shape, seed++));
    }
    const bool from_c = parse_matmul_contract(contract_text(v.operation)).from_c;
    if (from_c || !is_first(kinds_of_d, {v.operation, own.groups, own.scales, v.dtype})) continue;
    for (const Shape& shape : kEpilogues) {
      if (!shape.adds || std::isnan(shape.alpha) || v.dtype == Format::fp32) cases.push_back(shaped(v, shape, seed++));
    }
  }
}

}  // namespace

std::vector<Case> matmuls_of_each_kind(std::span<const Variant> variants, Suite) {
  std::vector<Case> cases;
  std::vector<std::tuple<std::string, int, int>> kinds;
  std::vector<std::tuple<std::string, int, int, Format>> kinds_of_d;
  std::vector<int> groupings;
  for (const Variant& v : variants) {
    // Rows of more than 16 bits.
    const int groups = matmul_of(v).groups;
    if (groups != MXCHECK_DEPTH && is_first(groupings, groups))
      cases.push_back(matmul_corner(v, groups == MXCHECK_MASKED ? 16'400 : 65'600, 1, 128, Data::normal, 41));
    const bool from_c = parse_matmul_contract(contract_text(v.operation)).from_c;
    if (!from_c && is_first(kinds_of_d, {v.operation, groups, matmul_of(v).scales, v.dtype})) {
      for (const Shape& shape : kNaNs) cases.push_back(shaped(v, shape, 61 + cases.size()));
    }
    if (!is_first(kinds, {v.operation, groups, matmul_of(v).scales})) continue;
    for (const Shape& shape : kShapes) {
      if (!from_c || shape.alpha == 1) cases.push_back(shaped(v, shape, 11 + cases.size()));
    }
    if (is_masked(v)) add_few_masked(v, cases);
  }
  add_rare_shapes(variants, cases);
  return cases;
}

// Tens of millions of single-instruction sums: the evidence that the contract is the hardware's.
std::vector<Case> many_sums_of_steps(const Variant& v, Suite suite) {
  std::vector<Case> cases;
  const std::int64_t side = suite == Suite::quick ? 96 : suite == Suite::full ? 512 : 2048;
  std::uint64_t seed = 1;
  for (const Data data : {Data::normal, Data::boundaries, Data::wide, Data::bits, Data::specials, Data::slots}) {
    for (const std::int64_t cols : {std::int64_t{8}, std::int64_t{64}, side}) {
      for (const std::int64_t depth : {32, 96}) {
        for (const bool adds : {false, true}) {
          Case c = matmul_corner(v, side, cols, depth, data, seed++);
          matmul_case(c).adds = adds;
          cases.push_back(c);
        }
      }
    }
  }
  return cases;
}

// Each special scale of A with each of B, or, where a scale of B is that of 128 columns, with the first of them.
std::vector<Case> matmuls_of_special_scales(const Variant& v, Suite) {
  constexpr std::int64_t kFew = 7;
  const std::int64_t cols = matmul_of(v).block_b.rows == 1 ? kSpecialScales : kFew * matmul_of(v).block_b.rows;
  const bool by_depth = matmul_of(v).groups == MXCHECK_DEPTH;
  Case c = matmul_corner(v, kSpecialScales, cols, by_depth ? 384 : matmul_of(v).block.cols, Data::every_row, 1);
  if (matmul_of(v).groups == MXCHECK_ROWS) c.experts = {0, 0, kSpecialScales};
  if (is_masked(v)) c.rows = 2 * kSpecialScales, matmul_case(c).counts = {0, kSpecialScales};
  return {c};
}

// A special scale in the first, a middle and the last of several blocks of k, on one side or on both, beside blocks
// whose scales are usual: of every variant, and of single ones many, with another special scale each.
std::vector<Case> matmuls_of_special_blocks(std::span<const Variant> variants, Suite) {
  constexpr std::int64_t kBlocks = 3;
  constexpr std::size_t kFewest = 12;
  const std::size_t each = std::max<std::size_t>(1, kFewest / std::max<std::size_t>(1, variants.size()));
  std::vector<Case> cases;
  std::uint64_t seed = kSpecialInOneBlock;
  for (const Variant& v : variants) {
    const MatmulVariant& own = matmul_of(v);
    const std::int64_t depth = kBlocks * std::max(own.block.cols, own.block_b.cols);
    const std::int64_t cols = own.block_b.rows == 1 ? kBlocks * kSpecialScales : kBlocks * own.block_b.rows;
    for (std::size_t i = 0; i < each; ++i) {
      Case c = matmul_corner(v, kSpecialScales, cols, depth, Data::every_row, seed++);
      if (own.groups == MXCHECK_ROWS) c.experts = {0, 0, kSpecialScales};
      if (own.groups == MXCHECK_DEPTH) c.experts = {0, depth, depth};
      if (is_masked(v)) c.rows = 2 * kSpecialScales, matmul_case(c).counts = {0, kSpecialScales};
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

}  // namespace mxcheck
