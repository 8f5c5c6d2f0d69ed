#pragma once
// SwiGLU and its gradient of an H that is kept in E5M6 (kernels/sm90/moe/moe_kernels.h, layer/steps/rows.cuh) and
// of the same H in BF16, on the device: outputs to compare bit by bit.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "kernels/sm90/layer/steps/steps.h"
#include "kernels/sm90/moe/moe_kernels.h"
#include "tests/kernels/sm90/moe/samples.h"

namespace mxcheck::test {

using namespace mxcheck_kernels::sm90;
using Words = std::vector<std::uint16_t>;
using Bytes = std::vector<std::uint8_t>;

inline DeviceCoding kept_coding() {
  return device_coding({mxcheck_kernels::Element::e4m3, mxcheck_kernels::CodeScale::rceil, 128});
}

inline HInput h_input(const void* data, const std::uint8_t* scales, std::int64_t n, bool interleaved) {
  HInput h;
  h.data = data, h.scales = scales, h.packed = scales != nullptr, h.stride = 2 * n, h.interleaved = interleaved;
  return h;
}

template <class T>
void expect_same(const Output<T>& right, const Output<T>& mine, std::int64_t cols, const std::string& what) {
  EXPECT_EQ(first_difference(right.read(), mine.read(), cols), "") << what;
}

// Codes of rows and their scales.
struct CodedRows {
  CodedRows(std::int64_t rows, std::int64_t cols) : cols(cols), codes(rows * cols), scales(rows * cols / 128) {}
  [[nodiscard]] RowCodes to() const { return {codes.data(), scales.data(), cols / 128, kept_coding()}; }
  void expect(const CodedRows& mine, const std::string& what) const {
    expect_same(codes, mine.codes, cols, what);
    expect_same(scales, mine.scales, cols / 128, what + ", scales");
  }
  std::int64_t cols;
  Output<std::uint8_t> codes;
  Output<std::uint8_t> scales;
};

// Codes along tokens, each expert's padded to whole bands of 128.
struct CodedColumns {
  CodedColumns(std::int64_t columns, std::int64_t bands)
      : bands(bands), codes(columns * bands * 128), scales(columns * bands) {}
  [[nodiscard]] ColumnCodes to() const {
    return {codes.data(), scales.data(), bands, kept_coding(), bands * 128, true};
  }
  void expect(const CodedColumns& mine, const std::string& what) const {
    expect_same(codes, mine.codes, bands * 128, what);
    expect_same(scales, mine.scales, bands, what + ", scales");
  }
  std::int64_t bands;
  Output<std::uint8_t> codes;
  Output<std::uint8_t> scales;
};

// The inputs of the gradient beside H: P and the weights of the rows.
struct Upstream {
  Upstream(std::int64_t rows, std::int64_t n) : p(floats(rows * n, 11)), weights(floats(rows, 12)) {}
  static std::vector<float> floats(std::int64_t count, std::uint64_t seed) {
    std::vector<float> x;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint64_t r = random_word(seed, static_cast<std::uint64_t>(i));
      x.push_back((static_cast<float>(r % 65536) - 32768.0F) * (r >> 60 == 0 ? 0x1p-40F : 0x1p-17F));
    }
    return x;
  }
  Input<float> p;
  Input<float> weights;
};

// The gradient by rows, with its values, or by tiles of experts' rows, with codes along tokens.
struct Gradient {
  Gradient(std::int64_t rows, std::int64_t n, std::int64_t bands)
      : rows(rows),
        n(n),
        a(rows * n),
        dh(rows * 2 * n),
        ds(rows),
        dh_rows(rows, 2 * n),
        a_columns(n, bands),
        dh_columns(2 * n, bands),
        sums(sums_bytes(rows, n, kTilePart)) {}

  [[nodiscard]] RowsJob job(const HInput& h, const Upstream& up) const {
    RowsJob j;
    j.h = h, j.rows = rows, j.n = n, j.p = up.p.data(), j.weights = up.weights.data();
    j.ds = ds.data(), j.sums = static_cast<float*>(sums.data()), j.row = dh_rows.to();
    return j;
  }
  void by_rows(const HInput& h, const Upstream& up) const {
    RowsJob j = job(h, up);
    j.a = a.data(), j.dh = dh.data();
    ASSERT_EQ(launch_backward_rows(j, true, nullptr), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  void by_tiles(const HInput& h, const Upstream& up, const TiledRows& tiles) const {
    const BackwardTilesJob j{job(h, up), tiles, a_columns.to(), dh_columns.to()};
    ASSERT_EQ(launch_backward_tiles(j, true, nullptr), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  void expect(const Gradient& mine, const std::string& what) const {
    expect_same(a, mine.a, n, what + ": A'");
    expect_same(dh, mine.dh, 2 * n, what + ": dH");
    expect_same(ds, mine.ds, 1, what + ": dS");
    dh_rows.expect(mine.dh_rows, what + ": codes of dH");
    a_columns.expect(mine.a_columns, what + ": codes of A' along tokens");
    dh_columns.expect(mine.dh_columns, what + ": codes of dH along tokens");
  }

  std::int64_t rows;
  std::int64_t n;
  Output<std::uint16_t> a;
  Output<std::uint16_t> dh;
  Output<float> ds;
  CodedRows dh_rows;
  CodedColumns a_columns;
  CodedColumns dh_columns;
  DeviceBytes sums;
};

}  // namespace mxcheck::test
