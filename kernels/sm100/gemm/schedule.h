#pragma once
// Which tile comes when: every CTA or pair takes each `units`-th tile, group by group, so that an expert's weights are
// read by neighbours in time; within a group in bands of 8 tiles of rows, columns outermost, so that a band's rows of A
// stay in L2.
//
// Every role of a CTA walks the same list by itself.

#include <cstdint>

#include "kernels/sm100/gemm/params.h"

namespace mxcheck::sm100::gemm {

struct Work {
  std::int64_t row = 0;     // first, of A
  std::int64_t rows = 0;    // that are left in the group: those of D that are written
  std::int64_t column = 0;  // first, of D
  std::int64_t row_b = 0;   // first, of B
  std::int64_t row_d = 0;   // first, of D
  std::int64_t k = 0;       // first
  std::int64_t depth = 0;
  std::int64_t chunk_a = 0;  // of 128 rows: first, of the scales of A
  std::int64_t chunk_b = 0;
  std::int64_t chunk_k = 0;  // of 4 blocks: first
};

template <Grouping kGrouping, int kM, int kN>
class Schedule {
 public:
  MXCHECK_SM100_DEVICE Schedule(const Params& p, std::int64_t unit, std::int64_t units)
      : p_(p), next_(unit), units_(units) {
    enter();
  }

  // The next tile of this unit, if there is one.
  MXCHECK_SM100_DEVICE bool next(Work& work) {
    while (next_ >= first_ + tiles()) {
      first_ += tiles();
      leave();
      if (++group_ == p_.groups) return false;
      enter();
    }
    const std::int64_t in_group = next_ - first_;
    const std::int64_t band = in_group / (kBand * columns_);
    const std::int64_t in_band = in_group % (kBand * columns_);
    const std::int64_t height = rows_ - band * kBand < kBand ? rows_ - band * kBand : kBand;
    const std::int64_t tile_m = band * kBand + in_band % height;
    const std::int64_t tile_n = in_band / height;
    next_ += units_;
    const bool by_depth = kGrouping == Grouping::depth;
    work.row = begin_ * (by_depth ? 0 : 1) + tile_m * kM;
    work.rows = extent_ - tile_m * kM;
    work.column = tile_n * kN;
    work.row_b = (kGrouping == Grouping::rows ? group_ * p_.n : 0) + work.column;
    work.row_d = (by_depth ? group_ * p_.m : begin_) + tile_m * kM;
    work.k = by_depth ? begin_ : 0;
    work.depth = depth_;
    work.chunk_a = chunk_m_ + tile_m * (kM / 128);
    work.chunk_b = (kGrouping == Grouping::rows ? group_ * ((p_.n + 127) / 128) : 0) + work.column / 128;
    work.chunk_k = chunk_k_;
    return true;
  }

 private:
  static constexpr std::int64_t kBand = 8;

  MXCHECK_SM100_DEVICE std::int64_t tiles() const { return rows_ * columns_; }

  MXCHECK_SM100_DEVICE void enter() {
    if constexpr (kGrouping != Grouping::dense) {
      begin_ = p_.offsets[group_];
      const std::int64_t length = p_.offsets[group_ + 1] - begin_;
      extent_ = kGrouping == Grouping::rows ? length : p_.m;
      depth_ = kGrouping == Grouping::depth ? length : p_.k;
    } else {
      extent_ = p_.m;
      depth_ = p_.k;
    }
    rows_ = (extent_ + kM - 1) / kM;
    columns_ = (p_.n + kN - 1) / kN;
  }
  MXCHECK_SM100_DEVICE void leave() {
    if constexpr (kGrouping == Grouping::rows) chunk_m_ += (extent_ + 127) / 128;
    if constexpr (kGrouping == Grouping::depth) chunk_k_ += (depth_ + 127) / 128;
  }

  const Params& p_;
  std::int64_t next_, units_;
  std::int64_t group_ = 0, first_ = 0;
  std::int64_t begin_ = 0, extent_ = 0, depth_ = 0;
  std::int64_t rows_ = 0, columns_ = 0;  // tiles of the group
  std::int64_t chunk_m_ = 0, chunk_k_ = 0;
};

}  // namespace mxcheck::sm100::gemm
