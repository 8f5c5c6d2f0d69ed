#pragma once
// quantize_nvfp4 with options (kernels/candidate_nvfp4.h): stochastic rounding, a random Hadamard transform, both
// directions. The reference's answer is made in three steps: the matrices that are quantized, their words, their codes
// and scales; a slip (options_definitions.cc) is one of the steps done otherwise.
//
//   const std::vector<Bytes> right = nvfp4_outputs(problem, {});
//   Nvfp4Slip slip;
//   slip.word = [](const Nvfp4Word& w) { return w.of_number(w.row); };   // the words of the row

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "numerics/scale/recipe.h"
#include "properties/core/definitions.h"
#include "properties/core/finding.h"
#include "properties/core/operation.h"
#include "properties/core/statement.h"
#include "properties/operations/nvfp4/problem.h"
#include "properties/operations/scaled_blocks/fields.h"
#include "reference/quantize/hadamard.h"

namespace mxcheck {

// A matrix as it is quantized: in the first direction, and with both the transposed one.
struct Nvfp4Matrix {
  Case c;  // its rows, columns and experts
  Input x;
  bool is_transposed = false;

  [[nodiscard]] MatrixView view() const { return x.view(); }
};

// An element of such a matrix, and what its word is made of.
struct Nvfp4Word {
  const Nvfp4Random& random;
  std::array<std::uint32_t, 2> counter;
  std::int64_t row, col;
  std::int64_t rows, cols;
  bool is_transposed;
  bool is_negative;
  bool has_bytes;  // stochastic rounding by bytes

  [[nodiscard]] std::uint64_t number() const { return static_cast<std::uint64_t>(row * cols + col) + random.offset; }
  // By the definition, of the element with this number.
  [[nodiscard]] std::uint32_t of_number(std::uint64_t number) const;
};

// Steps that are done otherwise; none of them: the definition.
struct Nvfp4Slip {
  std::function<void(Nvfp4Options&, Nvfp4Random&)> fields;
  std::function<Input(const Input& x, const Hadamard& transform)> transform;  // in place of the transform
  std::function<std::uint32_t(const Nvfp4Word&)> word;
  std::function<bool(const Nvfp4Word&)> is_nearest;  // elements that are rounded to nearest
  std::function<void(Recipe&)> recipe;
  bool has_scales_of_x = false;        // block scales are those of the matrix before its transform
  bool has_stochastic_scales = false;  // block scales are rounded by the word of the block's first element
  bool transforms_rows = false;        // both directions: the rows too
  bool has_columns_untransformed = false;
  bool has_one_tensor_scale = false;  // both directions: that of the rows
};

Case transposed(const Case& c);
Input transposed(const Input& x);
// The transform of reference/quantize/hadamard.h.
Input transformed(const Input& x, const Hadamard& transform, Along along = Along::rows);

std::vector<Nvfp4Matrix> nvfp4_matrices(const Nvfp4Problem& p, const Nvfp4Slip& slip = {});
// The word of each element, row by row.
std::vector<std::uint32_t> nvfp4_words(const Nvfp4Problem& p, const Nvfp4Matrix& m, const Nvfp4Slip& slip = {});
// A matrix quantized, and all outputs of a call.
QuantizedTensor nvfp4_quantized(const Nvfp4Problem& p, const Nvfp4Matrix& m, const Nvfp4Slip& slip = {});
std::vector<Bytes> nvfp4_outputs(const Nvfp4Problem& p, const Nvfp4Slip& slip);

void explain_nvfp4_options(const Nvfp4Problem& p, std::size_t output, Finding& finding);
// Slips of words: which one an element has, and what it does (word_definitions.cc).
struct NamedNvfp4Slip {
  std::string name;
  Nvfp4Slip slip;
};
std::vector<NamedNvfp4Slip> nvfp4_word_slips(const Nvfp4Problem& problem);
// Other recipes, and slips of words, of the transform and of directions.
Table nvfp4_options_table(const Nvfp4Problem& problem);
std::vector<InvalidCall> invalid_nvfp4_options();
// A row index of one direction, added to a call that has none, whose values are no rows of x.
InvalidCall far_row_index();
std::vector<Statement> nvfp4_options_laws();

}  // namespace mxcheck
