#include "reference/matmul/parts.h"

#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

OperandWindow whole(const MatmulOperand& x) {
  OperandWindow w;
  w.operand = &x;
  w.rows = x.rows;
  w.depth = x.depth;
  return w;
}

std::int64_t scale_blocks(std::int64_t extent, std::int64_t block) { return block == 0 ? 0 : ceil_div(extent, block); }

}  // namespace

std::vector<MatmulPart> parts_of(const Matmul& p) {
  OperandWindow a = whole(p.a);
  a.rows = p.m();
  if (p.gathers) a.index = p.row_index.data();
  const OperandWindow b = whole(p.b);
  std::vector<MatmulPart> parts;
  if (p.grouping == Grouping::none) return {{0, a, b, 0}};
  std::int64_t a_scales = 0;
  std::int64_t b_scales = 0;
  for (std::int64_t e = 0; e < p.experts(); ++e) {
    const std::int64_t begin = p.offsets[static_cast<std::size_t>(e)];
    const std::int64_t count = p.offsets[static_cast<std::size_t>(e) + 1] - begin;
    MatmulPart part{e, a, b, 0};
    if (p.grouping == Grouping::rows) {
      part.a = a.rows_from(0, count);
      if (p.gathers) part.a.index = a.index + begin;
      if (!p.gathers) part.a.first_row = begin, part.a.scale_row = a_scales;
      part.b.first_row = e * p.b.rows, part.b.scale_row = e * scale_blocks(p.b.rows, p.b.block.rows);
      part.d_first = begin * p.b.rows;
      a_scales += scale_blocks(count, p.a.block.rows);
    } else {
      part.a.first_k = part.b.first_k = begin;
      part.a.depth = part.b.depth = count;
      part.a.scale_depth = a_scales, part.b.scale_depth = b_scales;
      part.d_first = e * p.m() * p.b.rows;
      a_scales += scale_blocks(count, p.a.block.cols);
      b_scales += scale_blocks(count, p.b.block.cols);
    }
    parts.push_back(part);
  }
  return parts;
}

}  // namespace mxcheck
