// Bands of blocks of every shape, from the runs of encode_inl.h, compiled once for each Highway target.
//
// Whole multiples of kGranule columns are processed in place; the columns left over, and nothing beyond them, are
// copied to a buffer and processed there among zeros, which change no amax. Nothing outside the tensors is read or
// written.

#if defined(MXCHECK_CPU_QUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_CPU_QUANTIZE_INL_H_
    #undef MXCHECK_CPU_QUANTIZE_INL_H_
  #else
    #define MXCHECK_CPU_QUANTIZE_INL_H_
  #endif

  #include <algorithm>
  #include <cstdint>
  #include <cstring>

  #include "hwy/cache_control.h"
  #include "hwy/highway.h"
  #include "kernels/cpu/quantize/amax_inl.h"
  #include "kernels/cpu/quantize/encode_inl.h"
  #include "kernels/cpu/quantize/quantize.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_kernels::cpu {
namespace HWY_NAMESPACE {

constexpr std::int64_t kMaxRows = 128;    // of a band of n x 1 or n x n blocks
constexpr std::int64_t kMaxWidth = 1024;  // columns of a panel: 32 rows of BF16 take 64 KiB, well inside L2

template <class F, class T>
class Quantizer {
 public:
  explicit Quantizer(const QuantizeJob& job) : job_(job), addend_(round_up_addend<T>(job.rule)) {}

  void bands(std::int64_t begin, std::int64_t end) {
    if (begin >= end || job_.cols == 0) return;
    Band band = job_.out.map->band(begin);
    for (std::int64_t i = begin; i < end; ++i) {
      if (i != begin) band = job_.out.map->next(band);
      if (job_.block.cols == 0) {
        whole_row(band);
      } else {
        const std::int64_t width = kMaxWidth;
        for (std::int64_t c = 0; c < job_.cols; c += width) piece(band, c, std::min(width, job_.cols - c));
      }
    }
  }

 private:
  // Columns [first, first + cols) of a band: in place as far as they fill kGranules, then through the buffer.
  void piece(const Band& band, std::int64_t first, std::int64_t cols) {
    const std::int64_t whole = cols / kGranule * kGranule;
    if (whole > 0)
      directions(band, first, in_place(job_.out, band, first, whole), in_place(job_.rows_out, band, first, whole));
    const std::int64_t rest = cols - whole;
    if (rest == 0) return;
    const std::int64_t at = first + whole;
    const Panel<T> staged = buffer_.fill(input(band, at), job_.stride, band.rows, rest);
    if (job_.rows_out.codes != nullptr) {
      row_direction(band, at, staged);
      buffer_.drain(output(job_.rows_out, band, at), job_.cols, band.rows, rest);
    }
    block_direction(band, at, staged);
    buffer_.drain(output(job_.out, band, at), job_.cols, band.rows, rest);
  }

  void directions(const Band& band, std::int64_t first, const Panel<T>& panel, const Panel<T>& rows_panel) {
    if (job_.rows_out.codes != nullptr) row_direction(band, first, rows_panel);
    block_direction(band, first, panel);
  }

  const T* input(const Band& band, std::int64_t col) const {
    return static_cast<const T*>(job_.x) + band.first_row * job_.stride + col;
  }
  std::uint8_t* output(const ScaleOutput& out, const Band& band, std::int64_t col) const {
    return out.codes + band.first_row * job_.cols + col;
  }
  Panel<T> in_place(const ScaleOutput& out, const Band& band, std::int64_t col, std::int64_t cols) const {
    std::uint8_t* codes = out.codes == nullptr ? nullptr : output(out, band, col);
    return {input(band, col), job_.stride, band.rows, cols, cols, codes, job_.cols};
  }

  // quantize_dual's other half: each row of the panel in blocks of 1 x block.rows.
  void row_direction(const Band& band, std::int64_t first, const Panel<T>& panel) {
    const ScaleMap& map = *job_.rows_out.map;
    for (std::int64_t r = 0; r < panel.rows; ++r) {
      const std::int64_t count = one_row(panel, r, job_.block.rows);
      map.store(job_.rows_out.scales, map.row_band(band, band.first_row + r), first / job_.block.rows, bytes_, count);
    }
  }

  void block_direction(const Band& band, std::int64_t first, const Panel<T>& panel) {
    std::int64_t count = 0;
    if (job_.block.rows == 1) {
      count = one_row(panel, 0, job_.block.cols);
    } else {
      count = job_.block.cols == 1 ? columns(panel) : tiles(panel);
    }
    job_.out.map->store(job_.out.scales, band, first / job_.block.cols, bytes_, count);
  }

  // Row r of the panel in blocks of 1 x n. Leaves the scales in bytes_ and returns their number, as all of these do.
  std::int64_t one_row(const Panel<T>& p, std::int64_t r, std::int64_t n) {
    const Panel<T> row{p.x + r * p.stride, 0, 1, p.cols, p.readable, p.codes + r * p.codes_stride, 0};
  #if HWY_TARGET != HWY_SCALAR
    sub_block_amax(row.x, row.readable, scales_.amax);
    if (n == 128) fold(scales_.amax, row.readable / kSubBlock, 4);
    return encode_blocks(row, n);
  #else
    return encode_blocks(row, n);
  #endif
  }

  // n x n blocks, n = p.rows or more.
  std::int64_t tiles(const Panel<T>& p) {
  #if HWY_TARGET != HWY_SCALAR
    column_amax(p.x, p.stride, p.rows, p.readable, scales_.amax);
    fold(scales_.amax, p.readable, job_.block.cols);
  #endif
    return encode_blocks(p, job_.block.cols);
  }

  // Blocks of n columns and all rows of the panel, whose amax are in scales_.
  std::int64_t encode_blocks(const Panel<T>& p, std::int64_t n) {
    const std::int64_t count = (p.cols + n - 1) / n;
  #if HWY_TARGET != HWY_SCALAR
    const bool all_easy = scales_of<F>(scales_, count, addend_);
    for (std::int64_t r = 0; r < p.rows; ++r) {
      const T* x = p.x + r * p.stride;
      std::uint8_t* codes = p.codes + r * p.codes_stride;
      if (n == 32) encode_run<F, AlongRow<5>>(x, p.cols, scales_, codes, job_.stream);
      if (n == 128) encode_run<F, AlongRow<7>>(x, p.cols, scales_, codes, job_.stream);
    }
    std::copy_n(scales_.bytes, count, bytes_);
    if (all_easy) return count;
  #endif
    for (std::int64_t b = 0; b < count; ++b) hard_block(p, b, n);
    return count;
  }

  // n x 1 blocks, n = p.rows or more.
  std::int64_t columns(const Panel<T>& p) {
  #if HWY_TARGET != HWY_SCALAR
    column_amax(p.x, p.stride, p.rows, p.readable, scales_.amax);
    const bool all_easy = scales_of<F>(scales_, p.cols, addend_);
    for (std::int64_t r = 0; r < p.rows; ++r) {
      encode_run<F, EachColumn>(p.x + r * p.stride, p.cols, scales_, p.codes + r * p.codes_stride, job_.stream);
    }
    std::copy_n(scales_.bytes, p.cols, bytes_);
    if (all_easy) return p.cols;
  #endif
    for (std::int64_t c = 0; c < p.cols; ++c) hard_block(p, c, 1);
    return p.cols;
  }

  // Block b of n columns once more, if it is not easy.
  void hard_block(const Panel<T>& p, std::int64_t b, std::int64_t n) {
    if (is_easy_block(b)) return;
    const std::int64_t col = b * n;
    bytes_[b] = quantize_block<F>(job_.rule, p.x + col, p.stride, p.rows, std::min(n, p.cols - col), p.codes + col,
                                  p.codes_stride);
  }

  bool is_easy_block(std::int64_t b) const {
  #if HWY_TARGET != HWY_SCALAR
    return is_easy<F, T>(scales_.amax[b], addend_);
  #else
    return b < 0;
  #endif
  }

  // One block of 1 x cols: amax over the row first, then the codes.
  void whole_row(const Band& band) {
    const T* x = input(band, 0);
    std::uint8_t* codes = output(job_.out, band, 0);
  #if HWY_TARGET != HWY_SCALAR
    const std::int64_t whole = job_.cols / kGranule * kGranule;
    const std::int64_t rest = job_.cols - whole;
    const Panel<T> staged = buffer_.fill(x + whole, 0, 1, rest);
    T amax = 0;
    const auto add = [&](const T* from, std::int64_t count) {
      sub_block_amax(from, count, scales_.amax);
      fold(scales_.amax, count / kSubBlock, count / kSubBlock);
      amax = std::max(amax, scales_.amax[0]);
    };
    for (std::int64_t c = 0; c < whole; c += kGranule) add(x + c, kGranule);
    add(staged.x, kGranule);
    scales_.amax[0] = amax;
    scales_of<F>(scales_, 1, addend_);
    encode_run<F, AlongRow<62>>(x, whole, scales_, codes, job_.stream);
    encode_run<F, AlongRow<62>>(staged.x, rest, scales_, staged.codes, false);
    buffer_.drain(codes + whole, 0, 1, rest);
    bytes_[0] = scales_.bytes[0];
  #endif
    hard_block({x, 0, 1, job_.cols, job_.cols, codes, 0}, 0, job_.cols);
    job_.out.map->store(job_.out.scales, band, 0, bytes_, 1);
  }

  const QuantizeJob& job_;
  const T addend_;
  #if HWY_TARGET != HWY_SCALAR
  Scales<T, kMaxWidth> scales_ = {};
  #endif
  std::uint8_t bytes_[kMaxWidth];
  Buffer<T, kMaxRows> buffer_;
};

template <class F, class T>
void quantize_bands_of(const QuantizeJob& job, std::int64_t begin, std::int64_t end) {
  Quantizer<F, T> quantizer(job);  // about 200 KiB of stack
  quantizer.bands(begin, end);
}

void QuantizeBands(const QuantizeJob& job, std::int64_t begin, std::int64_t end) {
  if (job.element == Element::e4m3) {
    if (job.dtype == Dtype::bf16) quantize_bands_of<E4m3, std::uint16_t>(job, begin, end);
    if (job.dtype == Dtype::fp32) quantize_bands_of<E4m3, std::uint32_t>(job, begin, end);
  } else {
    if (job.dtype == Dtype::bf16) quantize_bands_of<E5m2, std::uint16_t>(job, begin, end);
    if (job.dtype == Dtype::fp32) quantize_bands_of<E5m2, std::uint32_t>(job, begin, end);
  }
  if (job.stream) hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
