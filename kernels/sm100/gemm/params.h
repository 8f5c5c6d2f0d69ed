#pragma once
// The parameters of a GEMM's launch. D = round(RN(alpha * A B^T) + C), groups as kernels/candidate_matmul.h has them.

#include <cstdint>
#include <string>

#include "kernels/sm100/gemm/tile.h"
#include "kernels/sm100/tcgen05/descriptor.h"
#include "kernels/sm100/tcgen05/tensor_map.h"

namespace mxcheck::sm100::gemm {

enum class Grouping : std::uint8_t { dense, rows, depth };

struct Params {
  TensorMap a;  // [m, k] codes or values (FP4: [m, k / 2] bytes), boxes of 128 x 128 bytes, swizzled by 128; with
                // gathered_rows [rows of A, k] and boxes of a row
  TensorMap b;  // [n or experts * n, k], boxes of Tile::kRowsB rows
  TensorMap scales_a;  // [chunks, 128] words: 128 x 4 chunks, along k first (pack.h), boxes of Tile::kChunksK chunks
  TensorMap scales_b;
  InstructionDescriptor instruction;
  const std::int32_t* gathered_rows;  // m: row r of the product is row gathered_rows[r] of A; null: row r. Not of
                                      // groups along depth. Scales of A lie in the product's order all the same
  const float* factors_a;  // of Operands::promoted: [m, blocks], a block 128 of k; groups along depth: each its own,
                           // one after the other; with gathered_rows [rows of A, blocks], by the rows of A
  const float* factors_b;  // [ceil(n / block_b), blocks]; groups along rows: of each expert
  std::int64_t block_b;    // 128 or 1
  void* d;
  const void* c;  // or null; of d's type and shape
  bool bf16;      // d and c; FP32 otherwise
  float alpha;
  std::int64_t m, n, k;
  std::int64_t chunks_k;        // chunks of Tile::kChunkDepth along k, of all groups
  std::int64_t groups;          // 1 where dense
  const std::int64_t* offsets;  // groups + 1; ascending from 0 to m or k. Groups along depth: all but the last extent
                                // are whole mma: multiples of 32, of 64 where FP4
};

// --- the host's part
//
// A GEMM as the host sees it, and the parameters of a launch made of it; the same with CUDA and without.

struct Problem {
  Operands operands = Operands::scaled;
  const void* a = nullptr;  // [m, k] codes, of nvfp4 two a byte, BF16 of Operands::half; with gathered_rows [rows_a, k]
  const void* b = nullptr;  // [n, k]; groups along rows: [groups * n, k]
  bool e5m2_a = false;      // E4M3 otherwise
  bool e5m2_b = false;
  const std::int32_t* gathered_rows = nullptr;  // m rows of A, of 0 to rows_a - 1: params.h; null: rows 0 to m - 1
  std::int64_t rows_a = 0;                      // of A's tensor where rows are gathered, and m otherwise
  const void* scales_a = nullptr;               // 128 x 4 chunks, as pack.h writes them: rows of the product, not of A
  const void* scales_b = nullptr;
  std::int64_t chunks_a = 0;  // how many there are
  std::int64_t chunks_b = 0;
  std::int64_t chunks_k = 0;         // along k, of all groups
  const float* factors_a = nullptr;  // of Operands::promoted, in place of them: params.h
  const float* factors_b = nullptr;
  std::int64_t block_b = 128;
  void* d = nullptr;
  const void* c = nullptr;
  bool bf16 = false;
  float alpha = 1;
  std::int64_t m = 0, n = 0, k = 0;
  Grouping grouping = Grouping::dense;
  std::int64_t groups = 1;
  const std::int64_t* offsets = nullptr;
};

namespace host_detail {

template <class T, ByteFormat kA, ByteFormat kB>
constexpr InstructionDescriptor instruction() {
  if constexpr (T::kFp4) {
    return instruction_descriptor<Fp4Instruction{.m = T::kM, .n = T::kN, .cta_group = T::kCtaGroup}>();
  } else if constexpr (T::kScaled) {
    return instruction_descriptor<ScaledInstruction{
        .m = T::kM, .n = T::kN, .cta_group = T::kCtaGroup, .a = kA, .b = kB}>();
  } else if constexpr (T::kPromoted) {
    return instruction_descriptor<ByteInstruction{
        .m = T::kM, .n = T::kN, .cta_group = T::kCtaGroup, .a = kA, .b = kB}>();
  } else {
    return instruction_descriptor<HalfInstruction{.m = T::kM, .n = T::kN, .cta_group = T::kCtaGroup}>();
  }
}

// Rows of codes or values, as boxes of `box_rows` x 128 bytes. A map of FP4 is one of bytes.
inline std::string codes_map(const void* base, int bits, std::int64_t rows, std::int64_t k, int box_rows,
                             TensorMap& map) {
  if (bits == 4 && k % 2 != 0) return "rows of FP4 are whole bytes: k is " + std::to_string(k) + ", and must be even";
  const int element_bytes = bits == 16 ? 2 : 1;
  if (bits == 4) k /= 2;
  TensorMapDescription d;
  d.base = const_cast<void*>(base);
  d.element_bytes = element_bytes;
  d.extent[0] = static_cast<std::uint64_t>(k);
  d.extent[1] = static_cast<std::uint64_t>(rows);
  d.stride[0] = static_cast<std::uint64_t>(element_bytes);
  d.stride[1] = static_cast<std::uint64_t>(k * element_bytes);
  d.box[0] = static_cast<std::uint32_t>(kTileK / element_bytes);
  d.box[1] = static_cast<std::uint32_t>(box_rows);
  d.swizzle = Swizzle::b128;
  return encode(d, map);
}

// A chunk is a row of 128 words; a box has those of a stage.
inline std::string scales_map(const void* base, std::int64_t chunks, int box_chunks, TensorMap& map) {
  TensorMapDescription d;
  d.base = const_cast<void*>(base);
  d.element_bytes = 4;
  d.extent[0] = kChunkBytes / 4;
  d.extent[1] = static_cast<std::uint64_t>(chunks);
  d.stride[0] = 4;
  d.stride[1] = kChunkBytes;
  d.box[0] = kChunkBytes / 4;
  d.box[1] = static_cast<std::uint32_t>(box_chunks);
  return encode(d, map);
}

}  // namespace host_detail

// Empty where `params` were made, otherwise what stands in the way.
template <class T>
std::string make_params(const Problem& g, Params& params) {
  using E = ByteFormat;
  const bool gathers = g.gathered_rows != nullptr;
  if (gathers && g.grouping == Grouping::depth) return "rows of A are not gathered of groups along depth";
  const std::int64_t rows_a = gathers ? g.rows_a : g.m;
  const std::int64_t rows_b = g.grouping == Grouping::rows ? g.groups * g.n : g.n;
  const int box_a = gathers ? 1 : T::kRows;
  std::string error = host_detail::codes_map(g.a, T::kEncoding.bits, rows_a, g.k, box_a, params.a);
  if (error.empty()) error = host_detail::codes_map(g.b, T::kEncoding.bits, rows_b, g.k, T::kRowsB, params.b);
  if (error.empty() && T::kScaled)
    error = host_detail::scales_map(g.scales_a, g.chunks_a, T::kChunksK, params.scales_a);
  if (error.empty() && T::kScaled)
    error = host_detail::scales_map(g.scales_b, g.chunks_b, T::kChunksK, params.scales_b);
  if (!error.empty()) return error;
  if (g.e5m2_a) {
    params.instruction =
        g.e5m2_b ? host_detail::instruction<T, E::e5m2, E::e5m2>() : host_detail::instruction<T, E::e5m2, E::e4m3>();
  } else {
    params.instruction =
        g.e5m2_b ? host_detail::instruction<T, E::e4m3, E::e5m2>() : host_detail::instruction<T, E::e4m3, E::e4m3>();
  }
  params.gathered_rows = g.gathered_rows;
  params.factors_a = g.factors_a;
  params.factors_b = g.factors_b;
  params.block_b = g.block_b;
  params.d = g.d;
  params.c = g.c;
  params.bf16 = g.bf16;
  params.alpha = g.alpha;
  params.m = g.m;
  params.n = g.n;
  params.k = g.k;
  params.chunks_k = g.chunks_k;
  params.groups = g.groups;
  params.offsets = g.offsets;
  return {};
}

}  // namespace mxcheck::sm100::gemm
