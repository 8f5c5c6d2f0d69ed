#include "tests/kernels/sm100/gemm/comparison.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
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

// FP4: each code as likely as another, but zeros, of either sign, which are a quarter more; two a byte, and one a byte
// for the reference.
void fill_fp4(Bytes& packed, std::vector<std::uint8_t>& codes, std::int64_t count, std::mt19937_64& random) {
  codes.resize(static_cast<std::size_t>(count));
  for (std::uint8_t& code : codes)
    code = static_cast<std::uint8_t>(random() % 4 == 0 ? random() & 0x8U : random() & 0xFU);
  for (std::size_t i = 0; i + 1 < codes.size(); i += 2)
    packed.data()[i / 2] = static_cast<std::uint8_t>(codes[i] | codes[i + 1] << 4);
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

// An E8M0 scale: near 1 but one in 200, which is very small or large.
std::uint8_t draw_e8m0(bool specials, std::mt19937_64& random) {
  auto scale = static_cast<std::uint8_t>(121 + random() % 13);
  if (random() % 200 == 0) scale = static_cast<std::uint8_t>(random() % 2 == 0 ? 0 : 250);
  if (specials && random() % 400 == 0) scale = 255;
  return scale;
}
// An E4M3 scale of NVFP4, whose sign counts for nothing: any, one in 20 subnormal or zero; NaN among specials alone.
std::uint8_t draw_e4m3(bool specials, std::mt19937_64& random) {
  auto scale = static_cast<std::uint8_t>(random() % 20 == 0 ? random() & 0x87U : random());
  if ((scale & 0x7FU) == 0x7F) scale ^= 0x40U;
  return specials && random() % 400 == 0 ? std::uint8_t{0x7F} : scale;
}

// Random scales, compact, and in chunks of 128 x 4: rows of each group of rows and blocks of each group of depth begin
// a chunk. Row i of the chunks is row index[i] of the compact ones, or row i without an index.
Scales make_scales(Operands operands, const std::vector<Range>& rows, const std::vector<Range>& depth,
                   std::int64_t all_rows, const std::vector<std::int32_t>& index, bool specials,
                   std::mt19937_64& random) {
  const Encoding e = encoding_of(operands);
  const bool nvfp4 = operands == Operands::nvfp4;
  Scales s;
  for (const Range& d : depth) {
    s.blocks += up(d.end - d.begin, e.block);
    s.chunks_k += up(d.end - d.begin, e.chunk_depth);
  }
  for (const Range& r : rows) s.chunk_rows += up(r.end - r.begin, 128);
  s.chunk_rows += 1;  // a pair's second CTA may read the chunk after the last
  s.compact.resize(static_cast<std::size_t>(all_rows * s.blocks));
  for (std::uint8_t& scale : s.compact) scale = nvfp4 ? draw_e4m3(specials, random) : draw_e8m0(specials, random);
  const std::int64_t bytes = std::max<std::int64_t>(1, s.chunk_rows * s.chunks_k) * kChunkBytes;
  s.chunks = Bytes(bytes);
  std::fill_n(s.chunks.data(), bytes, std::uint8_t{0xFF});  // padding must not reach D
  std::int64_t chunk_row = 0;
  for (const Range& r : rows) {
    std::int64_t block0 = 0, chunk_k = 0;
    for (const Range& d : depth) {
      const std::int64_t blocks = up(d.end - d.begin, e.block);
      for (std::int64_t i = r.begin; i < r.end; ++i) {
        const std::int64_t in_group = i - r.begin;
        const std::int64_t from = index.empty() ? i : index[static_cast<std::size_t>(i)];
        // An mma of NVFP4 reads whole words: what of the last one belongs to no block is 0, as pack.h has it.
        for (std::int64_t j = 0; j < (nvfp4 ? up(blocks, 4) * 4 : blocks); ++j) {
          const std::int64_t chunk = (chunk_row + in_group / 128) * s.chunks_k + chunk_k + j / 4;
          s.chunks.data()[chunk * kChunkBytes + in_group % 32 * 16 + in_group % 128 / 32 * 4 + j % 4] =
              j < blocks ? s.compact[static_cast<std::size_t>(from * s.blocks + block0 + j)] : std::uint8_t{0};
        }
      }
      block0 += blocks;
      chunk_k += up(d.end - d.begin, e.chunk_depth);
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

// FP32 scales of blocks of 1 or 128 rows by 128, as make_scales has those of 32; compact alone.
struct Factors {
  std::vector<float> compact;
  std::int64_t blocks = 0;
};

Factors make_factors(std::int64_t rows, const std::vector<Range>& depth, std::mt19937_64& random) {
  Factors f;
  for (const Range& d : depth) f.blocks += up(d.end - d.begin, 128);
  f.compact.resize(static_cast<std::size_t>(rows * f.blocks));
  for (float& x : f.compact)
    x = std::ldexp(1 + static_cast<float>(random() % 4096) / 4096, static_cast<int>(random() % 9) - 4);
  return f;
}

// Signs and fractions at random, exponents over 32 octaves, one in eight a zero.
void fill_halves(Bytes& values, std::int64_t count, std::mt19937_64& random) {
  for (std::int64_t i = 0; i < count; ++i) {
    auto value = static_cast<std::uint16_t>((random() & 0x807FU) | ((112 + random() % 32) << 7));
    if (random() % 8 == 0) value &= 0x8000U;
    std::memcpy(values.data() + 2 * i, &value, 2);
  }
}

// A case's operands, scales and outputs, for the kernel and for the reference.
struct Made {
  std::vector<std::int32_t> gathered_rows;
  std::int64_t rows_a = 0;
  Bytes a{0}, b{0}, addend{0}, d{0}, expected{0};
  std::vector<std::uint8_t> codes_a, codes_b;  // of FP4: one a byte
  Scales scales_a, scales_b;
  Factors factors_a, factors_b;
  std::int64_t groups = 1, rows_b = 0, outputs = 0;
};

// m rows of A, one in four of them that of the row before.
std::vector<std::int32_t> draw_rows(const Case& c, std::mt19937_64& random) {
  std::vector<std::int32_t> rows;
  for (std::int64_t i = 0; c.rows_a > 0 && i < c.m; ++i) {
    const bool again = i > 0 && random() % 4 == 0;
    rows.push_back(again ? rows.back() : static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(c.rows_a)));
  }
  return rows;
}

// Rows of A that nobody gathers are NaN (of FP4 -6), and so are their scales: where one is read, D tells.
void poison_rows(const Case& c, Made& x) {
  std::vector<bool> gathered(static_cast<std::size_t>(x.rows_a));
  for (const std::int32_t row : x.gathered_rows) gathered[static_cast<std::size_t>(row)] = true;
  const std::int64_t row_bytes = c.k * encoding_of(c.operands).bits / 8;
  for (std::int64_t r = 0; r < x.rows_a; ++r) {
    if (gathered[static_cast<std::size_t>(r)]) continue;
    std::fill_n(x.a.data() + r * row_bytes, row_bytes, std::uint8_t{0xFF});
    std::fill_n(x.factors_a.compact.begin() + r * x.factors_a.blocks, x.factors_a.blocks,
                std::numeric_limits<float>::quiet_NaN());
  }
}

Made make(const Case& c) {
  std::mt19937_64 random(c.seed);
  Made x;
  const bool by_rows = c.grouping == Grouping::rows;
  const bool by_depth = c.grouping == Grouping::depth;
  if (!c.offsets.empty()) x.groups = static_cast<std::int64_t>(c.offsets.size()) - 1;
  x.rows_b = by_rows ? x.groups * c.n : c.n;
  x.gathered_rows = draw_rows(c, random);
  x.rows_a = c.rows_a > 0 ? c.rows_a : c.m;
  const int bits = encoding_of(c.operands).bits;
  x.a = Bytes(x.rows_a * c.k * bits / 8), x.b = Bytes(x.rows_b * c.k * bits / 8);
  if (c.operands == Operands::nvfp4) {
    fill_fp4(x.a, x.codes_a, x.rows_a * c.k, random);
    fill_fp4(x.b, x.codes_b, x.rows_b * c.k, random);
  } else if (c.operands == Operands::half) {
    fill_halves(x.a, x.rows_a * c.k, random);
    fill_halves(x.b, x.rows_b * c.k, random);
  } else {
    fill_codes(x.a, x.rows_a * c.k, c.e5m2_a, c.specials, random);
    fill_codes(x.b, x.rows_b * c.k, c.e5m2_b, c.specials, random);
  }
  const std::vector<Range> depth = by_depth ? ranges(c.offsets, c.k) : ranges({}, c.k);
  if (encoding_of(c.operands).block != 0) {
    std::vector<Range> experts;
    for (std::int64_t e = 0; e < (by_rows ? x.groups : 1); ++e) experts.push_back({e * c.n, (e + 1) * c.n});
    x.scales_a = make_scales(c.operands, by_rows ? ranges(c.offsets, c.m) : ranges({}, c.m), depth, x.rows_a,
                             x.gathered_rows, c.specials, random);
    x.scales_b = make_scales(c.operands, experts, depth, x.rows_b, {}, c.specials, random);
  }
  if (c.operands == Operands::promoted) {
    x.factors_a = make_factors(x.rows_a, depth, random);
    x.factors_b = make_factors((by_rows ? x.groups : 1) * up(c.n, c.block_b), depth, random);
  }
  if (c.rows_a > 0) poison_rows(c, x);
  x.outputs = c.m * c.n * (by_depth ? x.groups : 1);
  const std::int64_t bytes = c.bf16 ? 2 : 4;
  x.addend = Bytes(x.outputs * bytes);
  for (std::int64_t i = 0; i < x.outputs; ++i) {
    const float value = static_cast<float>(static_cast<std::int64_t>(random() % 4096) - 2048) / 64;
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value) >> (c.bf16 ? 16 : 0);
    std::memcpy(x.addend.data() + i * bytes, &bits, static_cast<std::size_t>(bytes));
  }
  x.d = Bytes(x.outputs * bytes);
  std::fill_n(x.d.data(), x.outputs * bytes, std::uint8_t{0xA5});
  x.expected = Bytes(x.outputs * bytes);
  return x;
}

Problem problem_of(const Case& c, Made& x) {
  Problem p;
  p.operands = c.operands, p.a = x.a.data(), p.b = x.b.data(), p.e5m2_a = c.e5m2_a, p.e5m2_b = c.e5m2_b;
  if (!x.gathered_rows.empty()) p.gathered_rows = x.gathered_rows.data(), p.rows_a = x.rows_a;
  p.scales_a = x.scales_a.chunks.data(), p.scales_b = x.scales_b.chunks.data();
  p.chunks_a = std::max<std::int64_t>(1, x.scales_a.chunk_rows * x.scales_a.chunks_k);
  p.chunks_b = std::max<std::int64_t>(1, x.scales_b.chunk_rows * x.scales_b.chunks_k);
  p.chunks_k = c.operands == Operands::promoted ? x.factors_a.blocks : x.scales_a.chunks_k;
  p.factors_a = x.factors_a.compact.data(), p.factors_b = x.factors_b.compact.data(), p.block_b = c.block_b;
  p.d = x.d.data();
  p.c = c.adds ? x.addend.data() : nullptr;
  p.bf16 = c.bf16, p.alpha = c.alpha, p.m = c.m, p.n = c.n, p.k = c.k, p.grouping = c.grouping, p.groups = x.groups;
  p.offsets = c.offsets.empty() ? nullptr : c.offsets.data();
  return p;
}

MatmulOperand operand_of(const Case& c, bool e5m2, const std::uint8_t* codes, std::int64_t rows) {
  MatmulOperand o;
  o.format = c.operands == Operands::nvfp4  ? Format::e2m1
             : c.operands == Operands::half ? Format::bf16
             : e5m2                         ? Format::e5m2
                                            : Format::e4m3;
  o.codes = codes, o.rows = rows, o.depth = c.k, o.row_stride = c.k;
  return o;
}

void compute_expected(const Case& c, Made& x) {
  Matmul r;
  const bool fp4 = c.operands == Operands::nvfp4;
  r.a = operand_of(c, c.e5m2_a, fp4 ? x.codes_a.data() : x.a.data(), x.rows_a);
  r.b = operand_of(c, c.e5m2_b, fp4 ? x.codes_b.data() : x.b.data(), c.n);
  const auto scale = [](MatmulOperand& o, BlockShape block, Format format, const void* scales, std::int64_t stride) {
    o.block = block, o.scale_format = format, o.scales = scales, o.scale_row_stride = stride;
  };
  switch (c.operands) {
    case Operands::scaled:
      r.contract = parse_matmul_contract("sm100_mxf8f6f4");
      scale(r.a, {1, 32}, Format::e8m0, x.scales_a.compact.data(), x.scales_a.blocks);
      scale(r.b, {1, 32}, Format::e8m0, x.scales_b.compact.data(), x.scales_b.blocks);
      break;
    case Operands::nvfp4:
      r.contract = parse_matmul_contract("sm100_nvf4");
      scale(r.a, {1, 16}, Format::e4m3, x.scales_a.compact.data(), x.scales_a.blocks);
      scale(r.b, {1, 16}, Format::e4m3, x.scales_b.compact.data(), x.scales_b.blocks);
      break;
    case Operands::half: r.contract = parse_matmul_contract("sm100_f16"); break;
    case Operands::promoted:
      r.contract = parse_matmul_contract("sm100_f8f6f4+promote128");
      scale(r.a, {1, 128}, Format::fp32, x.factors_a.compact.data(), x.factors_a.blocks);
      scale(r.b, {static_cast<int>(c.block_b), 128}, Format::fp32, x.factors_b.compact.data(), x.factors_b.blocks);
      break;
  }
  r.output = c.bf16 ? Format::bf16 : Format::fp32;
  r.alpha = c.alpha;
  r.c = c.adds ? x.addend.data() : nullptr;
  r.grouping = c.grouping == Grouping::rows    ? mxcheck::Grouping::rows
               : c.grouping == Grouping::depth ? mxcheck::Grouping::depth
                                               : mxcheck::Grouping::none;
  r.offsets = c.offsets, r.row_index = x.gathered_rows, r.gathers = c.rows_a > 0, r.threads = 1;
  matmul(r, x.expected.data());
}

}  // namespace

Outcome compare(const Case& c, const Variant& variant, const emulation::sm100::LaunchOptions& options) {
  Made x = make(c);
  compute_expected(c, x);
  Outcome out;
  out.emulated = run_emulated(problem_of(c, x), variant, options), out.outputs = x.outputs;
  for (std::int64_t i = 0; i < x.outputs; ++i) {
    if (equal(word(x.d, i, c.bf16), word(x.expected, i, c.bf16), c.bf16)) continue;
    if (out.differing++ == 0) {
      char text[120];
      std::snprintf(text, sizeof text, "row %lld column %lld: 0x%08x, expected 0x%08x", static_cast<long long>(i / c.n),
                    static_cast<long long>(i % c.n), word(x.d, i, c.bf16), word(x.expected, i, c.bf16));
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
