#pragma once
// The problem that a quantize golden poses, and a candidate's answer to it, in the terms of the reference.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "goldens/format/golden.h"
#include "properties/diagnosis/cause.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {

struct GoldenProblem {
  Format wide = Format::bf16;
  std::vector<std::byte> x;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Format element = Format::e4m3;
  BlockShape block;
  Recipe recipe;
  std::uint8_t pad_byte = 0;
  std::vector<std::int64_t> offsets;
  QuantizedTensor expected;
  // The candidate's own, where it has them in the right form: causes are looked for one at a time, so that wrong scales
  // are not held against codes that are right for them.
  std::optional<Tensor> own_scales;

  [[nodiscard]] const Tensor& scales_of_codes() const { return own_scales ? *own_scales : expected.scales(); }

  [[nodiscard]] MatrixView view() const { return {wide, x.data(), rows, cols, cols}; }
  // The index of an element's scale, row-major in the compact shape.
  [[nodiscard]] std::vector<std::int64_t> scale_index() const;
};

// A list of numbers as the bytes that a dataset holds.
template <class T>
std::vector<std::byte> dataset_bytes(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// Whole rows of blocks, `rows` of them at least, from the one that holds `row` on: what a cause is looked for in when
// the whole would take too long.
struct Window {
  std::int64_t first_row = 0;
  std::int64_t end_row = 0;
  std::int64_t first_scale_row = 0;
  std::int64_t end_scale_row = 0;
};
Window window_at(const GoldenProblem& p, std::int64_t row, std::int64_t rows);
GoldenProblem cut(const GoldenProblem& p, const Window& window);

// Properties that all wrong elements have and the right ones lack, when no cause is known: "only blocks with ...".
std::vector<std::string> common_to_wrong_codes(const GoldenProblem& p, const Observed& codes);
std::vector<std::string> common_to_wrong_scales(const GoldenProblem& p, const Observed& scales);

// The hypotheses refer to the problem, which must outlive them.
// Faults of scales in the compact layout, of the codes, and of a layout.
std::vector<Hypothesis> scale_hypotheses(const GoldenProblem& p);
std::vector<Hypothesis> code_hypotheses(const GoldenProblem& p);
std::vector<Hypothesis> layout_hypotheses(const GoldenProblem& p, bool tcgen05);

// E4M3 as AMD's MI300 has it: bias 8, largest value 240 (saturating), no negative zero, NaN is 0x80.
std::uint32_t encode_fnuz(double value);

}  // namespace mxcheck
