#include "benchmarks/sm90/moe/tensors.h"

#include <algorithm>

#include <fmt/format.h>

#include "numerics/error.h"

namespace mxcheck::bench {
namespace {

constexpr DLDataType kInt32{kDLInt, 32, 1};
constexpr DLDataType kInt64{kDLInt, 64, 1};
constexpr DLDataType kFp32{kDLFloat, 32, 1};
constexpr DLDataType kBf16{kDLBfloat, 16, 1};
constexpr DLDataType kByte{kDLUInt, 8, 1};

constexpr std::int64_t kBlock = 128;  // of all that is kept in codes

std::int64_t blocks(std::int64_t extent, std::int64_t block) { return (extent + block - 1) / block; }

[[noreturn]] void refuse(const LayerRecipe& recipe, const char* what) {
  throw Error(ErrorKind::usage, fmt::format("recipe {} keeps {}, for which the candidate interface has no type; BF16 "
                                            "or blocks of 1x128 are needed",
                                            recipe.name, what));
}

void add_kept_h(const MoeShape& s, const LayerRecipe& recipe, std::vector<MoeTensor>& to) {
  const std::int64_t rows = s.rows();
  if (!recipe.kept_h.quantized()) {
    to.push_back({"h", kBf16, {rows, 2 * s.inner}});
    return;
  }
  if (recipe.kept_h.format != Format::e5m6 || recipe.kept_h.block != BlockShape{1, kBlock}) refuse(recipe, "H");
  to.push_back({"h", kByte, {rows, 12 * blocks(2 * s.inner, 8)}});
  to.push_back({"h scales", kByte, {rows, blocks(2 * s.inner, kBlock)}});
}

void add_kept_x(const MoeShape& s, const LayerRecipe& recipe, std::vector<MoeTensor>& to) {
  if (!recipe.keeps_quantized_x) return;
  const OperandRule& rule = recipe.gemm(LayerGemm::up).a;
  if (rule.format != Format::e4m3 || rule.block != BlockShape{1, kBlock}) refuse(recipe, "X");
  to.push_back({"x codes", kByte, {s.tokens, s.width}});
  to.push_back({"x scales", rule.scales == "fp32" ? kFp32 : kByte, {s.tokens, blocks(s.width, kBlock)}});
}

std::vector<std::string> names_of(std::span<const MoeTensor> tensors) {
  std::vector<std::string> names;
  for (const MoeTensor& t : tensors) names.push_back(t.name);
  return names;
}

void append(std::vector<std::string>& to, const std::vector<std::string>& names) {
  to.insert(to.end(), names.begin(), names.end());
}

}  // namespace

std::int64_t MoeTensor::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::uint64_t bytes_of(std::span<const MoeTensor> tensors) {
  std::uint64_t sum = 0;
  for (const MoeTensor& t : tensors) sum += t.bytes();
  return sum;
}

std::uint64_t MoeTensors::kept_bytes() const { return bytes_of(kept) + (keeps_given_x ? given.front().bytes() : 0); }

MoeTensors moe_tensors(const MoeShape& s, const LayerRecipe& recipe) {
  const std::int64_t rows = s.rows();
  MoeTensors t;
  t.given = {{"x", kBf16, {s.tokens, s.width}},
             {"w1", kBf16, {s.experts * s.width, 2 * s.inner}},
             {"w2", kBf16, {s.experts * s.inner, s.width}},
             {"d_o", kBf16, {s.tokens, s.width}}};
  t.routes = {{"row_token", kInt32, {rows}},
              {"row_weight", kFp32, {rows}},
              {"token_offsets", kInt64, {s.tokens + 1}},
              {"token_rows", kInt32, {rows}},
              {"offsets", kInt64, {s.experts + 1}}};
  add_kept_h(s, recipe, t.kept);
  add_kept_x(s, recipe, t.kept);
  t.keeps_given_x = !recipe.keeps_quantized_x;
  t.forward = {{"o", kBf16, {s.tokens, s.width}}};
  t.backward = {{"dx", kBf16, {s.tokens, s.width}},
                {"dw1", kFp32, {s.experts * s.width, 2 * s.inner}},
                {"dw2", kFp32, {s.experts * s.inner, s.width}},
                {"ds", kFp32, {rows}}};
  return t;
}

std::vector<std::string> moe_inputs(const MoeTensors& t, Direction direction) {
  std::vector<std::string> names;
  if (direction == Direction::forward) {
    names = {"x", "w1", "w2"};
  } else {
    names = {"d_o", "w1", "w2"};
    append(names, names_of(t.kept));
    if (t.keeps_given_x) names.emplace_back("x");
  }
  append(names, names_of(t.routes));
  return names;
}

std::vector<std::string> moe_outputs(const MoeTensors& t, Direction direction) {
  if (direction == Direction::backward) return names_of(t.backward);
  std::vector<std::string> names = names_of(t.forward);
  append(names, names_of(t.kept));
  return names;
}

std::uint64_t moe_call_bytes(const MoeTensors& t, Direction direction) {
  std::vector<std::string> names = moe_inputs(t, direction);
  append(names, moe_outputs(t, direction));
  std::uint64_t sum = 0;
  for (const std::vector<MoeTensor>* list : {&t.given, &t.routes, &t.kept, &t.forward, &t.backward}) {
    for (const MoeTensor& tensor : *list) {
      if (std::ranges::find(names, tensor.name) != names.end()) sum += tensor.bytes();
    }
  }
  return sum;
}

}  // namespace mxcheck::bench
