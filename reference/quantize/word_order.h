#pragma once
// Word orders: which output of which call of Philox4x32-10 a published kernel has for an element that it rounds
// stochastically to E2M1. Four elements along a block share a word, a byte each.
//
// Every thread of such a kernel has its own sequence of calls, under a key and a first call that are the same for all
// threads. Call number c of thread t has the counter t * 2^64 + first + c as a number of 128 bits, of which the lowest
// word is the counter's first; all of it modulo 2^128. A carry out of the low half goes into the thread's, as in the
// kernels. In Transformer Engine the key is rng_state[0], and the first call rng_state[1].
//
//   const WordOrder& order = word_order_named("te_tuned");
//   const std::vector<std::uint32_t> words = ordered_words(order, {rows, cols, WordOutput::rows}, {seed, offset});
//   const QuantizedTensor q = quantize(x, Format::e2m1, {1, 16}, stochastic_recipe, {.words = words});
//
// Each row was read from the source that it names, at every release of the versions that it names, and never run.
//
// Does not say: which kernel a library chooses for a call (docs/nvfp4.md has the rules), nor that a card takes the
// bytes of a word in either order. Errors: Error{usage} for shapes and outputs that the kernel does not have.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "numerics/names.h"

namespace mxcheck {

// The output whose elements are numbered, and the ones that the call has beside it: a thread's words go on from one to
// the other. Columns are the rows of the transposed matrix.
enum class WordOutput { rows, rows_of_both, columns_of_both, columns };
inline constexpr std::array<Named<WordOutput>, 4> kWordOutputs{{{"rows", WordOutput::rows},
                                                                {"rows_of_both", WordOutput::rows_of_both},
                                                                {"columns_of_both", WordOutput::columns_of_both},
                                                                {"columns", WordOutput::columns}}};

// The bytes of a word that elements 0, 1, 2 and 3 have; byte 0 is the lowest. Blackwell's cvt.rs.satfinite.e2m1x4.f32
// takes 0, 2, 1, 3, as the PTX ISA's figure reads; code for cards without the instruction takes 0, 1, 2, 3.
enum class WordBytes { instruction, natural };
inline constexpr std::array<Named<WordBytes>, 2> kWordBytes{
    {{"0213", WordBytes::instruction}, {"0123", WordBytes::natural}}};

// X, whose rows or columns are quantized.
struct WordMatrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  WordOutput output = WordOutput::rows;

  [[nodiscard]] bool has_rows() const { return output != WordOutput::columns; }
  [[nodiscard]] bool has_columns() const { return output != WordOutput::rows; }
  [[nodiscard]] bool is_of_columns() const {
    return output == WordOutput::columns || output == WordOutput::columns_of_both;
  }
};

struct WordSeed {
  std::uint64_t key = 0;
  std::uint64_t first = 0;  // call
  WordBytes bytes = WordBytes::instruction;
};

// Where an element's word comes from.
struct WordPlace {
  std::uint64_t thread = 0;
  std::uint64_t call = 0;  // of the thread, from 0
  int output = 0;          // of the call, 0 to 3

  friend bool operator==(const WordPlace&, const WordPlace&) = default;
};

struct WordOrder {
  std::string_view name;
  std::string_view kernel;
  std::string_view versions;
  std::string_view source;
  std::int64_t multiple;                                                        // of which rows and columns of X are
  bool has_columns_alone;                                                       // calls without an output by rows
  WordPlace (*place)(const WordMatrix& x, std::int64_t row, std::int64_t col);  // of X's element
};

std::span<const WordOrder> word_orders();
const WordOrder& word_order_named(std::string_view name);  // Error{usage} lists the names

// An order and an output as text: ORDER:OUTPUT, or ORDER for rows. Error{usage} lists the names.
struct NamedWords {
  const WordOrder* order = nullptr;
  WordOutput output = WordOutput::rows;
};
NamedWords parse_words(std::string_view text);
std::string to_text(const NamedWords& words);
// X, of which a matrix of this shape is quantized.
WordMatrix word_matrix(WordOutput output, std::int64_t rows, std::int64_t cols);

// True if the kernel has this output of a matrix of this shape.
bool has_words(const WordOrder& order, const WordMatrix& x);
// Error{usage} otherwise, with the reason.
void check_words_of(const WordOrder& order, const WordMatrix& x);

// The word that QuantizeExtras::words has for an element of X, its byte on top of zeros. No check.
std::uint32_t ordered_word(const WordOrder& order, const WordMatrix& x, const WordSeed& seed, std::int64_t row,
                           std::int64_t col);
// The words of the matrix that is quantized, row by row: X, or for columns the transposed matrix.
std::vector<std::uint32_t> ordered_words(const WordOrder& order, const WordMatrix& x, const WordSeed& seed,
                                         int threads = 0);

}  // namespace mxcheck
