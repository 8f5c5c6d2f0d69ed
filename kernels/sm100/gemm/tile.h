#pragma once
// The tile that a CTA, or a pair of CTAs, computes, and where its parts lie in shared and tensor memory.
//
// A pair (kCtaGroup 2) computes 256 rows: each CTA loads its 128 rows of A, half of B's rows, its own scales of A and
// all of B's (PTX ISA 9.0, 9.7.16: scales of B are read from both CTAs). Budgets: 232,448 bytes of shared memory and
// 512 columns a CTA.

#include <cstdint>

#include "kernels/sm100/tcgen05/descriptor.h"

namespace mxcheck::sm100::gemm {

inline constexpr int kTileK = 128;       // bytes of a row: one span of the 128-byte swizzle
inline constexpr int kStepK = 32;        // of one mma
inline constexpr int kChunkBytes = 512;  // 128 x 4 scales
inline constexpr int kThreads = 192;     // warp 0 loads, warp 1 multiplies, warps 2 to 5 write

// scaled    MXFP8: codes and E8M0 scales of 32, kind::mxf8f6f4
// half      BF16, kind::f16
// promoted  FP8, kind::f8f6f4: every 128 of k into an accumulator of its own, which the epilogue's threads take out,
// scale by FP32
//           scales of 1x128 and 128x128 (or 1x128) blocks, and add up
// nvfp4     E2M1 codes, two a byte, and E4M3 scales of 16, kind::mxf4nvf4.block16
enum class Operands : std::uint8_t { scaled, half, promoted, nvfp4 };

// How operands lie in memory and in tensor memory.
struct Encoding {
  int bits;         // of an element
  int block;        // of k that share a scale in tensor memory; 0: none do
  int chunk_depth;  // of k that a chunk of 128 x 4 scales covers; of promoted the block of k
};
MXCHECK_SM100_ANYWHERE constexpr Encoding encoding_of(Operands operands) {
  switch (operands) {
    case Operands::scaled: return {8, 32, 128};
    case Operands::half: return {16, 0, 128};
    case Operands::nvfp4: return {4, 16, 64};
    case Operands::promoted: break;
  }
  return {8, 0, 128};
}

template <Operands kOperands_, int kCtaGroup_, int kN_, int kStages_>
struct BasicTile {
  static constexpr Operands kOperands = kOperands_;
  static constexpr Encoding kEncoding = encoding_of(kOperands);
  static constexpr bool kScaled = kEncoding.block != 0;
  static constexpr bool kPromoted = kOperands == Operands::promoted;
  static constexpr bool kFp4 = kEncoding.bits == 4;
  static constexpr int kDepth = kTileK * 8 / kEncoding.bits;  // elements of k in a stage
  static constexpr int kStep = kStepK * 8 / kEncoding.bits;   // of k in an mma
  static constexpr int kCtaGroup = kCtaGroup_;
  static constexpr int kRows = 128;  // of a CTA
  static constexpr int kM = kCtaGroup * kRows;
  static constexpr int kN = kN_;
  static constexpr int kStages = kStages_;
  static constexpr int kRowsB = kN / kCtaGroup;  // that a CTA loads
  // Scales of B come in chunks of 128 rows. Tiles of 64 and 192 begin in the middle of one every second time.
  static constexpr int kChunksB = kScaled ? (kN + 127) / 128 : 0;
  static constexpr int kChunksA = kScaled ? 1 : 0;
  // Chunks along k of a stage: a word has the scales of all four mma of MXFP8, and of one of NVFP4.
  static constexpr int kChunkDepth = kEncoding.chunk_depth;
  static constexpr int kChunksK = kScaled ? kDepth / kChunkDepth : 0;
  static constexpr int kStepsOfAChunk = kChunkDepth / kStep;
  static constexpr unsigned kScaleBytes = kChunkBytes * kChunksK;  // of 128 rows

  static constexpr unsigned kBytesA = kRows * kTileK;
  static constexpr unsigned kBytesB = kRowsB * kTileK;
  static constexpr unsigned kStageBytes = kBytesA + kBytesB + kScaleBytes * (kChunksA + kChunksB);

  static constexpr unsigned kA = 0;
  static constexpr unsigned kB = kA + kStages * kBytesA;
  static constexpr unsigned kScalesA = kB + kStages * kBytesB;
  static constexpr unsigned kScalesB = kScalesA + kStages * kScaleBytes * kChunksA;
  static constexpr unsigned kFull = kScalesB + kStages * kScaleBytes * kChunksB;
  static constexpr unsigned kEmpty = kFull + 8 * kStages;
  static constexpr unsigned kAccumulated = kEmpty + 8 * kStages;
  // Two accumulators, so that one is written out while the next tile is multiplied; 256 columns leave room for one.
  static constexpr int kAccumulators = kN <= 192 ? 2 : 1;
  static constexpr unsigned kDrained = kAccumulated + 8 * kAccumulators;
  static constexpr unsigned kSlot = kDrained + 8 * kAccumulators;
  static constexpr unsigned kSharedBytes = kSlot + 16;

  // Columns of tensor memory: accumulators, then a slot of scales for each stage. A slot is written again only after
  // the commit that frees its stage, so that no cp meets an mma that still reads.
  static constexpr unsigned kChunkColumns = 4 * (kChunksA + kChunksB);  // of a chunk along k: A's four, then B's
  static constexpr unsigned kSlotColumns = kChunkColumns * kChunksK;
  static constexpr unsigned kScaleColumn = kAccumulators * kN;
  static constexpr unsigned kColumns = 512;

  static_assert(kN % 64 == 0 && kN <= 256);
  static_assert(kBytesB % 1024 == 0, "swizzled tiles begin at multiples of 1024");
  static_assert(kSharedBytes <= 232448);
  static_assert(kScaleColumn + kStages * kSlotColumns <= kColumns);
};

// --- instances
//
// The tiles that there are kernels for: name, operands, CTAs, columns, stages, these as many as 232,448 bytes of shared
// memory hold, and 512 columns their scales. CMake reads the names here.

#define MXCHECK_SM100_TILES(X)              \
  X(Single64, scaled, 1, 64, 8)             \
  X(Single128, scaled, 1, 128, 6)           \
  X(Single192, scaled, 1, 192, 5)           \
  X(Single256, scaled, 1, 256, 4)           \
  X(Pair128, scaled, 2, 128, 8)             \
  X(Pair192, scaled, 2, 192, 7)             \
  X(Pair256, scaled, 2, 256, 6)             \
  X(HalfSingle128, half, 1, 128, 6)         \
  X(HalfPair256, half, 2, 256, 6)           \
  X(PromotedSingle128, promoted, 1, 128, 6) \
  X(PromotedPair128, promoted, 2, 128, 8)   \
  X(Nvfp4Single64, nvfp4, 1, 64, 8)         \
  X(Nvfp4Single128, nvfp4, 1, 128, 6)       \
  X(Nvfp4Pair256, nvfp4, 2, 256, 5)

// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are names and literals of the table above.
#define MXCHECK_SM100_TILE(NAME, OPERANDS, CTAS, COLUMNS, STAGES) \
  using NAME = BasicTile<Operands::OPERANDS, CTAS, COLUMNS, STAGES>;
MXCHECK_SM100_TILES(MXCHECK_SM100_TILE)
#undef MXCHECK_SM100_TILE

// Calls f<T>() for that tile; false where there is none.
template <class F>
bool with_tile(Operands operands, int cta_group, int n, const F& f) {
#define MXCHECK_SM100_TILE(NAME, OPERANDS, CTAS, COLUMNS, STAGES)            \
  if (operands == Operands::OPERANDS && cta_group == CTAS && n == COLUMNS) { \
    return f.template operator()<NAME>(), true;                              \
  }
  MXCHECK_SM100_TILES(MXCHECK_SM100_TILE)
#undef MXCHECK_SM100_TILE
  // NOLINTEND(bugprone-macro-parentheses)
  return false;
}

}  // namespace mxcheck::sm100::gemm
