#include <cuda_runtime.h>
#include <random>
#include "host_quantize.cu.h"
#include "host_lines.cu.h"
#include "host_windows.cu.h"
using namespace mxcheck_kernels; using namespace mxcheck_kernels::sm90;
std::mt19937 rng(1);
int pick(int a, int b) { return std::uniform_int_distribution<int>(a, b)(rng); }
struct Out { std::vector<std::uint8_t> mem; std::uint8_t* at; };
Out out(std::size_t n, int off) { Out o; o.mem.assign(n + 256, 0xA5); auto p = (std::uintptr_t)o.mem.data(); o.at = o.mem.data() + (64 - p % 64) + 32 + off; return o; }
bool same(const Out& a, const Out& b, std::size_t n, const char* what) {
  for (long i = -16; i < (long)n + 16; ++i) if (a.at[i] != b.at[i]) { printf("%s differs at %ld of %zu: %02x %02x\n", what, i, n, a.at[i], b.at[i]); return false; }
  return true;
}
int main(int argc, char** argv) {
  int cases = argc > 1 ? atoi(argv[1]) : 100; long windows = 0, duals = 0, both = 0;
  for (int c = 0; c < cases; ++c) {
    std::int64_t rows = pick(0, 3) ? pick(1, 300) : pick(1, 40), cols = pick(0, 2) ? pick(1, 700) : pick(250, 270);
    bool loose = pick(0, 4) == 0;
    std::int64_t stride = cols + 8 * (pick(0, 2) ? 0 : pick(0, 3)) + (loose ? pick(0, 7) : 0);
    int data_off = pick(0, 1) ? 0 : pick(0, 7), code_off = loose ? pick(0, 7) : data_off;
    std::vector<std::uint16_t> mem((rows - 1) * stride + cols + 64);
    for (auto& v : mem) { v = rng(); int k = pick(0, 999); if (k < 3) v = 0x7FC1; else if (k < 5) v = 0xFF80; else if (k < 100) v = 0; else if (k < 950) v = (v & 0x807F) | (pick(100, 140) << 7); if ((v & 0x7FFF) > 0x7F80 && k > 2) v = 0x3F80; }
    auto base = (std::uintptr_t)mem.data(); auto* x = mem.data() + ((16 - base % 16) % 16) / 2 + data_off;
    QuantizeJob job; std::vector<std::int32_t> index;
    job.x = {x, stride, nullptr, 2 * ((rows - 1) * stride + cols)};
    bool gather = pick(0, 9) == 0;
    if (gather) { for (int i = 0; i < rows; ++i) index.push_back(pick(0, rows - 1)); job.x.index = index.data(); }
    job.cols = cols; job.columns = divide_up(cols, 128); job.addend = pick(0, 1) ? 0x1FFFFF : 0;
    job.rows.rows = rows; job.rows.tiles = divide_up(rows, 128);
    PlanHeader header; std::vector<RowTile> table; std::int64_t bands = divide_up(rows, 32), quads = divide_up(job.rows.tiles, 4), tiles = job.rows.tiles;
    if (pick(0, 2) == 0) {  // experts
      job.rows.header = &header; std::int64_t at = 0; bands = 0; quads = 0; tiles = 0;
      while (at < rows) { std::int64_t n = std::min<std::int64_t>(rows - at, pick(1, 200)); std::int64_t k = divide_up(n, 128);
        for (int i = 0; i < k; ++i) table.push_back({at + 128 * i, bands + 4 * i, quads, (int)std::min<std::int64_t>(128, n - 128 * i), i, (int)k});
        bands += divide_up(n, 32); quads += divide_up(k, 4); tiles += k; at += n; }
      table.push_back({}); job.rows.table = table.data(); job.rows.tiles = table.size();
    }
    int block = pick(0, 1) ? 32 : 128; bool square = pick(0, 3) == 0, tiled = !square && pick(0, 1);
    bool dual = pick(0, 2) == 0;
    Element element = pick(0, 1) ? Element::e4m3 : Element::e5m2;
    std::int64_t count = rows * cols, band_rows = block == 32 ? bands : tiles;
    std::int64_t colscale = square ? band_rows * divide_up(cols, block) : !tiled ? band_rows * cols : block == 32 ? tiles * job.columns * 512 : quads * job.columns * 512;
    std::int64_t rowscale = !tiled ? rows * divide_up(cols, block) : tiles * divide_up(divide_up(cols, block), 4) * 512;
    int scale_off = pick(0, 3) ? 0 : pick(1, 3);
    Out codes[2][2], scales[2][2];
    for (int v = 0; v < 2; ++v) { codes[v][0] = out(count, code_off); codes[v][1] = out(count, code_off); scales[v][0] = out(std::max(colscale, rowscale), scale_off); scales[v][1] = out(std::max(colscale, rowscale), scale_off); }
    job.row.codes = codes[0][0].at; job.column.codes = codes[0][1].at; bool win = has_windows(job, dual, square);
    if (!dual && !win) continue;
    bounds::readable = {{(std::uint64_t)x, (std::uint64_t)x + job.x.bytes}};
    for (int v = 0; v < 2; ++v) {
      bool al = scale_off == 0;
      auto place = [&](Out& o, bool row) { return ScalePlace{o.at, tiled, al && (tiled || (row ? divide_up(cols, block) : cols) % 4 == 0), 0x7E}; };
      job.row = {codes[v][0].at, place(scales[v][0], true)}; job.column = {codes[v][1].at, place(scales[v][1], false)};
      bounds::writable = {{(std::uint64_t)codes[v][0].at, (std::uint64_t)codes[v][0].at + count}, {(std::uint64_t)codes[v][1].at, (std::uint64_t)codes[v][1].at + count}};
      if (dual) {
        if (square) { continue; }
        if (v == 0) { quantize_lines(job, block, Dtype::bf16, element, true, nullptr); quantize_column(job, block, Dtype::bf16, element, false, nullptr); }
        else if (win && c % 4 != 0) quantize_windows(job, WindowBlocks::both, block, element, nullptr), ++both; else quantize_wide_dual(job, block, element, true, nullptr), ++duals;
      } else if (v == 0) { if (square) quantize_square(job, block, Dtype::bf16, element, false, nullptr); else quantize_column(job, block, Dtype::bf16, element, false, nullptr); }
      else quantize_windows(job, square ? WindowBlocks::square : WindowBlocks::column, block, element, nullptr), ++windows;
    }
    bool ok = true;
    for (int d = 0; d < 2; ++d) { ok &= same(codes[0][d], codes[1][d], count, d ? "column codes" : "row codes"); ok &= same(scales[0][d], scales[1][d], std::max(colscale, rowscale), d ? "column scales" : "row scales"); }
    if (!ok) { printf("case %d: %ld x %ld stride %ld offset %d codes %d block %d square %d tiled %d dual %d experts %zu gather %d\n", c, rows, cols, stride, data_off, code_off, block, square, tiled, dual, table.size(), gather); return 1; }
  }
  printf("ok: %ld windows, %ld duals, %ld both\n", windows, duals, both);
}
