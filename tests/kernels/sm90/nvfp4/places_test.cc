// The tile of both directions of NVFP4 in shared memory: every place once, and lanes that go together in banks of their
// own. 32 banks of four bytes serve a quarter of a warp with 16 bytes a lane, or half of one with eight.

#include <gtest/gtest.h>

#include <set>

#include "kernels/sm90/nvfp4/places.cuh"

namespace mxcheck_kernels::sm90 {
namespace {

constexpr int kPiecesOfBanks = 8;  // of 16 bytes

template <int kBytes>
void expect_every_piece_once() {
  std::set<int> places;
  for (int row = 0; row < kSide; ++row) {
    for (int piece = 0; piece < kRowPieces<kBytes>; ++piece) places.insert(place_of_piece<kBytes>(row, piece));
  }
  EXPECT_EQ(*places.begin(), 0);
  EXPECT_EQ(*places.rbegin(), kSide * kRowPieces<kBytes> - 1);
  EXPECT_EQ(static_cast<int>(places.size()), kSide * kRowPieces<kBytes>);
}

TEST(Sm90Nvfp4Places, every_piece_has_a_place) {
  expect_every_piece_once<2>();
  expect_every_piece_once<4>();
}

template <int kBytes>
void expect_writes_in_banks_of_their_own() {
  for (int first = 0; first < kThreads; first += kSideBlocks) {
    const int row = first / kSideBlocks * kRowsOfThread;
    for (int piece = 0; piece < kBytes; ++piece) {
      std::set<int> banks;
      for (int lane = 0; lane < kSideBlocks; ++lane) {
        banks.insert(place_of_piece<kBytes>(row, lane * kBytes + piece) % kPiecesOfBanks);
      }
      EXPECT_EQ(banks.size(), 8U) << "row " << row << ", piece " << piece << " of each lane";
    }
  }
}

TEST(Sm90Nvfp4Places, eight_lanes_write_a_row) {
  expect_writes_in_banks_of_their_own<2>();
  expect_writes_in_banks_of_their_own<4>();
}

TEST(Sm90Nvfp4Places, eight_lanes_read_a_piece_of_eight_blocks_of_rows) {
  for (int row = 0; row < kElements; ++row) {
    for (int piece = 0; piece < kRowPieces<4>; ++piece) {
      std::set<int> of_bf16;
      std::set<int> of_fp32;
      for (int block = 0; block < kSideBlocks; ++block) {
        of_bf16.insert(place_of_piece<2>(block * kElements + row, piece % kRowPieces<2>) % kPiecesOfBanks);
        of_fp32.insert(place_of_piece<4>(block * kElements + row, piece) % kPiecesOfBanks);
      }
      EXPECT_EQ(of_bf16.size(), 8U) << row << " " << piece;
      EXPECT_EQ(of_fp32.size(), 8U) << row << " " << piece;
    }
  }
}

TEST(Sm90Nvfp4Places, every_column_has_a_place_in_each_block_of_rows) {
  std::set<int> places;
  for (int column = 0; column < kSide; ++column) {
    for (int block = 0; block < kSideBlocks; ++block) places.insert(place_of_column(column, block));
  }
  EXPECT_EQ(static_cast<int>(places.size()), kSide * kSideBlocks);
  EXPECT_EQ(*places.rbegin() * 8 + 8, kTileCodeBytes);
}

TEST(Sm90Nvfp4Places, lanes_write_and_read_columns_in_banks_of_their_own) {
  for (int block = 0; block < kSideBlocks; ++block) {
    for (int column = 0; column < kElements; ++column) {
      std::set<int> banks;
      for (int lane = 0; lane < kSideBlocks; ++lane) {
        banks.insert(place_of_column(lane * kElements + column, block) % 16);
      }
      EXPECT_EQ(banks.size(), 8U) << block << " " << column;
    }
  }
  for (int first = 0; first < kSide; first += 2 * kRowsOfThread) {
    for (int r = 0; r < kRowsOfThread; ++r) {
      std::set<int> banks;
      for (int lane = 0; lane < 2 * kSideBlocks; ++lane) {
        const int column = first + lane / kSideBlocks * kRowsOfThread + r;
        banks.insert(place_of_column(column, lane % kSideBlocks) % 16);
      }
      EXPECT_EQ(banks.size(), 16U) << first << " " << r;
    }
  }
}

}  // namespace
}  // namespace mxcheck_kernels::sm90
