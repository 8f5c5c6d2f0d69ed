// Scales between the compact layout and tiles of 128 x 4. A tile is four squares of 4 x 4 bytes or words beside each
// other in every 64 bytes, so SIMD transposes squares; scales outside whole squares move one by one. Neither side is
// read or written in order, which the processor's prefetcher follows badly (0.6 of memcpy): the next tiles' bytes of
// both sides are fetched here.

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/quantize/quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quantize/scale_layout.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mxcheck_kernels::cpu {
namespace HWY_NAMESPACE {

// Scale columns [first, cols) of a band.
void MoveBand(const ScaleLayoutJob& job, const Band& band, std::int64_t first) {
  constexpr std::int64_t kStep = 1024;
  std::array<std::uint8_t, kStep> bytes;
  for (std::int64_t c = first; c < job.to->scale_cols(); c += kStep) {
    const std::int64_t count = std::min(kStep, job.to->scale_cols() - c);
    job.from->load(job.in, band, c, bytes.data(), count);
    job.to->store(job.out, band, c, bytes.data(), count);
  }
}

#if HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;

using Words = hn::FixedTag<std::uint32_t, 4>;
using Most = hn::CappedTag<std::uint32_t, 16>;  // as wide as registers are

template <class V>
HWY_INLINE void Transpose(V& a, V& b, V& c, V& d) {
  const hn::DFromV<V> words;
  const hn::Repartition<std::uint64_t, hn::DFromV<V>> pairs;
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(words, a, b));
  const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(words, a, b));
  const auto cd_low = hn::BitCast(pairs, hn::InterleaveLower(words, c, d));
  const auto cd_high = hn::BitCast(pairs, hn::InterleaveUpper(words, c, d));
  a = hn::BitCast(words, hn::InterleaveLower(pairs, ab_low, cd_low));
  b = hn::BitCast(words, hn::InterleaveUpper(pairs, ab_low, cd_low));
  c = hn::BitCast(words, hn::InterleaveLower(pairs, ab_high, cd_high));
  d = hn::BitCast(words, hn::InterleaveUpper(pairs, ab_high, cd_high));
}

// Each 16 bytes as a matrix of 4 x 4.
template <class V>
HWY_INLINE V TransposeBytes(V v) {
  const hn::Repartition<std::uint8_t, hn::DFromV<V>> bytes;
  alignas(16) static constexpr std::uint8_t kOrder[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  return hn::BitCast(hn::DFromV<V>(), hn::TableLookupBytes(hn::BitCast(bytes, v), hn::LoadDup128(bytes, kOrder)));
}

// One direction of an expert's bands that fill tiles. Rows of the compact scales are `stride` bytes apart.
template <bool kToTiles>
class Tiles {
 public:
  using Compact = std::conditional_t<kToTiles, const std::uint8_t*, std::uint8_t*>;
  using Tiled = std::conditional_t<kToTiles, std::uint8_t*, const std::uint8_t*>;

  Tiles(Compact compact, std::int64_t stride, Tiled tiles, std::uint8_t pad)
      : compact_(compact), stride_(stride), tiles_(tiles), pad_(pad) {}

  // Blocks of one row: up to 128 rows. A vector holds 4 scales of a row in 4 tiles, or of 4 rows in one tile. Returns
  // the columns that it has moved.
  std::int64_t rows(std::int64_t rows, std::int64_t cols) const {
    const std::int64_t whole = cols / 4 * 4;
    if (whole < 16) return 0;
    const std::int64_t width = kToTiles ? kLine : whole;  // compact rows are written as a whole
    std::int64_t next = rows * stride_;                   // the next tiles' bytes, in order
    for (std::int64_t first = 0; first < whole; first += width) {
      const std::int64_t end = std::min(first + width, whole);
      for (std::int64_t r = 0; r < std::min<std::int64_t>(32, rows); ++r) {
        const std::int64_t present = (rows - r + 31) / 32;
        for (std::int64_t c = first; c < end; c += 16) {
          const std::int64_t at = std::min(c, whole - 16);  // the last 16 may be partly moved twice
          const Compact compact = compact_ + r * stride_ + at;
          const Tiled tiles = tiles_ + at / 4 * 512 + r * 16;
          present == 4 ? square<true>(compact, 4, tiles) : square<false>(compact, present, tiles);
          hwy::Prefetch(compact_ + next), hwy::Prefetch(tiles_ + next);
          next += kLine;
        }
      }
    }
    return whole;
  }

  // Blocks of one column: up to 4 tiles beside each other, so that both sides have runs of more than a few lines. Rows
  // of tiles are tile_stride bytes apart. Returns the columns that it has moved.
  std::int64_t columns(std::int64_t bands, std::int64_t cols, std::int64_t tile_stride) const {
    const std::int64_t whole = cols / 128 * 128;
    for (std::int64_t c = 0; c < whole; c += 128) {
      for (std::int64_t b = 0; b < bands; b += 4) {
        const Compact compact = compact_ + b * stride_ + c;
        const Tiled tile = tiles_ + c / 128 * tile_stride + b * 128;
        const std::int64_t present = std::min<std::int64_t>(4, bands - b);
        for (std::int64_t at = 0; at < 32; at += kColumns) {
          present == 4 ? cube<true>(compact + at, 4, tile + 16 * at)
                       : cube<false>(compact + at, present, tile + 16 * at);
          for (std::int64_t i = at / 4; i < (at + kColumns) / 4; ++i) {
            hwy::Prefetch(compact + 128 + i / 2 * stride_ + i % 2 * kLine);
            hwy::Prefetch(tile + tile_stride + i * kLine);
          }
        }
      }
    }
    return whole;
  }

 private:
  using Vec = hn::Vec<Words>;
  using Wide = hn::Vec<Most>;
  static constexpr std::int64_t kLine = 64;  // of the cache
  static constexpr std::int64_t kWide = sizeof(Wide);
  static constexpr std::int64_t kColumns = kWide == 64 ? 16 : kWide;  // that a cube has, in each quarter of a tile

  template <class Tag>
  static HWY_INLINE hn::Vec<Tag> load(Tag words, const std::uint8_t* from) {
    const hn::Repartition<std::uint8_t, Tag> bytes;
    return hn::BitCast(words, hn::LoadU(bytes, from));
  }
  template <class V>
  static HWY_INLINE void store(V v, std::uint8_t* to) {
    const hn::Repartition<std::uint8_t, hn::DFromV<V>> bytes;
    hn::StoreU(hn::BitCast(bytes, v), bytes, to);
  }
  // Compact scales, or the padding in their place.
  template <class Tag>
  HWY_INLINE hn::Vec<Tag> load(Tag words, const std::uint8_t* from, bool present) const {
    return present ? load(words, from) : hn::Set(words, pad_ * 0x01010101U);
  }

  // 16 columns of rows 32 apart, of which `present` exist, and one line of 4 tiles.
  template <bool kAll>
  HWY_INLINE void square(Compact compact, std::int64_t present, Tiled tiles) const {
    const auto exists = [&](std::int64_t row) { return kAll || row < present; };
    const auto row = [&](std::int64_t i) { return compact + (exists(i) ? 32 * i * stride_ : 0); };
    const Words words;
    if constexpr (kToTiles) {
      Vec a = load(words, compact);
      Vec b = load(words, row(1), exists(1));
      Vec c = load(words, row(2), exists(2));
      Vec d = load(words, row(3), exists(3));
      Transpose(a, b, c, d);
      store(a, tiles), store(b, tiles + 512), store(c, tiles + 1024), store(d, tiles + 1536);
    } else {
      Vec a = load(words, tiles);
      Vec b = load(words, tiles + 512);
      Vec c = load(words, tiles + 1024);
      Vec d = load(words, tiles + 1536);
      Transpose(a, b, c, d);
      store(a, compact);
      if (exists(1)) store(b, row(1));
      if (exists(2)) store(c, row(2));
      if (exists(3)) store(d, row(3));
    }
  }

  // kColumns columns, and as many 32, 64 and 96 further, of up to 4 bands, and kColumns times 16 bytes of a tile.
  template <bool kAll>
  HWY_INLINE void cube(Compact compact, std::int64_t bands, Tiled tile) const {
    kWide == 64 ? quarters<kAll, Most>(compact, bands, tile) : halves<kAll, Most>(compact, bands, tile);
  }

  // A vector has 16 columns of each quarter.
  template <bool kAll, class Tag>
  HWY_INLINE void quarters(Compact compact, std::int64_t bands, Tiled tile) const {
    if constexpr (kWide == sizeof(hn::Vec<Tag>) && kWide == 64) {
      alignas(64) static constexpr std::uint32_t kOrder[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
      const Tag words;
      const auto order = hn::SetTableIndices(words, kOrder);
      hn::Vec<Tag> v[4];
      if constexpr (kToTiles) {
        for (std::int64_t b = 0; b < 4; ++b) {
          v[b] = kAll || b < bands ? from_quarters(words, compact + b * stride_) : hn::Set(words, pad_ * 0x01010101U);
        }
        Transpose(v[0], v[1], v[2], v[3]);
        for (std::int64_t k = 0; k < 4; ++k) store(hn::TableLookupLanes(TransposeBytes(v[k]), order), tile + 64 * k);
      } else {
        for (std::int64_t k = 0; k < 4; ++k) {
          v[k] = TransposeBytes(hn::TableLookupLanes(load(words, tile + 64 * k), order));
        }
        Transpose(v[0], v[1], v[2], v[3]);
        for (std::int64_t b = 0; b < 4; ++b) {
          if (kAll || b < bands) to_quarters(words, v[b], compact + b * stride_);
        }
      }
    }
  }

  template <class Tag>
  static HWY_INLINE hn::Vec<Tag> from_quarters(Tag words, const std::uint8_t* from) {
    const hn::Half<Tag> half;
    const hn::Half<hn::Half<Tag>> quarter;
    return hn::Combine(words, hn::Combine(half, load(quarter, from + 96), load(quarter, from + 64)),
                       hn::Combine(half, load(quarter, from + 32), load(quarter, from)));
  }
  template <class Tag>
  static HWY_INLINE void to_quarters(Tag, hn::Vec<Tag> v, std::uint8_t* to) {
    const hn::Half<Tag> half;
    const hn::Half<hn::Half<Tag>> quarter;
    const auto low = hn::LowerHalf(half, v);
    const auto high = hn::UpperHalf(half, v);
    store(hn::LowerHalf(quarter, low), to), store(hn::UpperHalf(quarter, low), to + 32);
    store(hn::LowerHalf(quarter, high), to + 64), store(hn::UpperHalf(quarter, high), to + 96);
  }

  // A vector has kWide columns of one quarter.
  template <bool kAll, class Tag>
  HWY_INLINE void halves(Compact compact, std::int64_t bands, Tiled tile) const {
    const auto exists = [&](std::int64_t band) { return kAll || band < bands; };
    const Tag words;
    Wide v[4][4];
    if constexpr (kToTiles) {
      for (std::int64_t q = 0; q < 4; ++q) {
        for (std::int64_t b = 0; b < 4; ++b) {
          v[q][b] = load(words, compact + (exists(b) ? b * stride_ : 0) + 32 * q, exists(b));
        }
        Transpose(v[q][0], v[q][1], v[q][2], v[q][3]);
        for (Wide& of : v[q]) of = TransposeBytes(of);
      }
      for (std::int64_t k = 0; k < 4; ++k) {
        Transpose(v[0][k], v[1][k], v[2][k], v[3][k]);
        for (std::int64_t i = 0; i < 4; ++i) put(v[i][k], tile + (4 * k + i) * 16);
      }
    } else {
      for (std::int64_t k = 0; k < 4; ++k) {
        for (std::int64_t i = 0; i < 4; ++i) v[i][k] = get(tile + (4 * k + i) * 16);
        Transpose(v[0][k], v[1][k], v[2][k], v[3][k]);
      }
      for (std::int64_t q = 0; q < 4; ++q) {
        for (Wide& of : v[q]) of = TransposeBytes(of);
        Transpose(v[q][0], v[q][1], v[q][2], v[q][3]);
        for (std::int64_t b = 0; b < 4; ++b) {
          if (exists(b)) store(v[q][b], compact + b * stride_ + 32 * q);
        }
      }
    }
  }

  // 16 bytes of a column, and of the one 16 further where vectors are wide.
  static HWY_INLINE void put(Wide v, std::uint8_t* tile) {
    if constexpr (kWide == 32) {
      const hn::Half<Most> half;
      store(hn::LowerHalf(half, v), tile);
      store(hn::UpperHalf(half, v), tile + 256);
    } else {
      store(v, tile);
    }
  }
  static HWY_INLINE Wide get(const std::uint8_t* tile) {
    if constexpr (kWide == 32) {
      const hn::Half<Most> half;
      return hn::Combine(Most(), load(half, tile + 256), load(half, tile));
    } else {
      return load(Most(), tile);
    }
  }

  Compact compact_;
  std::int64_t stride_;
  Tiled tiles_;
  std::uint32_t pad_;
};

// The bands from `band` on that fill tiles. Returns the columns that it has moved.
template <bool kToTiles>
std::int64_t MoveTiles(const ScaleLayoutJob& job, const Band& band, std::int64_t bands) {
  const ScaleMap& tiled = kToTiles ? *job.to : *job.from;
  const auto at_in = job.in + job.from->first_byte(band);
  const auto at_out = job.out + job.to->first_byte(band);
  const std::int64_t cols = tiled.scale_cols();
  const auto move = [&](const Tiles<kToTiles>& tiles) {
    return tiled.row_blocks() ? tiles.rows(bands, cols) : tiles.columns(bands, cols, tiled.tile_row_bytes(band));
  };
  if constexpr (kToTiles) {
    return move({at_in, cols, at_out, job.pad});
  } else {
    return move({at_out, cols, at_in, job.pad});
  }
}

#endif

void ChangeLayout(const ScaleLayoutJob& job, std::int64_t begin, std::int64_t end) {
  if (begin == end) return;
  Band band = job.to->band(begin);
  for (std::int64_t i = begin; i < end;) {
    std::int64_t moved = 0;
    std::int64_t bands = 1;
#if HWY_TARGET != HWY_SCALAR
    // Tiles that another part shares are left out: the padding of missing bands is written with them.
    const ScaleMap& tiled = job.to_tiles ? *job.to : *job.from;
    const std::int64_t whole = tiled.bands_of_tiles(band);
    if (whole > 0 && i + whole <= end) {
      bands = whole;
      moved = (job.to_tiles ? MoveTiles<true> : MoveTiles<false>)(job, band, bands);
    }
#endif
    if (moved == job.to->scale_cols()) {
      i += bands;
      if (i < end) band = job.to->band(i);
      continue;
    }
    for (std::int64_t b = 0; b < bands; ++b, ++i) {
      MoveBand(job, band, moved);
      if (i + 1 < end) band = job.to->next(band);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mxcheck_kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mxcheck_kernels::cpu {

HWY_EXPORT(ChangeLayout);

void change_layout(const ScaleLayoutJob& job, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(ChangeLayout)(job, begin, end);
}

}  // namespace mxcheck_kernels::cpu
#endif
