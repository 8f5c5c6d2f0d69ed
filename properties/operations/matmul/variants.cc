// The variants of a matmul under a contract.

#include <array>
#include <span>
#include <utility>

#include "properties/operations/matmul/operation.h"
#include "reference/matmul/matmul.h"

namespace mxcheck {

std::vector<Variant> askable_matmuls(const std::string& operation) {
  const MatmulContract contract = parse_matmul_contract(contract_text(operation));
  const Contract& sum = *contract.sum;
  constexpr std::array kNarrow{Format::e4m3, Format::e5m2};
  const std::span<const Format> formats = contract.decodes ? std::span<const Format>(kNarrow) : sum.operands;
  std::vector<std::pair<BlockShape, BlockShape>> blocks;
  std::vector<int> scales{MXCHECK_NO_SCALES};
  if (sum.scale_terms != 0) {
    blocks = {{{1, sum.scale_terms}, {1, sum.scale_terms}}}, scales = {MXCHECK_E8M0};
  } else if (contract.promotion != 0 || contract.decodes) {
    for (std::int64_t width : {32, 128}) {
      if (contract.promotion != 0 && width % contract.promotion != 0) continue;
      blocks.push_back({{1, width}, {1, width}});
      if (width == 128) blocks.push_back({{1, 128}, {128, 128}});
    }
    scales = {MXCHECK_E8M0, MXCHECK_FP32};
    if (!contract.decodes) scales.insert(scales.begin(), MXCHECK_NO_SCALES);
  }
  std::vector<Variant> all;
  const auto add = [&](Format a, Format b, int scale, BlockShape block_a, BlockShape block_b) {
    for (int groups : {MXCHECK_DENSE, MXCHECK_ROWS, MXCHECK_DEPTH}) {
      for (Format dtype : {Format::bf16, Format::fp32}) {
        if (contract.from_c && dtype != Format::fp32) continue;
        Variant v{operation, dtype};
        matmul_of(v) = {a, b, block_a, block_b, scale, groups};
        all.push_back(std::move(v));
      }
    }
  };
  for (Format a : formats) {
    for (Format b : formats) {
      if (a != b && !contract.decodes && !sum.mixes) continue;
      for (int scale : scales) {
        if (scale == MXCHECK_NO_SCALES)
          add(a, b, scale, {0, 0}, {0, 0});
        else
          for (const auto& [block_a, block_b] : blocks) add(a, b, scale, block_a, block_b);
      }
    }
  }
  return all;
}

Case matmul_corner(const Variant& v, std::int64_t rows, std::int64_t cols, std::int64_t depth, Data data,
                   std::uint64_t seed) {
  Case c;
  c.variant = v;
  c.rows = rows, c.cols = cols, matmul_case(c).depth = depth, c.data = data, c.seed = seed;
  const int groups = matmul_of(v).groups;
  if (groups == MXCHECK_ROWS) c.experts = {0, rows / 3, rows / 3, rows};
  if (groups == MXCHECK_DEPTH) c.experts = {0, depth / 256 * 128, depth / 256 * 128, depth};
  return c;
}

}  // namespace mxcheck
