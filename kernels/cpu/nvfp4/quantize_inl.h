// Bands of blocks of 1 x 16 and 16 x 16, compiled once for each Highway target.
//
// Whole multiples of kGranule columns are processed in place; the columns left over, and nothing beyond them, are
// copied to a buffer and processed there among zeros, which change no amax and have codes of 0. Nothing outside the
// tensors is read or written. Blocks whose amax is not finite, or under whose scale a zero has another code, go to
// scalar_block.h afterwards, and so do all blocks of Four Over Six and of HWY_SCALAR.
//
// With options (options_inl.h) or rows by index every piece goes through a buffer: the elements as they are quantized,
// after the transform. Kind is their type, Source that of x.

#if defined(MXCHECK_CPU_NVFP4_QUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_CPU_NVFP4_QUANTIZE_INL_H_
    #undef MXCHECK_CPU_NVFP4_QUANTIZE_INL_H_
  #else
    #define MXCHECK_CPU_NVFP4_QUANTIZE_INL_H_
  #endif

  #include <algorithm>
  #include <cstdint>
  #include <type_traits>

  #include "hwy/cache_control.h"
  #include "hwy/highway.h"
  #include "kernels/cpu/nvfp4/codes_inl.h"
  #include "kernels/cpu/nvfp4/options_inl.h"
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
  Nvfp4Quantizer(const Nvfp4Quantizer&) = delete;
  Nvfp4Quantizer& operator=(const Nvfp4Quantizer&) = delete;
  ~Nvfp4Quantizer() = default;

  // pieces: what takes the pieces of a band in place of piece().
  template <class Pieces = Nvfp4Quantizer>
  void bands(std::int64_t begin, std::int64_t end, Pieces* pieces = nullptr) {
    if (begin >= end || job_.cols == 0) return;
  #if HWY_TARGET != HWY_SCALAR
    constexpr std::int64_t kMany = std::int64_t{1} << 20;
    all_known_ = (end - begin) * job_.block_rows >= kMany / job_.cols && limits_.find_all(job_.levels);
  #endif
    const std::int64_t panel = job_.block_rows == 1 ? kPanelCols : kPanelCols / 2;  // 16 rows stay in the first cache
    Band band = job_.map->band(begin);
    for (std::int64_t i = begin; i < end; ++i) {
      if (i != begin) band = job_.map->next(band);
      for (std::int64_t c = 0; c < job_.cols; c += panel) {
        const std::int64_t cols = std::min(panel, job_.cols - c);
        pieces != nullptr ? pieces->piece(band, c, cols) : piece(band, c, cols);
      }
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

 protected:
  void encode(const Band& band, std::int64_t first, const Panel<T>& p) {
    const std::int64_t count = (p.cols + kBlockCols - 1) / kBlockCols;
  #if HWY_TARGET != HWY_SCALAR
    if (job_.levels.recipe != Nvfp4Recipe::four_six) {
      find_amax(p);
      floats_of<Kind>(amax_, p.readable / kBlockCols, floats_);
      scale_bytes_of(job_.levels, floats_, p.readable / kBlockCols, bytes_);
      const bool all_easy = find_hard_blocks(p.readable / kBlockCols);
      const bool is_stochastic = job_.options != nullptr && job_.options->stochastic;
      for (std::int64_t r = 0; r < p.rows && is_stochastic; ++r) stochastic_run(p, r, number_of(band, first, r));
      for (std::int64_t r = 0; r < p.rows && !is_stochastic; ++r) {
        encode_nvfp4_run(p.x + r * p.stride, p.cols, limits_, bytes_, kAhead, p.codes + r * p.codes_stride,
                         job_.stream);
      }
      if (!all_easy) hard_blocks(p, count, number_of(band, first, 0));
      job_.map->store(job_.scales, band, first / kBlockCols, bytes_, count);
      return;
    }
  #endif
    std::fill_n(hard_, count, true);
    hard_blocks(p, count, number_of(band, first, 0));
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

  // The number of a row's first element in a piece.
  std::uint64_t number_of(const Band& band, std::int64_t first, std::int64_t row) const {
    return static_cast<std::uint64_t>((band.first_row + row) * job_.cols + first);
  }

  #if HWY_TARGET != HWY_SCALAR
  // The codes of a row of a panel by random words; whole blocks are written.
  void stochastic_run(const Panel<T>& p, std::int64_t row, std::uint64_t number) {
    HWY_ALIGN float x[kBlockCols];
    const std::int64_t padded = (p.cols + kBlockCols - 1) / kBlockCols * kBlockCols;
    const std::uint8_t* bytes = job_.words.bytes ? random_bytes(job_.words, number, padded, random_) : nullptr;
    for (std::int64_t c = 0; c < p.cols; c += kBlockCols) {
      for (std::int64_t i = 0; i < kBlockCols; ++i) x[i] = Kind::value(p.x[row * p.stride + c + i]);
      encode_stochastic_block(job_.levels, x, bytes_[c / kBlockCols], job_.words,
                              number + static_cast<std::uint64_t>(c), bytes != nullptr ? bytes + c : nullptr,
                              p.codes + row * p.codes_stride + c / 2);
    }
  }
  #endif

  // number: of the panel's first element.
  void hard_blocks(const Panel<T>& p, std::int64_t count, std::uint64_t number) {
    for (std::int64_t b = 0; b < count; ++b) {
      if (!hard_[b]) continue;
      const std::int64_t col = b * kBlockCols;
      if (job_.options != nullptr && job_.options->stochastic) {
        bytes_[b] = quantize_stochastic_block<Kind>(
            job_.levels, job_.words, number + static_cast<std::uint64_t>(col), job_.cols, p.x + col, p.stride, p.rows,
            std::min(kBlockCols, p.cols - col), p.codes + col / 2, p.codes_stride);
        continue;
      }
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
  HWY_ALIGN std::uint32_t random_[kPanelCols / 4 + 4 * 8] = {};  // bytes of a row, of those before, and of a vector
  #endif
  HWY_ALIGN std::uint8_t bytes_[kPanelBlocks] = {};
  bool hard_[kPanelBlocks] = {};
  Buffer<T, kMostBlockRows> buffer_;
};

// The elements of a piece as they are quantized; without options, Source is Kind.
template <class Kind, class Source>
class Nvfp4BufferedQuantizer : public Nvfp4Quantizer<Kind> {
 public:
  using T = typename Kind::Bits;

  explicit Nvfp4BufferedQuantizer(const Nvfp4Job& job) : Nvfp4Quantizer<Kind>(job), of_(job) {}

  void piece(const Band& band, std::int64_t first, std::int64_t cols) {
    const std::int64_t readable = (cols + kGranule - 1) / kGranule * kGranule;
    for (std::int64_t r = 0; r < band.rows; ++r) {
      T* to = elements_ + r * kPanelCols;
      const auto* x = static_cast<const typename Source::Bits*>(of_.x);
      read_row(x + of_.row_of_x(band.first_row + r) * of_.stride + first * of_.col_step, cols, to);
      std::fill(to + cols, to + readable, T{0});
    }
    constexpr std::int64_t kBytes = kPanelCols / 2;
    this->encode(band, first, {elements_, kPanelCols, band.rows, cols, readable, codes_, kBytes});
    const std::int64_t row_bytes = (of_.cols + 1) / 2;
    for (std::int64_t r = 0; r < band.rows; ++r)
      std::copy_n(codes_ + r * kBytes, (cols + 1) / 2, of_.codes + (band.first_row + r) * row_bytes + first / 2);
  }

 private:
  void read_row(const typename Source::Bits* from, std::int64_t cols, T* to) {
    if constexpr (std::is_same_v<Kind, Source>) {
      if (of_.options == nullptr) return void(std::copy_n(from, cols, to));
    }
    for (std::int64_t c = 0; c < cols; ++c) floats_[c] = Source::value(from[c * of_.col_step]);
    if (of_.options->hadamard != 0) transform_groups(*of_.options, floats_, cols);
    for (std::int64_t c = 0; c < cols; ++c) to_result(floats_[c], to[c]);
  }

  const Nvfp4Job& of_;
  HWY_ALIGN float floats_[kPanelCols] = {};
  HWY_ALIGN T elements_[kMostBlockRows * kPanelCols];
  HWY_ALIGN std::uint8_t codes_[kMostBlockRows * kPanelCols / 2];
};

template <class Kind, class Source>
void quantize_nvfp4_buffered(const Nvfp4Job& job, std::int64_t begin, std::int64_t end) {
  Nvfp4BufferedQuantizer<Kind, Source> quantizer(job);  // about 120 KiB of stack
  quantizer.bands(begin, end, &quantizer);
}

// By the type of x, and that of what is quantized.
void quantize_nvfp4_with_options(const Nvfp4Job& job, std::int64_t begin, std::int64_t end) {
  const bool from_fp32 = job.values == Nvfp4Values::fp32;
  const bool to_fp32 = job.options->hadamard != 0 ? job.options->result_is_fp32 : from_fp32;
  if (from_fp32 && to_fp32) return quantize_nvfp4_buffered<Fp32, Fp32>(job, begin, end);
  if (from_fp32) return quantize_nvfp4_buffered<Bf16, Fp32>(job, begin, end);
  if (to_fp32) return quantize_nvfp4_buffered<Fp32, Bf16>(job, begin, end);
  quantize_nvfp4_buffered<Bf16, Bf16>(job, begin, end);
}

template <class Kind>
void quantize_nvfp4_bands_of(const Nvfp4Job& job, std::int64_t begin, std::int64_t end) {
  if (job.index != nullptr) return quantize_nvfp4_buffered<Kind, Kind>(job, begin, end);
  Nvfp4Quantizer<Kind> quantizer(job);  // about 40 KiB of stack
  quantizer.bands(begin, end);
}

void QuantizeNvfp4Bands(const Nvfp4Job& job, std::int64_t begin, std::int64_t end) {
  if (job.options != nullptr) return quantize_nvfp4_with_options(job, begin, end);
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
