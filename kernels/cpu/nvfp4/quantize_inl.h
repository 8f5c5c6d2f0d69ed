// Bands of blocks of 1 x 16 and 16 x 16, compiled once for each Highway target.
//
// Whole multiples of kGranule columns are processed in place; the columns left over, and nothing beyond them, are
// copied to a buffer and processed there among zeros, which change no amax and have codes of 0. Nothing outside the
// tensors is read or written. Blocks whose amax is not finite, or under whose scale a zero has another code, go to
// scalar_block.h afterwards, and so do all blocks of Four Over Six and of HWY_SCALAR.

#if defined(MXCHECK_CPU_NVFP4_QUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_CPU_NVFP4_QUANTIZE_INL_H_
    #undef MXCHECK_CPU_NVFP4_QUANTIZE_INL_H_
  #else
    #define MXCHECK_CPU_NVFP4_QUANTIZE_INL_H_
  #endif

  #include <algorithm>
  #include <cstdint>

  #include "hwy/cache_control.h"
  #include "hwy/highway.h"
  #include "kernels/cpu/nvfp4/codes_inl.h"
  #include "kernels/cpu/nvfp4/quantize.h"
  #include "kernels/cpu/nvfp4/scalar_block.h"
  #include "kernels/cpu/nvfp4/scales_inl.h"
  #include "kernels/cpu/quantize/lanes_inl.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_kernels::cpu {
namespace HWY_NAMESPACE {

constexpr std::int64_t kPanelCols = 1024;
constexpr std::int64_t kAhead = 2 * kPanelCols;  // of prefetches
constexpr std::int64_t kPanelBlocks = kPanelCols / kBlockCols;

template <class Kind>
class Nvfp4Quantizer {
 public:
  using T = typename Kind::Bits;

  explicit Nvfp4Quantizer(const Nvfp4Job& job) : job_(job) {}

  void bands(std::int64_t begin, std::int64_t end) {
    if (begin >= end || job_.cols == 0) return;
  #if HWY_TARGET != HWY_SCALAR
    constexpr std::int64_t kMany = std::int64_t{1} << 20;
    all_known_ = (end - begin) * job_.block_rows >= kMany / job_.cols && limits_.find_all(job_.levels);
  #endif
    Band band = job_.map->band(begin);
    for (std::int64_t i = begin; i < end; ++i) {
      if (i != begin) band = job_.map->next(band);
      for (std::int64_t c = 0; c < job_.cols; c += kPanelCols) piece(band, c, std::min(kPanelCols, job_.cols - c));
    }
  }

 private:
  // Columns [first, first + cols) of a band: in place as far as they fill kGranules, then through the buffer.
  void piece(const Band& band, std::int64_t first, std::int64_t cols) {
    const std::int64_t whole = cols / kGranule * kGranule;
    if (whole > 0) {
      encode(band, first, {input(band, first), job_.stride, band.rows, whole, whole, output(band, first), row_bytes()});
    }
    const std::int64_t rest = cols - whole;
    if (rest == 0) return;
    const std::int64_t at = first + whole;
    encode(band, at, buffer_.fill(input(band, at), job_.stride, band.rows, rest));
    buffer_.drain(output(band, at), row_bytes(), band.rows, (rest + 1) / 2);
  }

  std::int64_t row_bytes() const { return (job_.cols + 1) / 2; }
  const T* input(const Band& band, std::int64_t col) const {
    return static_cast<const T*>(job_.x) + band.first_row * job_.stride + col;
  }
  std::uint8_t* output(const Band& band, std::int64_t col) const {
    return job_.codes + band.first_row * row_bytes() + col / 2;
  }

  void encode(const Band& band, std::int64_t first, const Panel<T>& p) {
    const std::int64_t count = (p.cols + kBlockCols - 1) / kBlockCols;
  #if HWY_TARGET != HWY_SCALAR
    if (job_.levels.recipe != Nvfp4Recipe::four_six) {
      find_amax(p);
      floats_of<Kind>(amax_, p.readable / kBlockCols, floats_);
      scale_bytes_of(job_.levels, floats_, p.readable / kBlockCols, bytes_);
      const bool all_easy = find_hard_blocks(p.readable / kBlockCols);
      for (std::int64_t r = 0; r < p.rows; ++r) {
        encode_nvfp4_run(p.x + r * p.stride, p.cols, limits_, bytes_, kAhead, p.codes + r * p.codes_stride,
                         job_.stream);
      }
      if (!all_easy) hard_blocks(p, count);
      job_.map->store(job_.scales, band, first / kBlockCols, bytes_, count);
      return;
    }
  #endif
    std::fill_n(hard_, count, true);
    hard_blocks(p, count);
    job_.map->store(job_.scales, band, first / kBlockCols, bytes_, count);
  }

  #if HWY_TARGET != HWY_SCALAR
  void find_amax(const Panel<T>& p) {
    if (job_.block_rows == 1) return amax_of_16(p.x, p.readable, amax_);
    column_amax(p.x, p.stride, p.rows, p.readable, column_amax_);
    amax_of_16(column_amax_, p.readable, amax_);
  }
  #endif

  #if HWY_TARGET != HWY_SCALAR
  // Finds the limits of all bytes. False: hard_ says which blocks are to be done again.
  bool find_hard_blocks(std::int64_t count) {
    const bool all_finite = are_below(amax_, count, Kind::kInfinity);
    if (all_known_ && all_finite) return true;
    bool all_easy = true;
    for (std::int64_t b = 0; b < count; ++b) {
      hard_[b] = !limits_.find(job_.levels, bytes_[b]) || amax_[b] >= Kind::kInfinity;
      all_easy = all_easy && !hard_[b];
    }
    return all_easy;
  }
  #endif

  void hard_blocks(const Panel<T>& p, std::int64_t count) {
    for (std::int64_t b = 0; b < count; ++b) {
      if (!hard_[b]) continue;
      const std::int64_t col = b * kBlockCols;
      bytes_[b] = quantize_scalar_block<Kind>(job_.levels, p.x + col, p.stride, p.rows,
                                              std::min(kBlockCols, p.cols - col), p.codes + col / 2, p.codes_stride);
    }
  }

  const Nvfp4Job& job_;
  #if HWY_TARGET != HWY_SCALAR
  Limits<Kind> limits_;
  bool all_known_ = false;
  HWY_ALIGN T amax_[kPanelBlocks] = {};
  HWY_ALIGN T column_amax_[kPanelCols] = {};
  HWY_ALIGN float floats_[kPanelBlocks] = {};
  #endif
  HWY_ALIGN std::uint8_t bytes_[kPanelBlocks] = {};
  bool hard_[kPanelBlocks] = {};
  Buffer<T, kMostBlockRows> buffer_;
};

template <class Kind>
void quantize_nvfp4_bands_of(const Nvfp4Job& job, std::int64_t begin, std::int64_t end) {
  Nvfp4Quantizer<Kind> quantizer(job);  // about 40 KiB of stack
  quantizer.bands(begin, end);
}

void QuantizeNvfp4Bands(const Nvfp4Job& job, std::int64_t begin, std::int64_t end) {
  switch (job.values) {
    case Nvfp4Values::bf16: quantize_nvfp4_bands_of<Bf16>(job, begin, end); break;
    case Nvfp4Values::fp32: quantize_nvfp4_bands_of<Fp32>(job, begin, end); break;
    case Nvfp4Values::fp16: quantize_nvfp4_bands_of<Fp16>(job, begin, end); break;
  }
  if (job.stream) hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
