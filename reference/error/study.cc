#include "reference/error/study.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "numerics/format/codec.h"
#include "reference/common/parallel.h"
#include "reference/error/input_facts.h"

namespace mxcheck {
namespace {

constexpr std::uint8_t kZero = 1;     // a code's value is 0; NaN's is not, so that its block is not dead
constexpr std::uint8_t kLargest = 2;  // it is the largest finite magnitude
constexpr float kLargestFloat = std::numeric_limits<float>::max();

void close(Study& s, const StudyMeter::BlockTally& block, float amax_min) {
  ++s.blocks;
  if (!(block.amax > 0)) {
    if (!block.has_nan) ++s.zero_blocks;
    return;
  }
  if (!block.has_survivor) ++s.dead_blocks;
  if (block.amax < amax_min) ++s.clamped_blocks;
  s.amax_lowest = s.amax_lowest == 0 ? block.amax : std::min(s.amax_lowest, block.amax);
  s.amax_highest = std::max(s.amax_highest, block.amax);
}

void add_counts(Study& to, const Study& from) {
  to.nonzero += from.nonzero;
  to.blocks += from.blocks;
  to.zero_blocks += from.zero_blocks;
  to.dead_blocks += from.dead_blocks;
  to.clamped_blocks += from.clamped_blocks;
  if (from.amax_highest > 0) {
    to.amax_lowest = to.amax_lowest == 0 ? from.amax_lowest : std::min(to.amax_lowest, from.amax_lowest);
    to.amax_highest = std::max(to.amax_highest, from.amax_highest);
  }
  for (std::size_t byte = 0; byte < to.scales.size(); ++byte) to.scales[byte] += from.scales[byte];
}

// The elements of one block that lie in one row.
struct Segment {
  std::span<const float> inputs;
  double limit;  // beyond it an input saturates
};

// Counts into part and block. Several rows of a block pass here one after the other.
template <class Code>
void count_segment(const Segment& s, const Code* codes, const std::uint8_t* kinds, StudyMeter::Part& part,
                   StudyMeter::BlockTally& block) {
  std::uint64_t nonzero = 0, finite = 0, flushed = 0, saturated = 0;
  float amax = block.amax;
  bool has_nan = false, survives = false;
  for (std::size_t i = 0; i < s.inputs.size(); ++i) {
    const float magnitude = std::fabs(s.inputs[i]);
    const std::uint8_t kind = kinds[codes[i]];
    const bool is_nonzero = magnitude > 0;  // false for NaN
    const bool is_finite = is_nonzero && magnitude <= kLargestFloat;
    const bool is_zeroed = (kind & kZero) != 0;
    nonzero += is_nonzero ? 1 : 0;
    finite += is_finite ? 1 : 0;
    flushed += is_finite && is_zeroed ? 1 : 0;
    saturated += (kind & kLargest) != 0 && magnitude > s.limit ? 1 : 0;
    survives |= is_nonzero && !is_zeroed;
    has_nan |= std::isnan(magnitude);
    amax = is_nonzero ? std::max(amax, magnitude) : amax;
  }
  part.counts.nonzero += nonzero;
  part.finite_nonzero += finite;
  part.error.flushed += flushed;
  part.error.saturated += saturated;
  block.amax = amax;
  block.has_nan |= has_nan;
  block.has_survivor |= survives;
}

// A float holds code * scale to one rounding, which is what dequantize() gives.
template <class Code>
void dequantize_segment(const Code* codes, const double* values, double scale, double divisor, std::span<float> to) {
  if (divisor != 1) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(values[codes[i]] * scale / divisor);
    return;
  }
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(values[codes[i]] * scale);
}

void count_scales(const QuantizedTensor& q, std::size_t first, std::size_t count, StudyMeter::Part& part) {
  for (std::size_t at = first; at < first + count; ++at) {
    const std::uint32_t code = q.scales().code(at);
    if (q.scales().format != Format::fp32) {
      ++part.counts.scales[code];
    } else {
      part.distinct_scales.push_back(std::bit_cast<float>(code));
      ++part.counts.scales[code >> 23 & 0xFF];
    }
  }
}

}  // namespace

StudyMeter::StudyMeter(Format element, BlockShape block, const Recipe& recipe)
    : block_(block), amax_min_(recipe.amax_min) {
  check_quantized_format(element);
  largest_ = decode(element, spec(element).max_code);
  for (std::uint32_t code = 0; code < std::uint32_t{1} << spec(element).bits; ++code) {
    const double value = decode(element, code);
    const double magnitude = std::fabs(value);
    values_.push_back(value);
    kinds_.push_back(value == 0 ? kZero : magnitude >= largest_ && !std::isinf(magnitude) ? kLargest : 0);
    zeros_.push_back(kZero);
  }
}

// Row r of q, in row_of_blocks: its inputs' values to `back`, and in the first pass its counts.
void StudyMeter::measure_row(const QuantizedTensor& q, std::size_t row_of_blocks, std::int64_t r,
                             std::span<const float> row, std::span<float> back, Part& part,
                             std::vector<BlockTally>& blocks) const {
  const std::int64_t width = block_.width(q.cols());
  for (std::int64_t b = 0, col = 0; b < q.scale_cols(); ++b, col += width) {
    const std::size_t s = row_of_blocks * static_cast<std::size_t>(q.scale_cols()) + static_cast<std::size_t>(b);
    const std::pair<double, double> outer = q.outer_scale(r, col);
    const double scale = q.scale(s) * outer.first;
    const double over = outer.second;
    const auto from = static_cast<std::size_t>(col);
    const auto count = static_cast<std::size_t>(std::min(width, q.cols() - col));
    const Segment segment{row.subspan(from, count), largest_ * scale / over};
    const auto& kinds = scale == 0 ? zeros_ : kinds_;
    const auto each = [&](const auto* codes) {
      dequantize_segment(codes, values_.data(), scale, over, back.subspan(from, count));
      if (error_.is_first_pass())
        count_segment(segment, codes, kinds.data(), part, blocks[static_cast<std::size_t>(b)]);
    };
    const std::int64_t code = r * q.cols() + col;
    size_of(q.element()) == 1 ? each(q.codes.as<std::uint8_t>().data() + code)
                              : each(q.codes.as<std::uint16_t>().data() + code);
  }
}

StudyMeter::Part StudyMeter::measure(const MatrixView& input, const QuantizedTensor& q) const {
  return measure(input, q, 0, static_cast<std::size_t>(q.scale_rows()));
}

StudyMeter::Part StudyMeter::measure(const MatrixView& input, const QuantizedTensor& q, std::size_t at,
                                     std::size_t end) const {
  const std::int64_t height = block_.height(q.rows());
  const std::int64_t first = static_cast<std::int64_t>(at) * height;
  Part part{error_.part(static_cast<std::uint64_t>((input.first_row + first) * q.cols())), {}, 0, {}};
  std::vector<float> row(static_cast<std::size_t>(q.cols())), back(row.size());
  std::vector<BlockTally> blocks;
  for (std::size_t i = at; i < end; ++i) {
    blocks.assign(static_cast<std::size_t>(q.scale_cols()), BlockTally{});
    const std::int64_t begin = static_cast<std::int64_t>(i) * height;
    for (std::int64_t r = begin; r < std::min(q.rows(), begin + height); ++r) {
      input.read_row(r, row);
      measure_row(q, i, r, row, back, part, blocks);
      part.error.add(row, back);
    }
    if (!error_.is_first_pass()) continue;
    for (const BlockTally& block : blocks) close(part.counts, block, amax_min_);
    count_scales(q, i * blocks.size(), blocks.size(), part);
  }
  return part;
}

void StudyMeter::add(const Part& part) {
  const bool is_first_pass = error_.is_first_pass();
  error_.add(part.error);
  if (!is_first_pass) return;
  add_counts(counts_, part.counts);
  finite_nonzero_ += part.finite_nonzero;
  for (const float scale : part.distinct_scales) distinct_.add(scale);
}

bool StudyMeter::finish_pass() { return error_.finish_pass(); }

Study StudyMeter::study() const {
  Study s = counts_;
  s.error = error_.measures();
  if (finite_nonzero_ != 0) {
    s.zeroed_share = static_cast<double>(s.error.flushed) / static_cast<double>(finite_nonzero_);
  }
  const auto used = std::count_if(s.scales.begin(), s.scales.end(), [](std::uint64_t n) { return n != 0; });
  s.distinct_scales = distinct_.count() != 0 ? distinct_.count() : static_cast<std::uint64_t>(used);
  return s;
}

Study study(const MatrixView& input, Format element, BlockShape block, const Recipe& recipe, int threads) {
  check_has_elements(input);
  const QuantizedTensor q = quantize(input, element, block, recipe, {}, threads);
  // Parts of so many elements; a few at a time are held.
  constexpr std::int64_t kElements = 1 << 18;
  const std::int64_t row_of_blocks = block.height(q.rows()) * q.cols();
  const std::int64_t step = std::max<std::int64_t>(1, kElements / row_of_blocks);
  const std::int64_t at_once = 4 * thread_count(threads);
  StudyMeter meter(element, block, recipe);
  std::vector<std::optional<StudyMeter::Part>> parts;
  do {
    for (std::int64_t first = 0; first < q.scale_rows(); first += step * at_once) {
      const std::int64_t count = std::min(at_once, (q.scale_rows() - first + step - 1) / step);
      parts.assign(static_cast<std::size_t>(count), std::nullopt);
      parallel_ranges(count, count * step * row_of_blocks, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t at = first + i * step;
          parts[static_cast<std::size_t>(i)] = meter.measure(
              input, q, static_cast<std::size_t>(at), static_cast<std::size_t>(std::min(q.scale_rows(), at + step)));
        }
      });
      for (const auto& part : parts) meter.add(*part);
    }
  } while (!meter.finish_pass());
  return meter.study();
}

}  // namespace mxcheck
