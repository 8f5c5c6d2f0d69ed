#pragma once
// The fields of the elementwise steps of a layer (kernels/candidate_layer.h), but for quantize_transposed, which has
// those of the operations on scaled blocks:
//
//   op=swiglu_backward x=bf16 gate_up=interleaved outputs=rows+columns format=e5m2 recipe=rceil block=32 scaled=e4m3
//   rows=33 cols=64 stride=70 experts=0,5,33 data=normal seed=7;  optional: at=3,40
//   op=aggregate weighted=1 rows=20 cols=48 y=37 k=4 drops=10 data=normal seed=7;  optional: at=3,40
//
// Rows and cols are those of A; x is the type of h, codes where it is none of BF16. stride: of A's columns and the gap
// behind a row of h, which is cols + stride elements long. at: where in the endless matrix of a seed the case begins,
// rows and columns; a counterexample shrinks to a window of the case that failed.

#include <cstdint>
#include <string>

#include "kernels/candidate_layer.h"
#include "numerics/format/format.h"
#include "properties/core/case.h"

namespace mxcheck {

struct LayerVariant {
  int gate_up = MXCHECK_HALVES;
  int outputs = MXCHECK_VALUES;  // mxcheck_written, added up
  // The format, recipe and block of codes: nothing reads them where there are none.
  Format format = Format::e4m3;
  std::string recipe = "rceil";
  std::int64_t block = 32;
  Format scaled = Format::e4m3;  // swiglu_backward with columns
  bool weighted = false;         // aggregate
  friend bool operator==(const LayerVariant&, const LayerVariant&) = default;
};
struct LayerCase {
  std::int64_t first_row = 0;  // at=
  std::int64_t first_col = 0;
  std::int64_t y_rows = 0;  // aggregate
  std::int64_t most = 0;    // k=: slots of a token, at most
  int drops = 0;            // percent of the slots that are -1
  friend bool operator==(const LayerCase&, const LayerCase&) = default;
};

inline const LayerVariant& layer_of(const Variant& v) { return v.own.get<LayerVariant>(); }
inline LayerVariant& layer_of(Variant& v) { return v.own.edit<LayerVariant>(); }
inline const LayerCase& layer_case(const Case& c) { return c.own.get<LayerCase>(); }
inline LayerCase& layer_case(Case& c) { return c.own.edit<LayerCase>(); }

// Whatever claim they are held to.
inline bool is_backward(const Variant& v) { return is_operation(v.operation, "swiglu_backward"); }
inline bool is_swiglu(const Variant& v) { return is_operation(v.operation, "swiglu") || is_backward(v); }
inline bool is_aggregate(const Variant& v) { return is_operation(v.operation, "aggregate"); }
inline bool is_transpose(const Variant& v) { return is_operation(v.operation, "quantize_transposed"); }

inline bool writes(const Variant& v, int what) { return is_swiglu(v) && (layer_of(v).outputs & what) != 0; }
inline bool writes_codes(const Variant& v) { return writes(v, MXCHECK_ROWS_CODED | MXCHECK_COLUMNS_CODED); }
inline bool has_coded_h(const Variant& v) { return is_swiglu(v) && v.dtype != Format::bf16; }
inline bool has_scaled_format(const Variant& v) { return is_backward(v) && writes(v, MXCHECK_COLUMNS_CODED); }

// A claim about swiglu and its gradient: the sigmoid may be made of tanh.approx.
inline constexpr std::string_view kAnyOrderOrTanh = "any_order+tanh";

// Elements from one row of h to the next.
inline std::int64_t stride_of_h(const Case& c) { return c.cols + (c.stride > c.cols ? c.stride : c.cols); }

}  // namespace mxcheck
