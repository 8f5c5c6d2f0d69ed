#pragma once
// Where a tile of 128 x 128 elements lies in shared memory while both its directions are quantized, such that no two
// lanes of a warp meet in a bank: of x for the columns to be read, or of the rows' codes where they hold for both.
//
// In either direction thread t of 256 has block t % 8 of the four rows (or columns) from t / 8 * 4 on; a block is 16
// elements. Compiled for the host too, for tests.

#include <cstdint>

#ifdef __CUDACC__
  #define MXCHECK_PLACES_BOTH __host__ __device__
#else
  #define MXCHECK_PLACES_BOTH
#endif

namespace mxcheck_kernels::sm90 {

inline constexpr int kThreads = 256;
inline constexpr int kElements = 16;     // of a thread, in a row
inline constexpr int kRowsOfThread = 4;  // one below the other

inline constexpr int kSide = 128;                      // of the tile, in elements
inline constexpr int kSideBlocks = kSide / kElements;  // threads side by side
inline constexpr int kTileCodeBytes = kSide * kSide / 2;

static_assert(kThreads == kSideBlocks * kSide / kRowsOfThread);

// Elements of a row in pieces of 16 bytes. kBytes: of an element.
template <int kBytes>
inline constexpr int kRowPieces = kSide / 16 * kBytes;

// In pieces. Eight lanes write pieces a block apart in one row, and eight read one piece of eight blocks of rows.
template <int kBytes>
MXCHECK_PLACES_BOTH constexpr int place_of_piece(int row, int piece) {
  return row * kRowPieces<kBytes> + (piece ^ (piece / 8) ^ (row / kElements));
}

// Codes of a column in one block of rows, in units of eight bytes. Eight lanes write one column each, a block apart; 16
// read two columns, four apart, of eight blocks of rows.
MXCHECK_PLACES_BOTH constexpr int place_of_column(int column, int block) {
  return (column ^ (column >> 2 & 1)) * kSideBlocks + (block ^ (column / kElements));
}

}  // namespace mxcheck_kernels::sm90
