#pragma once
// Memory for the rows of one thread, taken before any output is written: row functions do not throw.

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "hwy/aligned_allocator.h"

namespace mxcheck_kernels::cpu {

inline constexpr std::int64_t kRowGranule = 128;  // rows are worked on in whole multiples of vectors
inline constexpr std::int64_t kScoreTokens = 16;  // tokens whose scores go out together, a cache line an expert

struct RowSpace {
  RowSpace(std::int64_t experts, bool tile)
      : row((experts + kRowGranule - 1) / kRowGranule * kRowGranule + kRowGranule),
        memory_(hwy::AllocateAligned<float>(static_cast<std::size_t>(row * (14 + (tile ? kScoreTokens : 0))))) {
    if (memory_ == nullptr) throw std::bad_alloc();
    float* next = memory_.get();
    const auto take = [&](std::int64_t rows) { return (next += rows * row) - rows * row; };
    x = take(1);
    score = take(1);
    value = take(1);
    sum = take(1);
    kept = take(1);
    key = reinterpret_cast<std::int32_t*>(take(1));
    other_key = reinterpret_cast<std::int32_t*>(take(1));
    candidate_key = reinterpret_cast<std::int32_t*>(take(1));
    candidate_place = reinterpret_cast<std::int32_t*>(take(1));
    group_key = reinterpret_cast<std::int32_t*>(take(1));
    group = reinterpret_cast<std::int32_t*>(take(1));
    found = reinterpret_cast<std::int32_t*>(take(1));
    candidates = reinterpret_cast<std::int64_t*>(take(2));
    if (tile) scores = take(kScoreTokens);
  }

  std::int64_t row;  // elements of each
  float* x = nullptr;
  float* score = nullptr;
  float* value = nullptr;  // the keys as numbers
  float* sum = nullptr;
  float* kept = nullptr;
  std::int32_t* key = nullptr;  // the keys in their order, as integers
  std::int32_t* other_key = nullptr;
  std::int32_t* candidate_key = nullptr;
  std::int32_t* candidate_place = nullptr;
  std::int32_t* group_key = nullptr;
  std::int32_t* group = nullptr;
  std::int32_t* found = nullptr;
  std::int64_t* candidates = nullptr;
  float* scores = nullptr;  // [experts][kScoreTokens]

 private:
  hwy::AlignedFreeUniquePtr<float[]> memory_;
};

// One workspace per worker thread.
inline std::vector<RowSpace> row_spaces(std::int64_t parts, std::int64_t experts, bool tile) {
  std::vector<RowSpace> spaces;
  spaces.reserve(static_cast<std::size_t>(parts));
  for (std::int64_t i = 0; i < parts; ++i) spaces.emplace_back(experts, tile);
  return spaces;
}

}  // namespace mxcheck_kernels::cpu
