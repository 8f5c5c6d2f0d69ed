// Values by table: under one scale of the tensor a value depends on its code and its scale byte alone, so there are 256
// tables of 16 values, each made with the scalar arithmetic when its byte first occurs. Bytes of the values lie in
// planes, of which one instruction takes those of 16 codes; no value is multiplied or rounded in the loop. Compiled
// once for each Highway target.

#if defined(MXCHECK_CPU_NVFP4_DEQUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
  #ifdef MXCHECK_CPU_NVFP4_DEQUANTIZE_INL_H_
    #undef MXCHECK_CPU_NVFP4_DEQUANTIZE_INL_H_
  #else
    #define MXCHECK_CPU_NVFP4_DEQUANTIZE_INL_H_
  #endif

  #include <algorithm>
  #include <cstddef>
  #include <cstdint>

  #include "hwy/cache_control.h"
  #include "hwy/highway.h"
  #include "kernels/cpu/nvfp4/quantize.h"
  #include "kernels/cpu/quantize/lanes_inl.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_kernels::cpu {
namespace HWY_NAMESPACE {

constexpr std::int64_t kValueBlock = 16;
constexpr std::int64_t kValuePanel = 1024;  // columns whose scale bytes are fetched together

// plane[byte][k][code]: byte k of the value of the code, the lowest first.
template <class T>
class ValuePlanes {
 public:
  using Planes = std::uint8_t[sizeof(T)][16];

  explicit ValuePlanes(const Nvfp4TensorScale& scale) : scale_(scale) {}

  const Planes& of(std::uint8_t byte) {
    if (!known_[byte]) fill(byte);
    return planes_[byte];
  }

 private:
  void fill(std::uint8_t byte) {
    for (std::uint32_t code = 0; code < 16; ++code) {
      const T bits = nvfp4_value_bits<T>(scale_, code, byte);
      for (std::size_t k = 0; k < sizeof(T); ++k) planes_[byte][k][code] = static_cast<std::uint8_t>(bits >> (8 * k));
    }
    known_[byte] = true;
  }

  Nvfp4TensorScale scale_;
  HWY_ALIGN Planes planes_[256];
  bool known_[256] = {};
};

template <class T>
T value_in(const std::uint8_t (&planes)[sizeof(T)][16], std::uint32_t code) {
  T bits = 0;
  for (std::size_t k = 0; k < sizeof(T); ++k) bits = static_cast<T>(bits | static_cast<T>(planes[k][code]) << (8 * k));
  return bits;
}

  #if HWY_TARGET != HWY_SCALAR

template <class D, class V, class T>
HWY_INLINE void store_block(D /*d*/, V v, T* y, std::int64_t at, bool past_cache) {
  const hn::Repartition<T, D> of_values;
  const auto values = hn::BitCast(of_values, v);
  past_cache ? hn::Stream(values, of_values, y + at) : hn::StoreU(values, of_values, y + at);
}

// The 16 codes of eight bytes, one a lane, in the order of their columns.
template <class D>
HWY_INLINE hn::VFromD<D> codes_of_block(D d, const std::uint8_t* codes) {
  const hn::Repartition<std::uint16_t, D> d16;
  const auto nibble = hn::Set(d, std::uint8_t{0xF});
  const auto pairs = hn::ZeroExtendVector(d, hn::LoadU(hn::Half<D>(), codes));
  const auto high = hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(d16, pairs)));
  return hn::InterleaveLower(d, hn::And(pairs, nibble), hn::And(high, nibble));
}

HWY_INLINE void decode_block(const std::uint8_t* codes, const std::uint8_t (&planes)[2][16], std::uint16_t* y,
                             bool past_cache) {
  const hn::CappedTag<std::uint8_t, 16> d;
  const auto code = codes_of_block(d, codes);
  const auto low = hn::TableLookupBytes(hn::Load(d, planes[0]), code);
  const auto high = hn::TableLookupBytes(hn::Load(d, planes[1]), code);
  store_block(d, hn::InterleaveLower(d, low, high), y, 0, past_cache);
  store_block(d, hn::InterleaveUpper(d, low, high), y, 8, past_cache);
}

HWY_INLINE void decode_block(const std::uint8_t* codes, const std::uint8_t (&planes)[4][16], std::uint32_t* y,
                             bool past_cache) {
  const hn::CappedTag<std::uint8_t, 16> d;
  const hn::Repartition<std::uint16_t, decltype(d)> d16;
  const auto code = codes_of_block(d, codes);
  const auto plane = [&](int k) HWY_ATTR { return hn::TableLookupBytes(hn::Load(d, planes[k]), code); };
  const auto p0 = plane(0), p1 = plane(1), p2 = plane(2), p3 = plane(3);
  const auto low_a = hn::BitCast(d16, hn::InterleaveLower(d, p0, p1));
  const auto low_b = hn::BitCast(d16, hn::InterleaveUpper(d, p0, p1));
  const auto high_a = hn::BitCast(d16, hn::InterleaveLower(d, p2, p3));
  const auto high_b = hn::BitCast(d16, hn::InterleaveUpper(d, p2, p3));
  store_block(d16, hn::InterleaveLower(d16, low_a, high_a), y, 0, past_cache);
  store_block(d16, hn::InterleaveUpper(d16, low_a, high_a), y, 4, past_cache);
  store_block(d16, hn::InterleaveLower(d16, low_b, high_b), y, 8, past_cache);
  store_block(d16, hn::InterleaveUpper(d16, low_b, high_b), y, 12, past_cache);
}

  #endif  // HWY_TARGET != HWY_SCALAR

template <class T>
class Nvfp4Dequantizer {
 public:
  explicit Nvfp4Dequantizer(const Nvfp4ValuesJob& job) : job_(job), planes_(job.scale) {}

  void bands(std::int64_t begin, std::int64_t end) {
    if (begin >= end || job_.cols == 0) return;
    Band band = job_.map->band(begin);
    for (std::int64_t i = begin; i < end; ++i) {
      if (i != begin) band = job_.map->next(band);
      for (std::int64_t c = 0; c < job_.cols; c += kValuePanel) panel(band, c, std::min(kValuePanel, job_.cols - c));
    }
  }

 private:
  // Columns [first, first + cols) of a band.
  void panel(const Band& band, std::int64_t first, std::int64_t cols) {
    const std::int64_t row_bytes = (job_.cols + 1) / 2;
    job_.map->load(job_.scales, band, first / kValueBlock, bytes_, (cols + kValueBlock - 1) / kValueBlock);
    for (std::int64_t r = band.first_row; r < band.first_row + band.rows; ++r) {
      row(job_.codes + r * row_bytes + first / 2, cols, static_cast<T*>(job_.y) + r * job_.cols + first);
    }
  }

  void row(const std::uint8_t* codes, std::int64_t cols, T* y) {
    std::int64_t done = 0;
  #if HWY_TARGET != HWY_SCALAR
    const bool past_cache = job_.stream && is_aligned(hn::CappedTag<T, 16 / sizeof(T)>(), y);
    for (; done + kValueBlock <= cols; done += kValueBlock) {
      if (done % 128 == 0) prefetch(codes + done / 2, kValuePanel);
      decode_block(codes + done / 2, planes_.of(bytes_[done / kValueBlock]), y + done, past_cache);
    }
  #endif
    for (; done < cols; ++done) {
      const std::uint32_t code = codes[done / 2] >> (done % 2 * 4) & 0xFU;
      y[done] = value_in<T>(planes_.of(bytes_[done / kValueBlock]), code);
    }
  }

  const Nvfp4ValuesJob& job_;
  ValuePlanes<T> planes_;
  HWY_ALIGN std::uint8_t bytes_[kValuePanel / kValueBlock] = {};
};

template <class T>
void dequantize_nvfp4_bands_of(const Nvfp4ValuesJob& job, std::int64_t begin, std::int64_t end) {
  Nvfp4Dequantizer<T> dequantizer(job);  // 8 or 16 KiB of stack
  dequantizer.bands(begin, end);
}

void DequantizeNvfp4Bands(const Nvfp4ValuesJob& job, std::int64_t begin, std::int64_t end) {
  if (job.values == Nvfp4Values::bf16) {
    dequantize_nvfp4_bands_of<std::uint16_t>(job, begin, end);
  } else {
    dequantize_nvfp4_bands_of<std::uint32_t>(job, begin, end);
  }
  if (job.stream) hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
