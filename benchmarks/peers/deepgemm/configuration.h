#pragma once
// Which tiles DeepGEMM (54e2261) takes for a GEMM on a Hopper card of 132 processors, by the rules of its own host
// code: candidates of block sizes and clusters, the stages that shared memory has room for, and the least cycles by a
// model of L1 and L2. DeepGEMM decides at run time and compiles then; here the compiler decides, for the shapes of
// shapes.h.
//
//   constexpr Configuration c = configuration_of({Kind::dense, 4096, 4096, 7168});

#include <algorithm>
#include <cstdint>
#include <limits>

namespace mxcheck_peers::deepgemm {

enum class Kind : std::uint8_t {
  dense,   // 1x128 by 128x128 to BF16
  rows,    // the same, groups of contiguous rows, each of a multiple of 128
  masked,  // the same, groups of a capacity
  sum,     // 1x128 by 1x128, FP32 D += C
  depth    // the same, groups along k
};

struct Shape {
  Kind kind = Kind::dense;
  int m = 0;  // masked: the capacity of a group
  int n = 0;
  int k = 0;  // depth: of all groups
  int groups = 1;
  int expected_rows = 0;  // masked: of a group

  friend constexpr bool operator==(const Shape&, const Shape&) = default;
};

constexpr int kProcessors = 132;

struct Configuration {
  int block_m = 0;
  int block_n = 0;
  int cluster_m = 1;
  int cluster_n = 1;  // above 1: A is multicast
  int stages = 0;
  int shared_bytes = 0;
  std::int64_t cycles = 0;  // expected, by the model

  [[nodiscard]] constexpr int cluster() const { return cluster_m * cluster_n; }
  [[nodiscard]] constexpr int math_threads() const { return block_m <= 64 ? 128 : 256; }
};

constexpr int kBlockK = 128;  // bytes of a swizzled row, columns of a scale's block
constexpr int kLoadThreads = 128;

constexpr bool accumulates(Kind kind) { return kind == Kind::sum || kind == Kind::depth; }
constexpr int output_bytes(Kind kind) { return accumulates(kind) ? 4 : 2; }

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr int rounded_up(std::int64_t a, std::int64_t b) { return static_cast<int>(ceil_div(a, b) * b); }

// Bytes of D's swizzle: the widest of which a row of the block is a multiple. FP32 is not swizzled.
constexpr int output_swizzle(Kind kind, int block_n) {
  if (accumulates(kind)) return 0;
  for (int bytes = 128; bytes > 16; bytes /= 2) {
    if (block_n * 2 % bytes == 0) return bytes;
  }
  return 16;
}

// Sets stages and shared_bytes.
constexpr void fill_shared(const Shape& s, Configuration& c) {
  constexpr int kCapacity = 232448;
  constexpr int kMostStages = 16;
  constexpr int kTensorMap = 128;
  int fixed = rounded_up(std::int64_t{c.block_m} * c.block_n * output_bytes(s.kind), 1024) + kMostStages * 8 * 2;
  int each = (c.block_m + c.block_n) * kBlockK + rounded_up(std::int64_t{c.block_m} * 4, 128);
  if (accumulates(s.kind)) {
    each += rounded_up(std::int64_t{c.block_n} * 4, 128);
  } else {
    const int lines = kBlockK % c.block_n == 0 ? 1 : 2;  // of B's scales that a block meets
    fixed += rounded_up(ceil_div(s.k, kBlockK) * 4 * lines, 8);
  }
  if (s.kind == Kind::depth) fixed += 4 * kTensorMap;
  c.stages = std::min((kCapacity - fixed) / each, kMostStages);
  c.shared_bytes = fixed + c.stages * each;
}

// Sets the cycles that the model expects.
constexpr void fill_cycles(const Shape& s, Configuration& c) {
  const bool groups_count = s.kind == Kind::masked || s.kind == Kind::depth;
  const std::int64_t rows = s.kind == Kind::masked ? s.expected_rows : s.m;
  const std::int64_t k = s.kind == Kind::depth ? s.k / s.groups : s.k;
  const std::int64_t blocks = ceil_div(rows, c.block_m) * ceil_div(s.n, c.block_n) * (groups_count ? s.groups : 1);
  const std::int64_t waves = ceil_div(blocks, kProcessors);
  if (c.cluster() > 1 && waves <= 1) {
    c.cycles = std::numeric_limits<std::int64_t>::max();
    return;
  }
  constexpr std::int64_t kL2Bytes = 6153;  // a cycle: 8 TB/s at 1.3 GHz
  constexpr std::int64_t kL1Bytes = 128 * kProcessors;
  const std::int64_t output = std::int64_t{c.block_m} * c.block_n * output_bytes(s.kind);
  const std::int64_t stored = output * (accumulates(s.kind) ? 2 : 1);
  const std::int64_t from_l2 = k * (c.block_m / c.cluster_n + c.block_n / c.cluster_m);
  const std::int64_t to_shared = k * (c.block_m + c.block_n);
  const std::int64_t to_cores = k * (std::max(64, c.block_m) + c.block_n) + output;
  const std::int64_t l2 = (from_l2 + stored) * blocks / kL2Bytes;
  const std::int64_t l1 = (to_shared + to_cores + stored) * blocks / kL1Bytes;
  const float efficiency = static_cast<float>(blocks) / static_cast<float>(waves * kProcessors);
  c.cycles = static_cast<std::int64_t>(static_cast<float>(std::max(l1, l2)) / efficiency);
}

// Rules of what runs at all, and runs well enough to be a candidate.
constexpr bool is_candidate(const Shape& s, const Configuration& c) {
  const int over = c.block_n - kBlockK;
  if (!accumulates(s.kind) && over > 0 && c.block_n % over != 0 && kBlockK % over != 0) return false;
  if (s.kind == Kind::masked && ceil_div(s.n, c.block_n) % c.cluster() != 0) return false;
  if (c.block_m > 128 && c.block_n > 128) return false;
  return c.stages >= 3 && (c.block_m * c.block_n >= 128 * 192 || c.stages >= 4);
}

constexpr bool takes_rows(const Shape& s, int block_m) {
  switch (block_m) {
    case 16:
    case 32: return (s.kind == Kind::dense || accumulates(s.kind)) && s.m <= block_m;
    case 64: return s.kind != Kind::rows;
    case 128: return true;
    default: return s.kind == Kind::dense;
  }
}

// The first of the candidates with the fewest cycles, in DeepGEMM's order.
constexpr Configuration configuration_of(const Shape& s) {
  constexpr int kRows[] = {64, 128, 16, 32, 256};
  const bool sums = accumulates(s.kind);
  const int most_cluster = s.kind == Kind::depth && s.groups > 4 ? 1 : 2;
  Configuration best;
  const auto consider = [&](int cluster_m, int cluster_n, int block_m, int block_n) {
    Configuration c{block_m, block_n, cluster_m, cluster_n};
    fill_shared(s, c);
    if (!is_candidate(s, c)) return;
    fill_cycles(s, c);
    if (best.block_m == 0 || c.cycles < best.cycles) best = c;
  };
  for (int cluster_m = 1; cluster_m <= most_cluster; ++cluster_m) {
    for (int cluster_n = 1; cluster_n <= most_cluster && cluster_m * cluster_n <= 2; ++cluster_n) {
      for (const int block_m : kRows) {
        if (!takes_rows(s, block_m)) continue;
        // Widths of FP32 are no multiple of 16: rows of the block in shared memory have no bank conflicts then.
        if (sums) consider(cluster_m, cluster_n, block_m, 16);
        for (int n = sums ? 24 : 16; n <= (sums ? 160 : 192); n += 16) consider(cluster_m, cluster_n, block_m, n);
      }
    }
  }
  return best;
}

}  // namespace mxcheck_peers::deepgemm
