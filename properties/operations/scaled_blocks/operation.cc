#include "properties/operations/scaled_blocks/operation.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "kernels/candidate.h"
#include "kernels/candidate_nvfp4.h"
#include "numerics/bytes.h"
#include "numerics/scale/recipe.h"
#include "properties/core/case_text.h"
#include "properties/core/check.h"
#include "properties/core/invalid_call.h"
#include "properties/core/limits.h"
#include "properties/core/rng.h"
#include "properties/core/simpler.h"

namespace mxcheck {
namespace {

constexpr std::string_view kLayouts[] = {"compact", "tcgen05"};

}  // namespace

namespace {

constexpr std::array<Named<BlockShape>, 2> kTwoLevelBlocks{{{"1x16", {1, 16}}, {"16x16", {16, 16}}}};

}  // namespace

bool ScaledBlocksOperation::may_have_recipe(const Recipe& recipe) const {
  if (traits_.has_two_levels) return recipe.has_two_levels();
  if (!recipe.has_e8m0_scales() && !(traits_.takes_fp32_scales && recipe.name == "fp32")) return false;
  return traits_.depends_on_recipe || recipe.name == "rceil";
}

bool ScaledBlocksOperation::has_options(std::string_view contract) const {
  return traits_.has_options && contract == MXCHECK_NVFP4_OPTIONS_CONTRACT;
}

std::string ScaledBlocksOperation::variant_name(std::string_view contract) const {
  return has_options(contract) ? std::string(name()) : Operation::variant_name(contract);
}

// The variants without options first.
std::vector<Variant> ScaledBlocksOperation::askable_under(const std::string& operation,
                                                          std::string_view contract) const {
  std::vector<Variant> all = askable(operation);
  if (!has_options(contract)) return all;
  const std::vector<Variant> plain = all;
  for (const Nvfp4Options& options : askable_nvfp4_options()) {
    for (Variant v : plain) {
      blocks_of(v).options = options;
      all.push_back(std::move(v));
    }
  }
  return all;
}

std::vector<Variant> ScaledBlocksOperation::askable(const std::string& operation) const {
  std::vector<Variant> all;
  std::vector<Format> types(kValueFormats.begin(), kValueFormats.end());
  if (traits_.takes_fp64) types.push_back(Format::fp64);
  constexpr std::array kTwoLevelFormats{Format::e2m1};
  const std::span<const Format> formats =
      traits_.has_two_levels ? std::span<const Format>(kTwoLevelFormats) : std::span<const Format>(kElementFormats);
  const std::span<const Named<BlockShape>> blocks =
      traits_.has_two_levels ? std::span<const Named<BlockShape>>(kTwoLevelBlocks) : kAskedBlockShapes;
  for (const Recipe& recipe : traits_.has_two_levels ? two_level_recipes() : all_recipes()) {
    if (!may_have_recipe(recipe)) continue;
    for (Format format : formats) {
      for (const auto& [name, block] : blocks) {
        for (int layout : {MXCHECK_COMPACT, MXCHECK_TCGEN05}) {
          for (Format dtype : types) {
            Variant v{operation, dtype};
            blocks_of(v) = {format, recipe.name, block, layout};
            if (layout == MXCHECK_TCGEN05 && !has_tiles(block)) continue;
            if (traits_.can_be_asked(v)) all.push_back(std::move(v));
          }
        }
      }
    }
  }
  return all;
}

Policy ScaledBlocksOperation::policy(const Case& c) const {
  const ScaledBlocksVariant& v = blocks_of(c.variant);
  mxcheck_policy p{};
  p.format = spec(v.format).name.data();
  p.recipe = v.recipe.c_str();
  p.block_rows = v.block.rows, p.block_cols = v.block.cols;
  p.rows = c.rows, p.cols = c.cols;
  p.layout = v.layout;
  p.threads = c.threads;
  p.pad_byte = blocks_case(c).pad;
  return v.options.any() ? nvfp4_policy(c, p) : pack(p);
}

// The smallest block and the widest type of a recipe and format.
std::optional<IdentifiedAs> ScaledBlocksOperation::identified_as(const Variant& v) const {
  const ScaledBlocksVariant& own = blocks_of(v);
  if (own.options.any() || own.layout != MXCHECK_COMPACT || spec(own.format).bits > 8) return std::nullopt;
  return IdentifiedAs{v.operation + " " + std::string(spec(own.format).name) + " " + own.recipe,
                      own.block.height(1) * own.block.width(64) * 4 + rank_of_type(v.dtype), traits_.is_transposed};
}

std::string ScaledBlocksOperation::variant_text(const Variant& variant) const {
  const ScaledBlocksVariant& v = blocks_of(variant);
  return fmt::format("op={} format={} recipe={} block={} layout={} x={}", variant.operation, spec(v.format).name,
                     v.recipe, to_text(v.block), kLayouts[v.layout], spec(variant.dtype).name) +
         mxcheck::variant_text(v.options);
}

std::string ScaledBlocksOperation::option_text(const Case& c) const {
  const int pad = blocks_case(c).pad;
  const std::uint32_t outer = blocks_case(c).tensor_scale;
  return (blocks_of(c.variant).layout != 0 || pad != 0 ? fmt::format(" pad={}", pad) : "") +
         (outer != 0 ? fmt::format(" tensor_scale=0x{:08x}", outer) : "") + case_text(blocks_case(c).random);
}

bool ScaledBlocksOperation::set_field(Case& c, std::string_view field, std::string_view value) const {
  ScaledBlocksVariant& v = blocks_of(c.variant);
  const FieldText f{field, value};
  if (traits_.takes_fp64 && field == "x" && value == spec(Format::fp64).name) {
    c.variant.dtype = Format::fp64;
    return true;
  }
  if (traits_.has_two_levels && field == "tensor_scale") {
    const std::string_view digits = value.starts_with("0x") ? value.substr(2) : value;
    blocks_case(c).tensor_scale = number_field<std::uint32_t>(field, digits, 16);
    const float scale = std::bit_cast<float>(blocks_case(c).tensor_scale);
    if (!(scale > 0) || std::isinf(scale)) fail_field(field, value, "the bits of a positive finite FP32");
    return true;
  }
  if (traits_.has_options && set_nvfp4_field(c, field, value)) return true;
  const auto recipe = [&] { return traits_.has_two_levels ? any_recipe_named(value) : recipe_named(value); };
  return f.format("format", v.format) || f.read("recipe", [&] { v.recipe = recipe().name; }) ||
         f.read("block", [&] { v.block = block_shape_named(value); }) || f.word("layout", v.layout, kLayouts) ||
         f.number("pad", blocks_case(c).pad);
}

std::vector<InvalidCall> invalid_scaled_blocks(std::vector<InvalidCall> own) {
  add_invalid(own, {{unknown_layout(), negative_layout()}, invalid_blocks(), invalid_offsets([](const Call& call) {
                      return read<mxcheck_policy>(call.policy).rows;
                    })});
  return own;
}

std::vector<std::uint8_t> input_bytes(const Call& call, std::size_t number) {
  return values_in<std::uint8_t>({call.inputs[number].data, call.inputs[number].bytes});
}

Case case_of(const Call& call, Format dtype) {
  const auto policy = read<mxcheck_policy>(call.policy);
  const auto format = find_format(policy.format);
  if (!format) throw Error(ErrorKind::internal, "a call of an unknown format");
  Case c;
  c.variant.operation = call.operation, c.variant.dtype = dtype;
  blocks_of(c.variant) = {*format, policy.recipe, {policy.block_rows, policy.block_cols}, policy.layout};
  c.rows = policy.rows, c.cols = policy.cols;
  c.threads = policy.threads;
  blocks_case(c).pad = policy.pad_byte;
  if (call.operation == "quantize_nvfp4") read_nvfp4_policy(call.policy, c);
  std::size_t outers = 0;
  for (const CallTensor& tensor : call.inputs) {
    if (tensor.is_offsets) c.experts = values_in<std::int64_t>({tensor.data, tensor.bytes});
    const bool is_outer = !tensor.is_offsets && !tensor.is_index && tensor.shape.size() == 1;
    if (is_outer && tensor.dtype == Format::fp32 && tensor.bytes == 4) {
      const std::uint32_t bits = values_in<std::uint32_t>({tensor.data, tensor.bytes})[0];
      (++outers == 1 ? blocks_case(c).tensor_scale : blocks_case(c).random.column_scale) = bits;
    }
  }
  return c;
}

CallTensor u8_tensor(std::vector<std::int64_t> shape, const std::vector<std::uint8_t>& bytes) {
  CallTensor t;
  t.dtype = Format::e4m3;
  t.shape = std::move(shape);
  t.bytes = bytes.size();
  t.data = reinterpret_cast<const std::byte*>(bytes.data());
  return t;
}

CallTensor scales_tensor(const ScaleGeometry& g, int layout, const std::vector<std::uint8_t>& scales) {
  return u8_tensor(layout == MXCHECK_TCGEN05 ? std::vector{g.tiled_bytes} : std::vector{g.rows, g.cols}, scales);
}

// Simpler cases of the operations on scaled blocks, and large ones.

namespace {

// The relevant elements alone, moved to the first places.
void keep_relevant(Case& n, const std::vector<Plant>& relevant) {
  n.data = Data::zeros, n.plants.clear(), n.experts.clear(), n.set_contiguous(), n.threads = 0, n.gather = 0;
  n.misaligned = {};
  for (const Plant& p : relevant) {
    const bool seen = std::any_of(n.plants.begin(), n.plants.end(), [&](const Plant& q) { return q.bits == p.bits; });
    if (!seen) n.plants.push_back({0, static_cast<std::int64_t>(n.plants.size()), p.bits});
  }
  const bool column = blocks_of(std::as_const(n).variant).block.cols == 1;
  if (column) {
    for (Plant& p : n.plants) std::swap(p.row, p.col);
  }
  const auto count = static_cast<std::int64_t>(n.plants.size());
  n.rows = std::min<std::int64_t>(n.rows, column ? count : 1);
  n.cols = std::min<std::int64_t>(n.cols, column ? 1 : count);
}

}  // namespace

std::vector<Case> ScaledBlocksOperation::simpler(const Case& c, const Finding& finding) const {
  SimplerCases simpler(c, [](Case& n) { fit_to_groups(n), fit_plants(n), fit_experts(n); });
  if (c.data != Data::zeros && !finding.relevant.empty()) {
    simpler.with([&](Case& n) { keep_relevant(n, finding.relevant); });
    simpler.with([&](Case& n) { n.data = Data::zeros, n.plants = finding.relevant; });
  }
  simpler.with([](Case& n) { n.experts.clear(); });
  simpler.fewer_experts({0, 1, c.rows / 2, c.rows / 256 * 128});
  simpler.plainer_call();
  simpler.fewer_rows();
  simpler.fewer_cols();
  simpler.plainer_data();
  for (std::size_t i = 0; i < c.plants.size(); ++i) {
    simpler.with([&](Case& n) { n.plants.erase(n.plants.begin() + static_cast<std::ptrdiff_t>(i)); });
    simpler.with([&](Case& n) { n.plants[i].row = 0; });
    simpler.with([&](Case& n) { n.plants[i].col = 0; });
  }
  simpler.with([](Case& n) { blocks_case(n).pad = 0; });
  if (traits_.has_two_levels) {
    simpler.with([](Case& n) { blocks_case(n).tensor_scale = std::bit_cast<std::uint32_t>(1.0F); });
  }
  if (blocks_of(c.variant).options.any()) {
    simpler.with([](Case& n) { blocks_case(n).random.signs = {}; });
    simpler.with([](Case& n) { blocks_case(n).random.offset = 0; });
    simpler.with([](Case& n) { blocks_case(n).random.counter = blocks_case(n).random.column_counter = {}; });
    if (blocks_of(c.variant).options.is_stochastic()) simpler.with([](Case& n) { blocks_case(n).random.key = 1; });
    if (blocks_of(c.variant).options.has_both)
      simpler.with([](Case& n) { blocks_case(n).random.column_scale = std::bit_cast<std::uint32_t>(1.0F); });
  }
  simpler.first_seed();
  return simpler.take();
}

void ScaledBlocksOperation::fit(Case& c) const { fit_to_groups(c); }

// Down to none, where groups divide the rows: callers halve until a case is small.
void ScaledBlocksOperation::halve_rows(Case& c) const {
  Operation::halve_rows(c);
  const Nvfp4Options& o = blocks_of(std::as_const(c).variant).options;
  if (o.has_both && o.hadamard != 0) c.rows = c.rows / o.hadamard * o.hadamard;
}

void ScaledBlocksOperation::check(const Case& c) const { check_nvfp4_options(c); }

std::vector<Case> ScaledBlocksOperation::large_cases(const Variant& v, Suite suite) const {
  const ScaledBlocksVariant& blocks = blocks_of(v);
  const bool usual = v.dtype == Format::bf16 && blocks.recipe == "rceil" && blocks.format == Format::e4m3;
  if (suite == Suite::quick && !usual) return {};
  Case c;
  c.variant = v, c.rows = 1031, c.cols = 1037, c.data = Data::boundaries, c.seed = 5, blocks_case(c).pad = 1;
  fit_to_groups(c);
  if (!traits_.has_experts || blocks.options.has_both) return {c};
  Case grouped = c;
  grouped.experts = {0, 3, 3, 515, 1031};
  return {c, grouped};
}

// Corners and statements that all operations on scaled blocks share.

Case blocks_corner(const Variant& v, std::int64_t rows, std::int64_t cols, Data data, std::uint64_t seed) {
  Case c;
  c.variant = v;
  c.rows = rows, c.cols = cols, c.data = data, c.seed = seed, blocks_case(c).pad = 255;
  fit_to_groups(c);
  Draw draw(derived_seed(seed, "nvfp4 options"));
  draw_nvfp4_random(c, draw);
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
  if (v.operation != "cast" && !blocks.options.has_both) cases[6].experts = {0, 0, 1, 34, 34, 131};
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
  s.check = equals_the_reference;
  s.corners = usual_corners;
  s.shared_corners = edges_of_rows_and_experts;
  s.cases_per_variant = 3;
  s.covers_pairs = s.col_strides = true;
  return s;
}

std::vector<Statement> large_tensor_statements() {
  static constexpr std::int64_t kMostOfAGrid = 65'535;
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
  s.check = equals_the_reference;
  s.corners = [](const Variant& v, Suite suite) -> std::vector<Case> {
    const BlockShape block = blocks_of(v).block;
    const bool main_block = block == BlockShape{1, 32} || block == BlockShape{32, 1};
    const bool usual = block == BlockShape{1, 32} || (block == BlockShape{32, 1} && v.operation == "quantize");
    // More blocks below one another than a grid has in its second and third dimension.
    std::vector<Case> cases;
    const std::int64_t height = v.operation == "quantize_dual" ? block.cols : block.rows;
    if (v.dtype == Format::bf16 && height > 1 && (height == 32 || suite != Suite::quick))
      cases.push_back(blocks_corner(v, kMostOfAGrid * height + 1, 1, Data::boundaries, 12));
    if (suite == Suite::quick && (v.dtype != Format::bf16 || !usual)) return cases;
    Case c = blocks_corner(v, main_block ? 4099 : 1027, 4111, Data::boundaries, 11);
    c.experts = {0, 0, 100, c.rows};
    if ((v.operation == "quantize" && block.rows == 1) || v.operation == "cast") c.experts.clear();
    cases.push_back(std::move(c));
    return cases;
  };
  return {s};
}

}  // namespace mxcheck
