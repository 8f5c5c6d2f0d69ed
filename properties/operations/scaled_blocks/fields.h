#pragma once
// The fields of the operations on blocks that share a scale: quantize, quantize_dual, dequantize, scale_layout, cast.
//
//   op=quantize format=e4m3 recipe=rceil block=1x32 layout=tcgen05 x=bf16 ... pad=255

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "numerics/format/format.h"
#include "numerics/scale/recipe.h"
#include "properties/core/case.h"
#include "properties/core/policy.h"
#include "properties/core/rng.h"
#include "reference/common/matrix.h"
#include "reference/quantize/hadamard.h"

namespace mxcheck {

// Options of quantize_nvfp4: kernels/candidate_nvfp4.h. In text, where there is one:
//
//   rounding=stochastic hadamard=16/butterfly/bf16 directions=both

enum class Nvfp4Rounding { nearest, stochastic, stochastic_bytes };  // in the order of mxcheck_rounding

struct Nvfp4Options {
  Nvfp4Rounding rounding = Nvfp4Rounding::nearest;
  int hadamard = 0;  // elements of a group; 0: no transform
  std::string sum;   // of the transform: exact, butterfly, or a contract
  Format result = Format::bf16;
  bool has_both = false;  // directions
  friend bool operator==(const Nvfp4Options&, const Nvfp4Options&) = default;

  [[nodiscard]] bool is_stochastic() const { return rounding != Nvfp4Rounding::nearest; }
  [[nodiscard]] bool has_bytes() const { return rounding == Nvfp4Rounding::stochastic_bytes; }
  [[nodiscard]] bool any() const { return is_stochastic() || hadamard != 0 || has_both; }
};
// A case's words and signs, and the stored scale of the transposed matrix (0: by seed and matrix). In text, where
// they are not 0: key=0x1f offset=0xffffff00 counter=0x80000104,0x3 column_counter=0x1,0x2 signs=0x2d4b
// column_scale=...
struct Nvfp4Random {
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
  std::array<std::uint32_t, 2> counter{};
  std::array<std::uint32_t, 2> column_counter{};
  std::array<std::uint32_t, 4> signs{};
  std::uint32_t column_scale = 0;
  friend bool operator==(const Nvfp4Random&, const Nvfp4Random&) = default;
};

struct ScaledBlocksVariant {
  Format format = Format::e4m3;  // of the elements
  std::string recipe = "rceil";
  BlockShape block;
  int layout = 0;  // mxcheck_layout
  Nvfp4Options options = {};
  friend bool operator==(const ScaledBlocksVariant&, const ScaledBlocksVariant&) = default;
};
struct ScaledBlocksCase {
  std::uint8_t pad = 0;            // what padding of tiled scales holds
  std::uint32_t tensor_scale = 0;  // two levels: the bits of the outer scale as it is stored; 0: by seed and matrix
  Nvfp4Random random = {};
  friend bool operator==(const ScaledBlocksCase&, const ScaledBlocksCase&) = default;
};

inline const ScaledBlocksVariant& blocks_of(const Variant& v) { return v.own.get<ScaledBlocksVariant>(); }
inline ScaledBlocksVariant& blocks_of(Variant& v) { return v.own.edit<ScaledBlocksVariant>(); }
inline const ScaledBlocksCase& blocks_case(const Case& c) { return c.own.get<ScaledBlocksCase>(); }
inline ScaledBlocksCase& blocks_case(Case& c) { return c.own.edit<ScaledBlocksCase>(); }

// All combinations that libraries are queried for, none of them without an option.
const std::vector<Nvfp4Options>& askable_nvfp4_options();
std::string_view to_text(Nvfp4Rounding rounding);
// Text of a variant's and of a case's fields, each with a blank before it; false: the field is none of them.
std::string variant_text(const Nvfp4Options& options);
std::string case_text(const Nvfp4Random& random);
bool set_nvfp4_field(Case& c, std::string_view field, std::string_view value);

// The policy of a case with options, from the one without; the fields of a call's policy, which has them by its size.
Policy nvfp4_policy(const Case& c, const mxcheck_policy& base);
void read_nvfp4_policy(const Policy& policy, Case& c);

// Elements that have a word of their own, or a byte, before the counter passes into its second word.
inline std::uint64_t elements_of_first_word(const Nvfp4Options& o) {
  return std::uint64_t{1} << (o.has_bytes() ? 36 : 32);
}
// Words and signs of a drawn case; what the variant has no use for stays 0.
void draw_nvfp4_random(Case& c, Draw& draw);
// The stored scales that a case has beside those of its own matrix, by kind: the words of a case's tensor_scale and
// column_scale, all positive and finite; 0 is "of the matrix".
const std::vector<std::string>& drawn_scale_labels();
std::int64_t kind_of_drawn_scale(const Recipe& recipe, std::uint32_t bits);
std::uint32_t draw_scale(const Recipe& recipe, std::int64_t kind, Draw& draw);
// The case with extents that the variant's groups divide: fewer columns (rows, with both directions), or one group.
void fit_to_groups(Case& c);
// Error{usage} for a case that no call could pose.
void check_nvfp4_options(const Case& c);
// The transform of a case.
Hadamard transform_of(const Nvfp4Options& options, const Nvfp4Random& random);

}  // namespace mxcheck
