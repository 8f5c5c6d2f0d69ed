#include "properties/operations/scaled_blocks/operation.h"

#include <cstring>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "numerics/scale/recipe.h"
#include "properties/core/case_text.h"
#include "properties/core/invalid_call.h"

namespace mxcheck {
namespace {

constexpr std::string_view kLayouts[] = {"compact", "tcgen05"};

}  // namespace

std::vector<Variant> ScaledBlocksOperation::askable(const std::string& operation) const {
  std::vector<Variant> all;
  for (const Recipe& recipe : all_recipes()) {
    if (!takes(recipe) || (!depends_on_recipe() && recipe.name != "rceil")) continue;
    for (Format format : kElementFormats) {
      for (const auto& [name, block] : kBlockShapes) {
        for (int layout : {MXCHECK_COMPACT, MXCHECK_TCGEN05}) {
          for (Format dtype : kValueFormats) {
            Variant v{operation, dtype};
            blocks_of(v) = {format, recipe.name, block, layout};
            if (layout == MXCHECK_TCGEN05 && !has_tiles(block)) continue;
            if (can_be_asked(v)) all.push_back(std::move(v));
          }
        }
      }
    }
  }
  return all;
}

bool ScaledBlocksOperation::takes(const Recipe& recipe) const { return recipe.has_e8m0_scales(); }

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
  return pack(p);
}

std::string ScaledBlocksOperation::variant_text(const Variant& variant) const {
  const ScaledBlocksVariant& v = blocks_of(variant);
  return fmt::format("op={} format={} recipe={} block={} layout={} x={}", variant.operation, spec(v.format).name,
                     v.recipe, to_text(v.block), kLayouts[v.layout], spec(variant.dtype).name);
}

std::string ScaledBlocksOperation::option_text(const Case& c) const {
  const int pad = blocks_case(c).pad;
  return blocks_of(c.variant).layout != 0 || pad != 0 ? fmt::format(" pad={}", pad) : "";
}

bool ScaledBlocksOperation::set_field(Case& c, std::string_view field, std::string_view value) const {
  ScaledBlocksVariant& v = blocks_of(c.variant);
  if (field == "format") {
    v.format = format_field(field, value);
  } else if (field == "recipe") {
    v.recipe = recipe_named(value).name;
  } else if (field == "block") {
    v.block = block_shape_named(value);
  } else if (field == "layout") {
    v.layout = word_field(field, value, kLayouts);
  } else if (field == "pad") {
    blocks_case(c).pad = number_field<std::uint8_t>(field, value);
  } else {
    return false;
  }
  return true;
}

std::vector<InvalidCall> ScaledBlocksOperation::blocks_and_layouts() {
  std::vector<InvalidCall> all{unknown_layout(), negative_layout()};
  add_invalid(all, {invalid_blocks()});
  return all;
}

std::vector<InvalidCall> ScaledBlocksOperation::offsets() {
  return invalid_offsets([](const Call& call) { return read<mxcheck_policy>(call.policy).rows; });
}

Case case_of(const Call& call) {
  const auto policy = read<mxcheck_policy>(call.policy);
  const auto format = find_format(policy.format);
  if (!format) throw Error(ErrorKind::internal, "a call of an unknown format");
  Case c;
  c.variant.operation = call.operation;
  blocks_of(c.variant) = {*format, policy.recipe, {policy.block_rows, policy.block_cols}, policy.layout};
  c.rows = policy.rows, c.cols = policy.cols;
  c.threads = policy.threads;
  blocks_case(c).pad = policy.pad_byte;
  for (const CallTensor& tensor : call.inputs) {
    if (tensor.is_offsets) c.experts = values_in<std::int64_t>({tensor.data, tensor.bytes});
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

std::vector<CallTensor> output_tensors(const std::vector<TensorInfo>& outputs, int layout) {
  std::vector<CallTensor> tensors;
  for (const TensorInfo& info : outputs) {
    CallTensor t;
    t.dtype = spec(info.format).is_value ? info.format : Format::e4m3;
    t.shape = {info.rows, info.cols};
    if (info.format == Format::e8m0 && layout == MXCHECK_TCGEN05) t.shape = {info.cols};
    t.bytes = static_cast<std::uint64_t>(info.rows * info.cols) *
              static_cast<std::uint64_t>((spec(info.format).bits + 7) / 8);
    tensors.push_back(t);
  }
  return tensors;
}

}  // namespace mxcheck
