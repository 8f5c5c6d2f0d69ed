#pragma once
// The base of the operations on blocks that share a scale; each adds its tensors and its statements.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "numerics/scale/recipe.h"
#include "properties/core/candidate.h"
#include "properties/core/case.h"
#include "properties/core/operation.h"
#include "properties/core/rng.h"
#include "properties/operations/scaled_blocks/fields.h"
#include "properties/operations/scaled_blocks/geometry.h"

namespace mxcheck {

// The differences between these operations, beside their problems.
struct ScaledBlocksTraits {
  std::string_view name;
  // It has a matrix x, which is drawn from the case's data and may be strided or gathered.
  bool reads_x = true;
  // True for a combination of fields that it can be queried for.
  bool (*can_be_asked)(const Variant&) = nullptr;
  std::vector<InvalidCall> (*invalid_calls)() = nullptr;
  // Recipes make no difference to what only reads codes and scales: those are queried with the norm alone.
  bool depends_on_recipe = false;
  bool takes_fp32_scales = false;  // those of the recipe fp32, beside recipes with E8M0 scales
  bool takes_fp64 = false;         // x of FP64, beside the types that every operation has
  bool has_two_levels = false;     // E2M1 under recipes of two levels, in blocks of 1 x 16 and 16 x 16, alone
  bool has_options = false;        // those of kernels/candidate_nvfp4.h, of libraries with its contract
  bool any_nan_is_equal = false;
  bool is_transposed = false;  // codes and scales are written as their transposes
  bool has_experts = true;     // at whose ends blocks restart
  // Cases with rows by index: of host libraries too only where the operation's header is clear that there may be one.
  bool has_row_index_on_host = false;
  std::int64_t usual_in_quick = std::int64_t{1} << 21;  // Domain::usual_work of the quick suite
};

class ScaledBlocksOperation : public Operation {
 public:
  explicit ScaledBlocksOperation(const ScaledBlocksTraits& traits) : traits_(traits) {}

  [[nodiscard]] std::string_view name() const final { return traits_.name; }
  [[nodiscard]] std::string variant_name(std::string_view contract) const final;
  [[nodiscard]] std::vector<Variant> askable(const std::string& operation) const final;
  [[nodiscard]] std::vector<Variant> askable_under(const std::string& operation, std::string_view contract) const final;
  [[nodiscard]] Policy policy(const Case& c) const final;
  [[nodiscard]] bool has_policies_by_size() const final { return traits_.has_options; }
  [[nodiscard]] std::optional<IdentifiedAs> identified_as(const Variant& v) const final;
  [[nodiscard]] std::string variant_text(const Variant& v) const final;
  [[nodiscard]] std::string option_text(const Case& c) const final;
  bool set_field(Case& c, std::string_view field, std::string_view value) const final;
  void fit(Case& c) const final;
  void halve_rows(Case& c) const final;
  void check(const Case& c) const final;
  [[nodiscard]] std::unique_ptr<Domain> domain(const DomainRequest& request) const final;
  [[nodiscard]] std::vector<Case> simpler(const Case& c, const Finding& finding) const final;
  [[nodiscard]] std::vector<Case> large_cases(const Variant& v, Suite suite) const final;
  [[nodiscard]] bool any_nan_is_equal(std::string_view) const final { return traits_.any_nan_is_equal; }
  [[nodiscard]] std::vector<InvalidCall> invalid_calls() const final { return traits_.invalid_calls(); }
  [[nodiscard]] bool may_have_row_stride() const final { return traits_.reads_x; }
  [[nodiscard]] bool may_have_col_stride() const final { return traits_.reads_x; }
  [[nodiscard]] const ScaledBlocksTraits& traits() const { return traits_; }

 private:
  [[nodiscard]] bool may_have_recipe(const Recipe& recipe) const;
  [[nodiscard]] bool has_options(std::string_view contract) const;

  ScaledBlocksTraits traits_;
};

// Invalid calls of those that have blocks and offsets, beside these.
std::vector<InvalidCall> invalid_scaled_blocks(std::vector<InvalidCall> own);

// The case that a call's policy and offsets say, with values of this type.
Case case_of(const Call& call, Format dtype);
std::vector<std::uint8_t> input_bytes(const Call& call, std::size_t number);

// A case of the variant with a pad byte of 255.
Case blocks_corner(const Variant& v, std::int64_t rows, std::int64_t cols, Data data, std::uint64_t seed);
// Shapes and data that every variant meets on every run, whatever the seed.
std::vector<Case> usual_corners(const Variant& v, Suite suite);
// Corners of all variants together (edges.cc): rows that begin and end anywhere among 16 bytes, experts about a block's
// height.
std::vector<Case> edges_of_rows_and_experts(std::span<const Variant> variants, Suite suite);

// A statement that the outputs of one operation are the reference's, on drawn data of every kind.
Statement blocks_equality(std::string_view name, std::string_view operation, std::string_view sentence,
                          std::string_view source);

// Scale layouts are tiled for blocks of one row or one column.
inline bool has_tiles(BlockShape block) { return block.rows == 1 || block.cols == 1; }

// The statement that tensors of over sixteen million elements are right, of all these operations.
std::vector<Statement> large_tensor_statements();

// A tensor of uint8: codes or scale bytes.
CallTensor u8_tensor(std::vector<std::int64_t> shape, const std::vector<std::uint8_t>& bytes);
// Scales in a layout: 1-D where they are tiled.
CallTensor scales_tensor(const ScaleGeometry& g, int layout, const std::vector<std::uint8_t>& scales);

// cast: x to codes element by element, as a block of scale 1.
OperationModule cast_module();

// dequantize: codes and scales to values.
OperationModule dequantize_module();

// scale_layout: scales from compact to tcgen05's tiles, or back.
OperationModule scale_layout_module();

// quantize: x to codes and scales. quantize_dual: the same for rows and for columns, from one read.
OperationModule quantize_module();

// The families of its statements (equality.cc, algebra.cc, layout.cc).
std::vector<Statement> quantize_equality_statements();
std::vector<Statement> quantize_algebra_statements();
std::vector<Statement> quantize_layout_statements();

// Production's layers as quantize and its like meet them: matrices of d columns (tokens, and the gradients of outputs),
// of n (what the down projection reads) and of 2n (gate and up projection together).
class BlockLayers {
 public:
  struct Use {
    std::string layer;
    std::string text;
    std::int64_t cols = 0;
    bool many = false;  // rows: more than a block of 32, its last one ragged; else 1 to 8, as when a model decodes
  };
  BlockLayers() = default;
  explicit BlockLayers(const OperationInfo& limits);

  [[nodiscard]] const std::vector<Use>& uses() const { return uses_; }
  [[nodiscard]] bool is(const Use& use, const Case& c) const;
  // The drawn case with the use's columns, rows for them, and offsets that fit; its options stay.
  [[nodiscard]] std::optional<Case> at(const Use& use, Case drawn, std::int64_t most, Draw& draw) const;

 private:
  OperationInfo limits_;
  std::vector<Use> uses_;
};

}  // namespace mxcheck
