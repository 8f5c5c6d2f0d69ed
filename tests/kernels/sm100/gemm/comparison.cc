#include "tests/kernels/sm100/gemm/comparison.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <memory>
#include <random>

#include "reference/matmul/matmul.h"

namespace mxcheck::sm100::gemm {
namespace {

// At a multiple of 16 bytes, as TMA needs it.
class Bytes {
 public:
  explicit Bytes(std::int64_t count) : data_(static_cast<std::size_t>(count) + 16) {
    first_ = (16 - std::bit_cast<std::uintptr_t>(data_.data()) % 16) % 16;
  }
  std::uint8_t* data() { return data_.data() + first_; }
  [[nodiscard]] const std::uint8_t* data() const { return data_.data() + first_; }

 private:
  std::vector<std::uint8_t> data_;
  std::size_t first_;
};

std::int64_t up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

bool special(bool e5m2, std::uint8_t code) { return e5m2 ? (code & 0x7FU) > 0x7B : (code & 0x7FU) == 0x7F; }

// Where sums cancel, exponents differ and zeros occur: codes of all exponents, one in eight a zero.
void fill_codes(Bytes& codes, std::int64_t count, bool e5m2, bool specials, std::mt19937_64& random) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint8_t code = 0;
    do {
      code = random() % 8 == 0 ? static_cast<std::uint8_t>(random() & 0x80U) : static_cast<std::uint8_t>(random());
    } while (special(e5m2, code) && !(specials && random() % 64 == 0));
    codes.data()[i] = code;
  }
}

struct Scales {
  std::vector<std::uint8_t> compact;  // [rows, blocks], groups along depth: of each group its own blocks
  Bytes chunks{0};
  std::int64_t blocks = 0, chunk_rows = 0, chunks_k = 0;
};

struct Range {
  std::int64_t begin, end;
};

std::vector<Range> ranges(const std::vector<std::int64_t>& offsets, std::int64_t whole) {
  if (offsets.empty()) return {{0, whole}};
  std::vector<Range> all;
  for (std::size_t e = 0; e + 1 < offsets.size(); ++e) all.push_back({offsets[e], offsets[e + 1]});
  return all;
}

// Random scales, compact, and in chunks of 128 x 4: rows of each group of rows and blocks of each group of depth begin
// a chunk.
Scales make_scales(const std::vector<Range>& rows, const std::vector<Range>& depth, std::int64_t all_rows,
                   bool specials, std::mt19937_64& random) {
  Scales s;
  for (const Range& d : depth) {
    s.blocks += up(d.end - d.begin, 32);
    s.chunks_k += up(d.end - d.begin, 128);
  }
  for (const Range& r : rows) s.chunk_rows += up(r.end - r.begin, 128);
  s.chunk_rows += 1;  // a pair's second CTA may read the chunk after the last
  s.compact.resize(static_cast<std::size_t>(all_rows * s.blocks));
  for (std::uint8_t& scale : s.compact) {
    scale = static_cast<std::uint8_t>(121 + random() % 13);
    if (random() % 200 == 0) scale = static_cast<std::uint8_t>(random() % 2 == 0 ? 0 : 250);
    if (specials && random() % 400 == 0) scale = 255;
  }
  const std::int64_t bytes = std::max<std::int64_t>(1, s.chunk_rows * s.chunks_k) * kChunkBytes;
  s.chunks = Bytes(bytes);
  std::fill_n(s.chunks.data(), bytes, std::uint8_t{0xFF});  // padding must not reach D
  std::int64_t chunk_row = 0;
  for (const Range& r : rows) {
    std::int64_t block0 = 0;
    std::int64_t chunk_k = 0;
    for (const Range& d : depth) {
      const std::int64_t blocks = up(d.end - d.begin, 32);
      for (std::int64_t i = r.begin; i < r.end; ++i) {
        const std::int64_t in_group = i - r.begin;
        for (std::int64_t j = 0; j < blocks; ++j) {
          const std::int64_t chunk = (chunk_row + in_group / 128) * s.chunks_k + chunk_k + j / 4;
          s.chunks.data()[chunk * kChunkBytes + in_group % 32 * 16 + in_group % 128 / 32 * 4 + j % 4] =
              s.compact[static_cast<std::size_t>(i * s.blocks + block0 + j)];
        }
      }
      block0 += blocks;
      chunk_k += up(d.end - d.begin, 128);
    }
    chunk_row += up(r.end - r.begin, 128);
  }
  return s;
}

bool equal(std::uint32_t x, std::uint32_t y, bool bf16) {
  const std::uint32_t infinity = bf16 ? 0x7F80U : 0x7F800000U;
  const std::uint32_t magnitude = bf16 ? 0x7FFFU : 0x7FFFFFFFU;
  const bool x_nan = (x & magnitude) > infinity;
  const bool y_nan = (y & magnitude) > infinity;
  return x == y || (x_nan && y_nan);
}

std::uint32_t word(const Bytes& bytes, std::int64_t i, bool bf16) {
  std::uint32_t w = 0;
  for (int b = 0; b < (bf16 ? 2 : 4); ++b) w |= std::uint32_t{bytes.data()[i * (bf16 ? 2 : 4) + b]} << (8 * b);
  return w;
}

}  // namespace

Outcome compare(const Case& c, const Variant& variant, const emulation::sm100::LaunchOptions& options) {
  std::mt19937_64 random(c.seed);
  const bool by_rows = c.grouping == Grouping::rows;
  const bool by_depth = c.grouping == Grouping::depth;
  const std::int64_t groups = c.offsets.empty() ? 1 : static_cast<std::int64_t>(c.offsets.size()) - 1;
  const std::int64_t rows_b = by_rows ? groups * c.n : c.n;
  Bytes a(c.m * c.k);
  Bytes b(rows_b * c.k);
  fill_codes(a, c.m * c.k, c.e5m2_a, c.specials, random);
  fill_codes(b, rows_b * c.k, c.e5m2_b, c.specials, random);
  const std::vector<Range> depth = by_depth ? ranges(c.offsets, c.k) : ranges({}, c.k);
  std::vector<Range> experts;
  for (std::int64_t e = 0; e < (by_rows ? groups : 1); ++e) experts.push_back({e * c.n, (e + 1) * c.n});
  const Scales scales_a =
      make_scales(by_rows ? ranges(c.offsets, c.m) : ranges({}, c.m), depth, c.m, c.specials, random);
  const Scales scales_b = make_scales(experts, depth, rows_b, c.specials, random);
  const std::int64_t outputs = c.m * c.n * (by_depth ? groups : 1);
  const std::int64_t bytes = c.bf16 ? 2 : 4;
  Bytes addend(outputs * bytes);
  for (std::int64_t i = 0; i < outputs; ++i) {
    const float value = static_cast<float>(static_cast<std::int64_t>(random() % 4096) - 2048) / 64;
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value) >> (c.bf16 ? 16 : 0);
    for (int p = 0; p < bytes; ++p) addend.data()[i * bytes + p] = static_cast<std::uint8_t>(bits >> (8 * p));
  }
  Bytes d(outputs * bytes);
  std::fill_n(d.data(), outputs * bytes, std::uint8_t{0xA5});
  Bytes expected(outputs * bytes);

  Problem p;
  p.a = a.data();
  p.b = b.data();
  p.e5m2_a = c.e5m2_a;
  p.e5m2_b = c.e5m2_b;
  p.scales_a = scales_a.chunks.data();
  p.scales_b = scales_b.chunks.data();
  p.chunks_a = std::max<std::int64_t>(1, scales_a.chunk_rows * scales_a.chunks_k);
  p.chunks_b = std::max<std::int64_t>(1, scales_b.chunk_rows * scales_b.chunks_k);
  p.chunks_k = scales_a.chunks_k;
  p.d = d.data();
  p.c = c.adds ? addend.data() : nullptr;
  p.bf16 = c.bf16;
  p.alpha = c.alpha;
  p.m = c.m;
  p.n = c.n;
  p.k = c.k;
  p.grouping = c.grouping;
  p.groups = groups;
  p.offsets = c.offsets.empty() ? nullptr : c.offsets.data();

  Matmul r;
  r.contract = parse_matmul_contract("sm100_mxf8f6f4");
  r.a = {.format = c.e5m2_a ? Format::e5m2 : Format::e4m3,
         .codes = a.data(),
         .rows = c.m,
         .depth = c.k,
         .row_stride = c.k,
         .block = {1, 32},
         .scales = scales_a.compact.data(),
         .scale_row_stride = scales_a.blocks};
  r.b = {.format = c.e5m2_b ? Format::e5m2 : Format::e4m3,
         .codes = b.data(),
         .rows = c.n,
         .depth = c.k,
         .row_stride = c.k,
         .block = {1, 32},
         .scales = scales_b.compact.data(),
         .scale_row_stride = scales_b.blocks};
  r.output = c.bf16 ? Format::bf16 : Format::fp32;
  r.alpha = c.alpha;
  r.c = p.c;
  r.grouping = by_rows ? mxcheck::Grouping::rows : by_depth ? mxcheck::Grouping::depth : mxcheck::Grouping::none;
  r.offsets = c.offsets;
  r.threads = 1;
  matmul(r, expected.data());

  Outcome out;
  out.emulated = run_emulated(p, variant, options);
  out.outputs = outputs;
  for (std::int64_t i = 0; i < outputs; ++i) {
    if (equal(word(d, i, c.bf16), word(expected, i, c.bf16), c.bf16)) continue;
    if (out.differing++ == 0) {
      char text[120];
      std::snprintf(text, sizeof text, "row %lld column %lld: 0x%08x, expected 0x%08x", static_cast<long long>(i / c.n),
                    static_cast<long long>(i % c.n), word(d, i, c.bf16), word(expected, i, c.bf16));
      out.first = text;
    }
  }
  return out;
}

std::string text_of(const Outcome& o) {
  std::string text = o.emulated.error;
  for (const auto& finding : o.emulated.result.findings) text += "\n  " + emulation::sm100::text_of(finding);
  text += "\n" + o.emulated.result.dump;
  if (o.differing > 0) {
    text += "\n  " + std::to_string(o.differing) + " of " + std::to_string(o.outputs) +
            " outputs differ; the first: " + o.first;
  }
  return text;
}

}  // namespace mxcheck::sm100::gemm
