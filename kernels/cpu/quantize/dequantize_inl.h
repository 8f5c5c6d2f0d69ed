// Bands of codes of every block shape, from the runs of decode_inl.h, compiled once for each Highway target.

#if defined(MXCHECK_CPU_DEQUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_CPU_DEQUANTIZE_INL_H_
    #undef MXCHECK_CPU_DEQUANTIZE_INL_H_
  #else
    #define MXCHECK_CPU_DEQUANTIZE_INL_H_
  #endif

  #include <algorithm>
  #include <cstdint>

  #include "hwy/cache_control.h"
  #include "hwy/highway.h"
  #include "kernels/cpu/quantize/decode_inl.h"
  #include "kernels/cpu/quantize/quantize.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_kernels::cpu {
namespace HWY_NAMESPACE {

template <class F, class T>
class Dequantizer {
 public:
  explicit Dequantizer(const DequantizeJob& job) : job_(job) {}

  void bands(std::int64_t begin, std::int64_t end) {
    if (begin >= end || job_.cols == 0) return;
    Band band = job_.map->band(begin);
    for (std::int64_t i = begin; i < end; ++i) {
      if (i != begin) band = job_.map->next(band);
      for (std::int64_t c = 0; c < job_.cols; c += kWidth) piece(band, c, std::min(kWidth, job_.cols - c));
    }
  }

 private:
  static constexpr std::int64_t kWidth = 1024;

  // Columns [first, first + cols) of a band.
  void piece(const Band& band, std::int64_t first, std::int64_t cols) {
    const std::int64_t n = job_.block.cols == 0 ? kWidth : job_.block.cols;
    const std::int64_t blocks = (cols + n - 1) / n;
    job_.map->load(job_.scales, band, job_.block.cols == 0 ? 0 : first / n, bytes_, blocks);
    const std::int64_t at = band.first_row * job_.cols + first;
  #if HWY_TARGET != HWY_SCALAR
    for (std::int64_t b = 0; b < blocks; ++b) shifts_[b] = static_cast<std::uint16_t>((bytes_[b] - 127) * 128);
    for (std::int64_t r = 0; r < band.rows; ++r) {
      const std::uint8_t* codes = job_.codes + at + r * job_.cols;
      T* y = static_cast<T*>(job_.y) + at + r * job_.cols;
      if (n == 1) row<EachColumn>(codes, cols, y);
      if (n == 32) row<AlongRow<5>>(codes, cols, y);
      if (n == 128) row<AlongRow<7>>(codes, cols, y);
      if (n == kWidth) row<AlongRow<62>>(codes, cols, y);
    }
  #endif
    for (std::int64_t b = 0; b < blocks; ++b) {
      if (!is_easy_byte(bytes_[b])) hard_block(at + b * n, band.rows, std::min(n, cols - b * n), bytes_[b]);
    }
  }

  #if HWY_TARGET != HWY_SCALAR
  template <class Where>
  void row(const std::uint8_t* codes, std::int64_t cols, T* y) {
    const std::int64_t whole = cols / kDecodeGranule * kDecodeGranule;
    decode_run<F, Where>(codes, 0, whole, shifts_, y, job_.stream);
    if (whole == cols) return;
    // The rest through buffers, so that nothing beyond the row is read or written.
    HWY_ALIGN std::uint8_t rest[kDecodeGranule] = {};
    HWY_ALIGN T values[kDecodeGranule];
    std::copy_n(codes + whole, cols - whole, rest);
    decode_run<F, Where>(rest, whole, kDecodeGranule, shifts_, values, false);
    std::copy_n(values, cols - whole, y + whole);
  }
  #endif

  void hard_block(std::int64_t at, std::int64_t rows, std::int64_t cols, std::uint8_t byte) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = at + r * job_.cols; i < at + r * job_.cols + cols; ++i) {
        narrow(decode_fp32<F>(job_.codes[i], byte), static_cast<T*>(job_.y)[i]);
      }
    }
  }

  const DequantizeJob& job_;
  HWY_ALIGN std::uint16_t shifts_[kWidth] = {};
  HWY_ALIGN std::uint8_t bytes_[kWidth] = {};
};

template <class F, class T>
void dequantize_bands_of(const DequantizeJob& job, std::int64_t begin, std::int64_t end) {
  Dequantizer<F, T> dequantizer(job);
  dequantizer.bands(begin, end);
}

void DequantizeBands(const DequantizeJob& job, std::int64_t begin, std::int64_t end) {
  if (job.element == Element::e4m3) {
    if (job.dtype == Dtype::bf16) dequantize_bands_of<E4m3, std::uint16_t>(job, begin, end);
    if (job.dtype == Dtype::fp32) dequantize_bands_of<E4m3, std::uint32_t>(job, begin, end);
  } else {
    if (job.dtype == Dtype::bf16) dequantize_bands_of<E5m2, std::uint16_t>(job, begin, end);
    if (job.dtype == Dtype::fp32) dequantize_bands_of<E5m2, std::uint32_t>(job, begin, end);
  }
  if (job.stream) hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
