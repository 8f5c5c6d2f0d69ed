#include "properties/operations/nvfp4/problem.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/format/packing.h"
#include "numerics/scale/recipe.h"
#include "numerics/scale/recipe_words.h"
#include "properties/operations/scaled_blocks/geometry.h"

namespace mxcheck {
namespace {

using Change = std::function<void(Recipe&)>;

class Rows {
 public:
  Rows(const Nvfp4Problem& p, std::span<const Bytes> observed) : p_(p), observed_(observed) {}

  Table take() {
    recipes();
    changed_recipes();
    scale_slips();
    code_slips();
    codes_of_own_scales();
    return std::move(table_);
  }

 private:
  void add_recipe(std::string name, Recipe recipe, std::string source = {}) {
    table_.push_back(definition_of_all(
        std::move(name), [this, r = std::move(recipe)] { return p_.outputs_of(p_.quantized(r)); }, memo_,
        std::move(source)));
  }

  void recipes() {
    const Recipe own = p_.recipe();
    for (const Recipe& recipe : two_level_recipes()) {
      // Under another kind of stored scale the given number would be another scale.
      if (recipe.name == own.name || recipe.two_level.stored != own.two_level.stored) continue;
      add_recipe("recipe " + recipe.name, recipe, recipe.checked_against);
    }
  }

  void add_changed(const char* name, const Change& change) {
    Recipe recipe = p_.recipe();
    change(recipe);
    add_recipe(name, std::move(recipe));
  }

  void changed_recipes() {
    add_changed("codes: ties away from zero", [](Recipe& r) { r.rounding = Rounding::nearest_away; });
    add_changed("codes: truncated", [](Recipe& r) { r.rounding = Rounding::toward_zero; });
    add_changed("a NaN does not count towards the block's amax", [](Recipe& r) { r.nan = NanPolicy::drop; });
    add_changed("a NaN makes its block's scale NaN", [](Recipe& r) { r.nan = NanPolicy::propagate; });
    add_changed("a block whose scale underflows to 0 has codes of 0",
                [](Recipe& r) { r.two_level.zero = ZeroTest::of_scale; });
    add_changed("a block whose scale underflows to 0 is divided by it",
                [](Recipe& r) { r.two_level.zero = ZeroTest::none, r.two_level.has_largest_factor = false; });
    add_changed("a block whose scale underflows to 0 is multiplied by the largest float",
                [](Recipe& r) { r.two_level.zero = ZeroTest::none, r.two_level.has_largest_factor = true; });
    add_changed("block scales are at least 2^-9", [](Recipe& r) { r.two_level.block_min = 0x1p-9F; });
    add_changed("block scales are at least 2^-6", [](Recipe& r) { r.two_level.block_min = 0x1p-6F; });
    add_changed("a block of zeros has scale 1", [](Recipe& r) { r.two_level.of_zero_quotient = 1; });
    add_changed("-0 becomes +0", [](Recipe& r) { r.drop_negative_zero = DropNegativeZero::of_code; });
    add_changed("the choice between 4 and 6 is not made", [](Recipe& r) { r.two_level.choice = BlockChoice::none; });
    add_changed("the choice between 4 and 6 is by the absolute error",
                [](Recipe& r) { r.two_level.choice = BlockChoice::absolute_error; });
    add_changed("the choice between 4 and 6 is by the squared error",
                [](Recipe& r) { r.two_level.choice = BlockChoice::squared_error; });
    add_changed("the choice between 4 and 6 is by the largest error",
                [](Recipe& r) { r.two_level.choice = BlockChoice::largest_error; });
    for (const auto& [name, quotient] : kBlockQuotients) {
      const std::string text = "block scales as " + std::string(name);
      add_changed(text.c_str(), [q = quotient](Recipe& r) { r.two_level.block = q; });
    }
    for (const auto& [name, quotient] : kElementQuotients) {
      const std::string text = "elements as " + std::string(name);
      add_changed(text.c_str(), [q = quotient](Recipe& r) { r.two_level.element = q; });
    }
  }

  // The whole answer with another scale of the tensor, in place of the one given.
  void add_outer(const char* name, float stored) {
    const auto rows = [this, stored] {
      const std::vector<float> outer{stored};
      const ScaledBlocksVariant& v = blocks_of(p_.c.variant);
      return p_.outputs_of(
          quantize(p_.input.view(), Format::e2m1, v.block, p_.recipe(), {.outer = outer}, p_.c.experts));
    };
    if (std::isfinite(stored) && stored > 0) table_.push_back(definition_of_all(name, rows, memo_));
  }

  void add_scales(std::string name, const std::function<std::uint32_t(std::uint32_t)>& code_of) {
    table_.push_back(definition_of_output(1, std::move(name), [this, code_of] {
      const QuantizedTensor q = p_.quantized(p_.recipe());
      QuantizedTensor changed = q;
      for (std::size_t i = 0; i < q.scales().size(); ++i) changed.scales().set_code(i, code_of(q.scales().code(i)));
      return p_.outputs_of(changed)[1];
    }));
  }

  void scale_slips() {
    const float given = p_.tensor_scale[0];
    add_outer("the scale of the tensor is ignored", 1);
    add_outer("the scale of the tensor is inverted", 1 / given);
    add_outer("the scale of the tensor lacks the 6", given * 6);
    add_outer("the scale of the tensor has the 6 twice", given / 6);
    add_outer("the scale of the tensor lacks the 448", given * 448);
    add_outer("the scale of the tensor has the 448 twice", given / 448);
    add_outer("the scale of the tensor is rounded to BF16",
              static_cast<float>(
                  decode(Format::bf16, encode(Format::bf16, given, Rounding::nearest_even, Overflow::saturate))));
    add_scales("scales: an overflow becomes NaN", [](std::uint32_t code) { return code == 0x7E ? 0x7FU : code; });
    add_scales("scales: subnormal ones are 0", [](std::uint32_t code) { return code < 8 ? 0U : code; });
    add_scales("scales: as powers of two (E8M0)", [](std::uint32_t code) { return code & 0x78; });
    for (const auto& [name, rounding] : std::array{std::pair{"scales: rounded up", Rounding::upward},
                                                   std::pair{"scales: truncated", Rounding::toward_zero},
                                                   std::pair{"scales: ties away from zero", Rounding::nearest_away}}) {
      add_rounded_scales(name, rounding);
    }
  }

  // The whole answer under scales that are rounded otherwise.
  void add_rounded_scales(const char* name, Rounding rounding) {
    table_.push_back(definition_of_all(
        name,
        [this, rounding] {
          return with_scales(
              [&](float quotient) { return encode(Format::e4m3, quotient, rounding, Overflow::saturate); });
        },
        memo_));
  }

  // Codes under the E4M3 scales that a function gives for each block's quotient.
  template <class CodeOf>
  [[nodiscard]] std::vector<Bytes> with_scales(const CodeOf& code_of) const {
    QuantizedTensor q = p_.quantized(p_.recipe());
    for_each_block(
        [&](std::size_t block, const BlockBounds& b) { q.scales().set_code(block, code_of(quotient_of(b))); });
    encode_under(q, true);
    return p_.outputs_of(q);
  }

  [[nodiscard]] OuterScale outer() const {
    return outer_scale_of_stored(p_.recipe().two_level, largest_value(Format::e2m1), p_.tensor_scale[0]);
  }

  [[nodiscard]] float quotient_of(const BlockBounds& b) const {
    float amax = 0;
    for (std::int64_t i = b.first_row; i < b.end_row; ++i) {
      for (std::int64_t j = b.first_col; j < b.end_col; ++j) {
        const float x = std::fabs(p_.input.view().at(i, j));
        if (x > amax) amax = x;
      }
    }
    return two_level_scale(p_.recipe().two_level, largest_value(Format::e2m1), outer(), amax).quotient;
  }

  template <class Body>
  void for_each_block(const Body& body) const {
    const ScaleGeometry g = scale_geometry(p_.c, blocks_of(p_.c.variant).block);
    for (std::int64_t i = 0; i < g.rows; ++i) {
      for (std::int64_t j = 0; j < g.cols; ++j) {
        body(static_cast<std::size_t>(i * g.cols + j), block_at_scale(p_.c, g, i, j));
      }
    }
  }

  // The codes under q's scales; rounded_scale false: under the quotients before they are rounded to E4M3.
  void encode_under(QuantizedTensor& q, bool rounded_scale) const {
    const Recipe recipe = p_.recipe();
    const float s = outer().decode;
    for_each_block([&](std::size_t block, const BlockBounds& b) {
      const double scale = rounded_scale ? q.scale(block) : double{quotient_of(b)};
      for (std::int64_t i = b.first_row; i < b.end_row; ++i) {
        for (std::int64_t j = b.first_col; j < b.end_col; ++j) {
          const float factor = static_cast<float>(scale) * s;
          const float value = factor == 0 ? 0 * p_.input.view().at(i, j) : p_.input.view().at(i, j) / factor;
          q.codes.set_code(static_cast<std::size_t>(i * p_.c.cols + j),
                           encode(Format::e2m1, value, recipe.rounding, recipe.overflow));
        }
      }
    });
  }

  void add_codes(std::string name, std::function<void(QuantizedTensor&)> change, bool derived = false) {
    table_.push_back(definition_of_output(
        0, std::move(name),
        [this, change = std::move(change)] {
          QuantizedTensor q = p_.quantized(p_.recipe());
          change(q);
          return p_.outputs_of(q)[0];
        },
        {}, derived));
  }

  void code_slips() {
    add_codes("codes follow from the scale before it is rounded to E4M3",
              [this](QuantizedTensor& q) { encode_under(q, false); });
    add_codes("the signs are dropped", [](QuantizedTensor& q) {
      for (std::size_t i = 0; i < q.codes.size(); ++i) q.codes.set_code(i, q.codes.code(i) & 7);
    });
    table_.push_back(definition_of_output(0, "the nibbles of a byte are exchanged", [this] {
      Bytes bytes = p_.outputs_of(p_.quantized(p_.recipe()))[0];
      for (std::byte& byte : bytes) byte = byte << 4 | byte >> 4;
      return bytes;
    }));
    table_.push_back(definition_of_output(0, "the first and the second half of a block are in one byte", [this] {
      const std::vector<Bytes> right = p_.outputs_of(p_.quantized(p_.recipe()));
      std::vector<std::uint8_t> codes = unpacked_rows(right[0], p_.c.cols);
      const auto cols = static_cast<std::size_t>(p_.c.cols);
      const std::vector<std::uint8_t> from = codes;
      for (std::size_t row = 0; row < codes.size(); row += cols) {
        for (std::size_t block = 0; block + 16 <= cols; block += 16) {
          for (std::size_t i = 0; i < 16; ++i) codes[row + block + i] = from[row + block + i / 2 + i % 2 * 8];
        }
      }
      return packed_rows(codes, p_.c.cols);
    }));
  }

  // Codes that are right for the candidate's own scales follow from these.
  void codes_of_own_scales() {
    if (observed_.size() < 2) return;
    const ScaledBlocksVariant& v = blocks_of(p_.c.variant);
    const ScaleGeometry g = scale_geometry(p_.c, v.block);
    const Bytes own = to_bytes(to_compact(g, values_in<std::uint8_t>(observed_[1]), v.layout));
    add_codes(
        "codes follow from the candidate's own scales",
        [this, own](QuantizedTensor& q) {
          if (q.scales().data == own) throw Error(ErrorKind::usage, "the scales are right");
          q.scales().data = own;
          encode_under(q, true);
        },
        true);
  }

  const Nvfp4Problem& p_;
  std::span<const Bytes> observed_;
  std::shared_ptr<AnswerMemo> memo_ = std::make_shared<AnswerMemo>();
  Table table_;
};

}  // namespace

Table nvfp4_table(const Nvfp4Problem& problem, std::span<const Bytes> observed) {
  // Rows are evaluated later: what they refer to lives in one of them.
  const auto copy = std::make_shared<std::pair<Nvfp4Problem, std::vector<Bytes>>>(
      problem, std::vector<Bytes>(observed.begin(), observed.end()));
  const auto rows = std::make_shared<Rows>(copy->first, copy->second);
  Table table = rows->take();
  return owning(owning(std::move(table), rows), copy);
}

}  // namespace mxcheck
