#include "benchmarks/sm90/gemm/request.h"

#include <array>
#include <cstddef>

#include <fmt/format.h>

namespace mxcheck::bench {
namespace {

// Rows of eight experts of 32768: none a multiple of a tile, one empty, one that is one row short of a tile.
constexpr std::int64_t kRagged[] = {6001, 1250, 4096, 0, 7777, 3001, 127, 10516};

}  // namespace

std::string GemmRequest::text() const {
  std::string out = contract;
  if (scale != MXCHECK_NO_SCALES) {
    out += fmt::format(" {} {}x{}", packs() ? "e4m3" : scale == MXCHECK_E8M0 ? "e8m0" : "fp32", b_rows, block);
  }
  constexpr std::array kNames{" dense", " rows", " depth", " masked"};  // by mxcheck_grouping
  out += kNames.at(static_cast<std::size_t>(grouping));
  if (grouping != MXCHECK_DENSE) out += std::to_string(experts);
  if (adds_c) out += "+c";
  if (is_masked()) out += fmt::format("_of_{}", rows);
  return out + fmt::format("{} {}x{}x{}", ragged ? "_ragged" : "", m, n, k);
}

std::vector<GemmRequest> all_gemm_requests(bool quick) {
  std::vector<GemmRequest> all;
  std::int64_t rows_of_each = 0;
  const auto add_shape = [&](mxcheck_grouping grouping, int experts, bool ragged, std::int64_t m, std::int64_t n,
                             std::int64_t k) {
    const auto add = [&](const char* contract, const char* format, mxcheck_scale_type scale, std::int64_t block,
                         std::int64_t b_rows) {
      all.push_back({contract, format, scale, block, b_rows, grouping, experts, ragged, m, n, k, rows_of_each});
    };
    for (const mxcheck_scale_type scale : {MXCHECK_E8M0, MXCHECK_FP32}) {
      if (grouping != MXCHECK_DEPTH) add("sm90_fp8+promote128", "e4m3", scale, 128, 128);
      if (grouping != MXCHECK_ROWS) add("sm90_fp8+promote128", "e4m3", scale, 128, 1);
    }
    add("sm90_bf16", "bf16", MXCHECK_NO_SCALES, 0, 0);
    add("sm90_bf16+decode", "e4m3", MXCHECK_E8M0, 32, 1);
    add("sm90_bf16+decode", "e2m1", static_cast<mxcheck_scale_type>(MXCHECK_E4M3), 16, 1);
  };
  const auto add_sum = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    all.push_back({"sm90_fp8+promote128", "e4m3", MXCHECK_FP32, 128, 1, MXCHECK_DENSE, 1, false, m, n, k, 0, true});
  };
  if (quick) {
    add_sum(256, 384, 512);
    add_shape(MXCHECK_DENSE, 1, false, 256, 384, 512);
    add_shape(MXCHECK_DENSE, 1, false, 128, 256, 1024);
    add_shape(MXCHECK_ROWS, 8, false, 1024, 384, 512);
    add_shape(MXCHECK_ROWS, 8, true, 1024, 384, 512);
    add_shape(MXCHECK_DEPTH, 4, false, 256, 384, 2048);
    rows_of_each = 40;
    add_shape(MXCHECK_MASKED, 8, false, 1024, 384, 512);
    return all;
  }
  add_shape(MXCHECK_DENSE, 1, false, 4096, 4096, 7168);
  add_shape(MXCHECK_DENSE, 1, false, 4096, 7168, 16384);
  add_shape(MXCHECK_DENSE, 1, false, 8192, 4096, 7168);
  add_shape(MXCHECK_DENSE, 1, false, 32768, 7168, 2048);
  add_shape(MXCHECK_DENSE, 1, false, 4096, 2048, 7168);
  for (const std::int64_t rows : {1, 16, 64, 128, 256}) add_shape(MXCHECK_DENSE, 1, false, rows, 4096, 7168);
  add_shape(MXCHECK_DENSE, 1, false, 256, 7168, 2048);
  add_sum(4096, 4096, 7168);
  add_sum(4096, 7168, 16384);
  for (const bool ragged : {false, true}) {
    add_shape(MXCHECK_ROWS, 8, ragged, 32768, 4096, 7168);
    add_shape(MXCHECK_ROWS, 8, ragged, 32768, 7168, 2048);
  }
  add_shape(MXCHECK_ROWS, 64, false, 32768, 4096, 2048);
  add_shape(MXCHECK_DEPTH, 4, false, 4096, 7168, 16384);
  add_shape(MXCHECK_DEPTH, 4, false, 4096, 7168, 32768);
  add_shape(MXCHECK_DEPTH, 8, false, 4096, 7168, 32768);
  add_shape(MXCHECK_DEPTH, 8, false, 7168, 2048, 32768);
  for (const std::int64_t rows : {32, 96, 160}) {  // of a capacity of 1024
    rows_of_each = rows;
    add_shape(MXCHECK_MASKED, 16, false, 16384, 4096, 7168);
  }
  return all;
}

std::vector<std::int64_t> ends_of(const GemmRequest& r) {
  const std::int64_t all = r.grouping == MXCHECK_DEPTH ? r.k : r.m;
  std::vector<std::int64_t> offsets{0};
  if (r.grouping == MXCHECK_DENSE) return offsets;
  if (r.is_masked()) return std::vector<std::int64_t>(static_cast<std::size_t>(r.experts), r.rows);
  std::int64_t sum = 0;
  for (int e = 0; e < r.experts; ++e) {
    sum += kRagged[e % 8];
    offsets.push_back(r.ragged ? all * sum / 32768 : all * (e + 1) / r.experts);
  }
  return offsets;
}

mxcheck_matmul_policy policy_of(const GemmRequest& r) {
  mxcheck_matmul_policy p{};
  p.policy.size = sizeof p;
  p.policy.layout = MXCHECK_COMPACT;
  p.policy.format = p.format_b = r.format.c_str();
  p.policy.recipe = "";
  if (r.scale != MXCHECK_NO_SCALES) p.policy.block_rows = 1, p.block_b_rows = r.b_rows;
  p.policy.block_cols = p.block_b_cols = r.block;
  p.scale_type = r.scale;
  p.grouping = r.grouping;
  p.accumulate = r.accumulates() ? 1 : 0;
  p.alpha = 1;
  return p;
}

}  // namespace mxcheck::bench
