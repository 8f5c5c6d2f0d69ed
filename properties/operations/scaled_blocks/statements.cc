// Corners and statements that all operations on scaled blocks share.

#include "kernels/candidate.h"
#include "properties/core/check.h"
#include "properties/operations/scaled_blocks/operation.h"

namespace mxcheck {
namespace {

std::optional<Finding> equals_reference(CheckContext& context, const Case& c) {
  const Posed posed = posed_of(context, c);
  return equals_answer(context, *posed.problem, posed.answer, {});
}

}  // namespace

Case blocks_corner(const Variant& v, std::int64_t rows, std::int64_t cols, Data data, std::uint64_t seed) {
  Case c;
  c.variant = v;
  c.rows = rows, c.cols = cols, c.data = data, c.seed = seed, blocks_case(c).pad = 255;
  return c;
}

std::vector<Case> usual_corners(const Variant& v, Suite) {
  const ScaledBlocksVariant& blocks = blocks_of(v);
  const std::int64_t width = blocks.block.cols == 0 ? 96 : blocks.block.cols;
  const std::int64_t height = blocks.block.rows == 0 ? 1 : blocks.block.rows;
  std::vector<Case> cases{
      blocks_corner(v, 0, 5, Data::zeros, 1),
      blocks_corner(v, 3, 0, Data::zeros, 2),
      blocks_corner(v, 1, 1, Data::boundaries, 3),
      blocks_corner(v, height * 2 + 1, width * 3 + 1, Data::specials, 4),
      blocks_corner(v, height * 3, width * 2, Data::boundaries, 5),
      blocks_corner(v, height + 17, width * 5 + 31, Data::slots, 6),
      blocks_corner(v, 131, width * 4 - 1, Data::slots, 7),
      blocks_corner(v, height * 2 - 1, 2 * width - 1, Data::bits, 8),
  };
  if (v.operation != "cast") cases[6].experts = {0, 0, 1, 34, 34, 131};
  cases[4].stride = cases[4].cols + 3;
  if (blocks.recipe == "rceil" && blocks.format == Format::e4m3 && v.dtype == Format::bf16) {  // beyond 16 bits
    cases.push_back(blocks_corner(v, 66'001, 3, Data::slots, 9));
    cases.push_back(blocks_corner(v, 3, 66'001, Data::slots, 10));
  }
  return cases;
}

Statement blocks_equality(std::string_view name, std::string_view operation, std::string_view sentence,
                          std::string_view source) {
  Statement s;
  s.name = name, s.sentence = sentence, s.source = source;
  s.applies = [operation](const Variant& v, std::span<const Variant>) { return v.operation == operation; };
  s.data = {Data::boundaries, Data::boundaries, Data::boundaries, Data::boundaries, Data::codes, Data::slots,
            Data::normal,     Data::real,       Data::bits,       Data::specials,   Data::wide,  Data::sparse};
  s.check = equals_reference;
  s.corners = usual_corners;
  s.cases_per_variant = 3;
  s.covers_pairs = true;
  return s;
}

std::vector<Statement> large_tensor_statements() {
  Statement s;
  s.name = "large_tensors_equal_the_reference";
  s.sentence = "tensors of over sixteen million elements have the reference's bytes, each and every one";
  s.source = "reference/quantize/quantize.h";
  s.applies = [](const Variant& v, std::span<const Variant> all) {
    if (dynamic_cast<const ScaledBlocksOperation*>(find_operation(v.operation)) == nullptr) return false;
    const ScaledBlocksVariant& blocks = blocks_of(v);
    Variant tiled = v;
    blocks_of(tiled).layout = MXCHECK_TCGEN05;
    const bool preferred = blocks.layout == (offers(all, tiled) ? MXCHECK_TCGEN05 : MXCHECK_COMPACT);
    return preferred && v.dtype != Format::fp16 && blocks.recipe == "rceil" && blocks.format == Format::e4m3;
  };
  s.check = equals_reference;
  s.corners = [](const Variant& v, Suite suite) -> std::vector<Case> {
    const BlockShape block = blocks_of(v).block;
    const bool main_block = block == BlockShape{1, 32} || block == BlockShape{32, 1};
    const bool usual = block == BlockShape{1, 32} || (block == BlockShape{32, 1} && v.operation == "quantize");
    if (suite == Suite::quick && (v.dtype == Format::fp32 || !usual)) return {};
    Case c = blocks_corner(v, main_block ? 4099 : 1027, 4111, Data::boundaries, 11);
    c.experts = {0, 0, 100, c.rows};
    if ((v.operation == "quantize" && block.rows == 1) || v.operation == "cast") c.experts.clear();
    return {c};
  };
  return {s};
}

}  // namespace mxcheck
