#include "kernels/sm90/moe/moe_call.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/common/dtype.h"
#include "kernels/common/layer/tensors.h"
#include "kernels/common/names.h"
#include "kernels/sm90/common/arguments.h"

namespace mxcheck_kernels::sm90 {
namespace {

// ---- Recipes ----

constexpr RoundRule kE4m3{RoundFormat::e4m3, RoundScale::rceil};
constexpr RoundRule kE4m3Floor{RoundFormat::e4m3, RoundScale::floor};
constexpr RoundRule kE5m2{RoundFormat::e5m2, RoundScale::rceil};
constexpr RoundRule kE2m1Raised{RoundFormat::e2m1, RoundScale::deepgemm_host};

// Activations and weights by one rule, dO and dH by another.
constexpr MoeRecipe rounded(std::string_view name, RoundRule value, RoundRule gradient) {
  return {name,
          MoeOperands::values,
          {value, value, value, value, gradient, value, gradient, value, value, gradient, value, gradient}};
}
// NVFP4 in the forward pass, the backward pass or both: values in 1x16, weights in 16x16, gradients rounded
// stochastically, operands along tokens rotated.
constexpr MoeRecipe two_levels(std::string_view name, bool forward, bool backward, bool four_over_six) {
  const TwoLevelRule value{.four_over_six = four_over_six};
  const TwoLevelRule weight{.squares = true, .four_over_six = four_over_six};
  const TwoLevelRule value_column{.four_over_six = four_over_six, .rotates = true};
  const TwoLevelRule gradient{.stochastic = true};
  const TwoLevelRule gradient_column{.rotates = true, .stochastic = true};
  MoeRecipe recipe{name};
  if (forward) recipe.rules = {value, weight, value, weight};
  if (backward) {
    const std::array<TwoLevelRule, 8> rules{gradient,     weight,          gradient,     weight,
                                            value_column, gradient_column, value_column, gradient_column};
    for (std::size_t i = 0; i < rules.size(); ++i) recipe.rules[4 + i] = rules[i];
  }
  return recipe;
}
// Quartet II: Four Over Six in the forward pass, MS-EDEN in the backward pass.
constexpr MoeRecipe quartet2() {
  const TwoLevelRule forward{.four_over_six = true};
  const MsEdenRule of_values;
  const MsEdenRule again{.requantizes = true};
  return {
      "quartet2",
      MoeOperands::values,
      {forward, forward, forward, forward, of_values, again, of_values, again, of_values, of_values, again, of_values}};
}
constexpr MoeRecipe blocks(std::string_view name, CodeScale scale, bool square_gradients, bool keeps_e5m6) {
  return {name, MoeOperands::blocks, {}, scale, square_gradients, keeps_e5m6};
}

constexpr std::array kRecipes{
    MoeRecipe{"bf16"},
    rounded("mxfp8", kE4m3, kE4m3),
    rounded("mxfp8_floor", kE4m3Floor, kE4m3Floor),
    rounded("mxfp8_e5m2_grad", kE4m3, kE5m2),
    rounded("broken", kE4m3, kE2m1Raised),
    blocks("dsv3", CodeScale::fp32, false, false),
    blocks("dsv3_pow2", CodeScale::rceil, false, true),
    blocks("dsv3_128x128_grad", CodeScale::fp32, true, false),
    MoeRecipe{"fp8_tensor", MoeOperands::tensors},
    two_levels("nvfp4", true, true, false),
    two_levels("nvfp4_forward", true, false, false),
    two_levels("nvfp4_backward", false, true, false),
    two_levels("nvfp4_46", true, true, true),
    quartet2(),
};

struct NamedFormat {
  std::string_view name;
  RoundFormat format;
};
constexpr std::array kFormats{NamedFormat{"e4m3", RoundFormat::e4m3}, NamedFormat{"e5m2", RoundFormat::e5m2},
                              NamedFormat{"e2m1", RoundFormat::e2m1}, NamedFormat{"e2m3", RoundFormat::e2m3},
                              NamedFormat{"e3m2", RoundFormat::e3m2}};

std::optional<OperandRule> rule_of(const std::string& word) {
  if (word == "bf16") return std::nullopt;
  const std::size_t dot = word.find('.');
  const std::string scale = dot == std::string::npos ? "" : word.substr(dot + 1);
  for (const NamedFormat& f : kFormats) {
    if (f.name != std::string_view(word).substr(0, dot)) continue;
    if (scale == "rceil") return RoundRule{f.format, RoundScale::rceil};
    if (scale == "floor") return RoundRule{f.format, RoundScale::floor};
  }
  unsupported("operand '" + word + "' of a recipe is not offered: offered are bf16, and e4m3, e5m2, e2m1, e2m3 and " +
              "e3m2 with .rceil or .floor");
}

constexpr std::string_view kWrittenOut = "mx32 ";

MoeRecipe recipe_written_out(const std::string& text) {
  MoeRecipe recipe;
  std::istringstream words(text.substr(kWrittenOut.size()));
  std::size_t count = 0;
  for (std::string word; words >> word; ++count) {
    if (count < kRoundedOperands) recipe.rules[count] = rule_of(word);
  }
  if (count != kRoundedOperands)
    unsupported("a recipe of " + std::to_string(count) + " operands is not offered: it has 12");
  return recipe;
}

const MoeRecipe& kept_recipe(const std::string& text) {
  static std::mutex mutex;
  static std::map<std::string, MoeRecipe> recipes;
  const std::lock_guard lock(mutex);
  const auto found = recipes.find(text);
  if (found != recipes.end()) return found->second;
  const MoeRecipe recipe = recipe_written_out(text);
  const auto at = recipes.emplace(text, recipe).first;
  at->second.name = at->first;
  return at->second;
}

}  // namespace

bool MoeRecipe::stochastic() const {
  return std::any_of(rules.begin(), rules.end(), [](const std::optional<OperandRule>& rule) {
    const auto* const two_level = rule ? std::get_if<TwoLevelRule>(&*rule) : nullptr;
    const bool is_eden = rule && std::holds_alternative<MsEdenRule>(*rule);
    return is_eden || (two_level != nullptr && two_level->stochastic);
  });
}

bool MoeRecipe::keeps_weights(bool backward) const {
  if (fp8()) return true;
  using enum RoundedOperand;
  const auto is_kept = [](const std::optional<OperandRule>& r) {
    const auto* const two_level = r ? std::get_if<TwoLevelRule>(&*r) : nullptr;
    return r && !std::holds_alternative<MsEdenRule>(*r) && (two_level == nullptr || !two_level->stochastic);
  };
  return is_kept(rule(backward ? d_down_w2 : up_w1)) && is_kept(rule(backward ? d_up_w1 : down_w2));
}

const MoeRecipe& moe_recipe_named(const char* name) {
  if (name != nullptr && std::string_view(name).starts_with(kWrittenOut)) return kept_recipe(name);
  return entry_named(kRecipes, "recipe", "recipe", name, [](const MoeRecipe&) { return true; });
}

// ---- Calls ----

namespace {

const mxcheck_moe_policy& moe_policy(const mxcheck_policy* policy) {
  const auto& p = policy_of<mxcheck_moe_policy>(policy, ", that of mxcheck_moe_policy");
  if (p.policy.threads < 0) invalid("policy.threads is " + std::to_string(p.policy.threads) + ": must be 0 or more");
  if (p.policy.layout != MXCHECK_COMPACT) {
    invalid("policy.layout is " + std::to_string(p.policy.layout) + ": must be 0 (compact)");
  }
  if (p.policy.format == nullptr || *p.policy.format != '\0') {
    invalid("policy.format is given, and the recipe says it: must be \"\"");
  }
  if (p.policy.block_rows != 0 || p.policy.block_cols != 0) {
    invalid("policy has blocks of " + std::to_string(p.policy.block_rows) + "x" + std::to_string(p.policy.block_cols) +
            ", and the recipe says them: must be 0x0");
  }
  require_flag("gate_up", p.gate_up);
  if (p.layer > 0xFFFF) invalid("policy.layer is " + std::to_string(p.layer) + ": must be below 65536");
  return p;
}

// Mode 0 where the policy ends before it. Supports is asked without a memory.
mxcheck_kept_weights kept_weights_of(const mxcheck_policy* policy, const MoeRecipe& recipe, bool backward) {
  if (policy->size <= sizeof(mxcheck_moe_policy)) return {};
  const mxcheck_kept_weights kept =
      policy_of<mxcheck_moe_kept_policy>(policy, ", that of mxcheck_moe_kept_policy").kept;
  if (kept.mode < MXCHECK_WEIGHTS_BYTES || kept.mode > MXCHECK_WEIGHTS_CHECKED)
    invalid("policy.kept.mode is " + std::to_string(kept.mode) + ": must be 1, 2, 3 or 4");
  if (kept.reserved != 0) invalid("policy.kept.reserved is " + std::to_string(kept.reserved) + ": must be 0");
  if (!recipe.keeps_weights(backward))
    unsupported("recipe " + std::string(recipe.name) + " makes nothing of weights that could be kept");
  return kept;
}

// Extents are 32-bit numbers of the kernels, 2 n included.
void check_extents(const mxcheck_moe_policy& p) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t kMostExperts = 65536;
  const auto check = [](const char* name, std::int64_t value, std::int64_t most) {
    const std::string what = std::string("policy.") + name + " is " + std::to_string(value);
    if (value < 0) invalid(what + ": must be 0 or more");
    if (value > most) unsupported(what + ": at most " + std::to_string(most) + " is offered");
  };
  check("rows", p.policy.rows, kMost);
  check("cols", p.policy.cols, kMost);
  check("inner", p.inner, kMost / 2);
  check("experts", p.experts, kMostExperts);
  check("routed", p.routed, kMost);
  if (p.routed > 0 && (p.experts == 0 || p.policy.rows == 0)) {
    invalid("policy.routed is " + std::to_string(p.routed) + ", of " + std::to_string(p.experts) + " experts and " +
            std::to_string(p.policy.rows) + " tokens: must be 0 where there is none");
  }
}

// Rows of BF16 begin at multiples of 16 bytes; the FP8 GEMMs take whole blocks of 128 columns.
void check_widths(const MoeCall& c) {
  const std::int64_t multiple = c.recipe->fp8() ? 128 : 8;
  if (c.d % multiple == 0 && c.n % multiple == 0) return;
  unsupported("recipe " + std::string(c.recipe->name) + " with cols " + std::to_string(c.d) + " and inner " +
              std::to_string(c.n) + " is not offered: multiples of " + std::to_string(multiple) + " are");
}

// Takes tensors one after the other.
class Reader {
 public:
  explicit Reader(const mxcheck_call& call) : call_(call) {}

  Checked in(const char* name, DLDataType type, std::int64_t rows, std::int64_t cols) {
    return inputs_.emplace_back(matrix(name, call_.inputs[inputs_.size()], type, rows, cols));
  }
  // A matrix whose data is not read and may be null.
  Checked in_unread(const char* name, DLDataType type, std::int64_t rows, std::int64_t cols) {
    const DLTensor& t = call_.inputs[inputs_.size()];
    const bool is_right = t.ndim == 2 && same(t.dtype, type) && t.shape != nullptr && t.shape[0] == rows &&
                          t.shape[1] == cols && (t.strides == nullptr || (t.strides[0] == cols && t.strides[1] == 1));
    const bool on_device = t.device.device_type == kDLCUDA || t.device.device_type == kDLCUDAManaged;
    if (!is_right || !on_device) {
      invalid(std::string(name) + " must be " + std::to_string(rows) + "x" + std::to_string(cols) +
              " in BF16 on CUDA, contiguous");
    }
    Checked unread;
    unread.rows = rows, unread.cols = unread.stride = cols;
    return inputs_.emplace_back(unread);
  }
  Checked in_vector(const char* name, DLDataType type, std::int64_t size) {
    const Checked t = any_vector(name, type);
    require_shape(name, t, 1, size);
    return t;
  }
  Checked any_vector(const char* name, DLDataType type) {
    return inputs_.emplace_back(check_tensor(name, call_.inputs[inputs_.size()], type, 1, Strides::contiguous));
  }
  Checked out(const char* name, DLDataType type, std::int64_t rows, std::int64_t cols) {
    return outputs_.emplace_back(matrix(name, call_.outputs[outputs_.size()], type, rows, cols));
  }
  // Scales are read and written one by one: wherever their elements may be.
  Checked in_scales(const char* name, DLDataType type, std::int64_t rows, std::int64_t cols) {
    return inputs_.emplace_back(any_matrix(name, call_.inputs[inputs_.size()], type, rows, cols));
  }
  Checked out_scales(const char* name, DLDataType type, std::int64_t rows, std::int64_t cols) {
    return outputs_.emplace_back(any_matrix(name, call_.outputs[outputs_.size()], type, rows, cols));
  }
  Checked out_vector(const char* name, DLDataType type, std::int64_t size) {
    const Checked t = check_tensor(name, call_.outputs[outputs_.size()], type, 1, Strides::contiguous);
    require_shape(name, t, 1, size);
    return outputs_.emplace_back(t);
  }

  // After the last tensor: a call that is wrong is INVALID before one that is not offered is UNSUPPORTED.
  void finish() const {
    require_disjoint(inputs_, outputs_);
    if (unaligned_.empty()) return;
    unsupported(unaligned_ + " is not at a multiple of 16 bytes: others are not offered");
  }

 private:
  static Checked any_matrix(const char* name, const DLTensor& tensor, DLDataType type, std::int64_t rows,
                            std::int64_t cols) {
    const Checked t = check_tensor(name, tensor, type, 2, Strides::contiguous);
    require_shape(name, t, rows, cols);
    return t;
  }
  Checked matrix(const char* name, const DLTensor& tensor, DLDataType type, std::int64_t rows, std::int64_t cols) {
    const Checked t = any_matrix(name, tensor, type, rows, cols);
    if (unaligned_.empty() && !is_aligned(t.data, 16)) unaligned_ = name;
    return t;
  }

  const mxcheck_call& call_;
  std::vector<Checked> inputs_;
  std::vector<Checked> outputs_;
  std::string unaligned_;
};

void read_weights(MoeCall& c, Reader& reader) {
  const auto matrix = c.reads_weights() ? &Reader::in : &Reader::in_unread;
  c.tensors.w1 = (reader.*matrix)("w1", kBf16Type, c.experts * c.d, 2 * c.n);
  c.tensors.w2 = (reader.*matrix)("w2", kBf16Type, c.experts * c.n, c.d);
}

void read_routes(MoeCall& c, Reader& reader) {
  MoeTensors& t = c.tensors;
  t.row_token = reader.in_vector("row_token", kInt32Type, c.routed);
  t.row_weight = reader.in_vector("row_weight", kFp32Type, c.routed);
  t.token_offsets = reader.in_vector("token_offsets", kInt64Type, c.tokens + 1);
  t.token_rows = reader.any_vector("token_rows", kInt32Type);
  t.offsets = reader.in_vector("offsets", kInt64Type, c.experts + 1);
  c.slots = t.token_rows.cols;
}

// Bytes of a row of H in E5M6, which is packed eight codes to twelve bytes.
std::int64_t kept_h_bytes(const MoeCall& c) { return 12 * blocks_of(2 * c.n, 8); }

void read_forward(MoeCall& c, const mxcheck_call& call) {
  check_call(call, 8, 8, 2 + (c.recipe->keeps_e5m6 ? 1 : 0) + (c.recipe->keeps_codes() ? 2 : 0));
  MoeTensors& t = c.tensors;
  Reader reader(call);
  t.x = reader.in("x", kBf16Type, c.tokens, c.d);
  read_weights(c, reader);
  read_routes(c, reader);
  t.o = reader.out("o", kBf16Type, c.tokens, c.d);
  if (c.recipe->keeps_e5m6) {
    t.h = reader.out("codes of h", kByteType, c.routed, kept_h_bytes(c));
    t.h_scales = reader.out_scales("scales of h", kByteType, c.routed, blocks_of(2 * c.n, 128));
  } else {
    t.h = reader.out("h", kBf16Type, c.routed, 2 * c.n);
  }
  if (c.recipe->keeps_codes()) {
    t.kept_x = reader.out("codes of x", kByteType, c.tokens, c.d);
    t.kept_scales = reader.out_scales("scales of x", scale_type(c.recipe->scale), c.tokens, blocks_of(c.d, 128));
  }
  reader.finish();
}

void read_kept(MoeCall& c, Reader& reader) {
  MoeTensors& t = c.tensors;
  if (c.recipe->keeps_e5m6) {
    t.h = reader.in("codes of h", kByteType, c.routed, kept_h_bytes(c));
    t.h_scales = reader.in_scales("scales of h", kByteType, c.routed, blocks_of(2 * c.n, 128));
  } else {
    t.h = reader.in("h", kBf16Type, c.routed, 2 * c.n);
  }
  if (c.recipe->keeps_codes()) {
    t.kept_x = reader.in("codes of x", kByteType, c.tokens, c.d);
    t.kept_scales = reader.in_scales("scales of x", scale_type(c.recipe->scale), c.tokens, blocks_of(c.d, 128));
  } else {
    t.x = reader.in("x", kBf16Type, c.tokens, c.d);
  }
}

void read_backward(MoeCall& c, const mxcheck_call& call) {
  const int inputs = 10 + (c.recipe->keeps_e5m6 ? 1 : 0) + (c.recipe->keeps_codes() ? 1 : 0);
  check_call(call, inputs, inputs, 4);
  MoeTensors& t = c.tensors;
  Reader reader(call);
  t.d_o = reader.in("d_o", kBf16Type, c.tokens, c.d);
  read_weights(c, reader);
  read_kept(c, reader);
  read_routes(c, reader);
  t.dx = reader.out("dx", kBf16Type, c.tokens, c.d);
  t.dw1 = reader.out("dw1", kFp32Type, c.experts * c.d, 2 * c.n);
  t.dw2 = reader.out("dw2", kFp32Type, c.experts * c.n, c.d);
  t.ds = reader.out_vector("ds", kFp32Type, c.routed);
  reader.finish();
}

}  // namespace

void check_moe_policy(const mxcheck_policy* policy, DLDataType wide, bool backward) {
  kept_weights_of(policy, moe_recipe_named(moe_policy(policy).policy.recipe), backward);
  if (!same(wide, kBf16Type)) unsupported("x and d_o are offered in BF16");
}

MoeCall read_moe_call(const mxcheck_call& call, bool backward) {
  const mxcheck_moe_policy& p = moe_policy(call.policy);
  check_extents(p);
  MoeCall c;
  c.recipe = &moe_recipe_named(p.policy.recipe);
  c.backward = backward, c.interleaved = p.gate_up == MXCHECK_INTERLEAVED;
  c.tokens = p.policy.rows, c.d = p.policy.cols, c.n = p.inner, c.experts = p.experts, c.routed = p.routed;
  c.seed = p.seed, c.step = static_cast<std::uint32_t>(p.step), c.layer = p.layer;
  c.kept = kept_weights_of(call.policy, *c.recipe, backward);
  check_widths(c);
  if (call.workspace == nullptr) return c;
  if (c.kept.mode == MXCHECK_WEIGHTS_BYTES) invalid("policy.kept.mode is 1, which workspace alone answers");
  backward ? read_backward(c, call) : read_forward(c, call);
  c.workspace = call.workspace, c.report = report_of(call);
  return c;
}

}  // namespace mxcheck_kernels::sm90
