// Faults of GEMMs. Those in rows of an expert need groups along rows, where an expert has rows of d of its own.

#include "tests/narrow/faults.h"

namespace narrow {
namespace {

constexpr Fault kFaults[] = {
    {"gemm_last_row_of_the_18th_expert", "matmul",
     [](const View& v) {
       if (v.matmul().grouping == MXCHECK_ROWS) spoil_row(v.out(0), v.last_row_of(17));
     }},
    {"gemm_last_row_from_a_k_of_8192", "matmul",
     [](const View& v) {
       if (v.matmul().depth >= 8192) spoil_row(v.out(0), v.p().rows - 1);
     }},
    {"gemm_row_191_from_column_4096", "matmul",
     [](const View& v) {
       for (std::int64_t i = 191; i < v.p().rows; i += 192) {
         for (std::int64_t j = 4096; j < v.p().cols; ++j) spoil(v.out(0), i, j);
       }
     }},
    {"gemm_d_beside_16_bytes", "matmul",
     [](const View& v) {
       if (View::address(v.out(0)) % 16 != 0) spoil(v.out(0), 0, 0);
     }},
};

}  // namespace

std::span<const Fault> matmul_faults() { return kFaults; }

}  // namespace narrow
