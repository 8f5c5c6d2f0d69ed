#include "reference/accumulate/group_tile.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "numerics/format/format.h"

namespace mxcheck {
namespace {

constexpr std::size_t kGroup = 16;
constexpr std::size_t kMostGroups = 8;  // of a step

struct Scale {
  std::uint32_t significand = 1;
  int exponent = 0;
  int fraction_bits = 0;
  bool nan = false;
};

// A row of an operand: twice its values, which are integers, group by group.
struct Row {
  std::vector<std::array<std::int16_t, kGroup>> twice;
  std::vector<std::uint32_t> some;  // a bit for each value that is not zero
  std::vector<Scale> scales;
};

Scale scale_of(Format format, std::uint8_t code) {
  if (format != Format::e8m0) {
    const Factor f = factor(format, code & 0x7FU);
    return {f.significand, f.exponent, f.fraction_bits, f.kind != Factor::Kind::finite};
  }
  return {1, code - spec(Format::e8m0).bias, 0, code == spec(Format::e8m0).nan_code};
}

void read_row(const PackedOperand& x, std::int64_t row, Extent k, Row& out) {
  const std::size_t count = (static_cast<std::size_t>(k.end - k.begin) + kGroup - 1) / kGroup;
  out.twice.assign(count, {}), out.some.assign(count, 0), out.scales.resize(count);
  for (std::int64_t i = k.begin; i < k.end; ++i) {
    const Factor f = x.factor(row, i);  // its value is significand * 2^(exponent - 1)
    const auto at = static_cast<std::size_t>(i - k.begin);
    const int twice = static_cast<int>(f.significand << f.exponent);
    out.twice[at / kGroup][at % kGroup] = static_cast<std::int16_t>(f.negative ? -twice : twice);
    if (twice != 0) out.some[at / kGroup] |= 1U << at % kGroup;
  }
  const std::int64_t per_scale = x.contract().scale_terms;
  for (std::size_t g = 0; g < count; ++g) {
    const std::int64_t first = k.begin + static_cast<std::int64_t>(g * kGroup);
    out.scales[g] = scale_of(x.scale_format(), x.scales(row)[first / per_scale]);
  }
}

int dot(const std::array<std::int16_t, kGroup>& a, const std::array<std::int16_t, kGroup>& b) {
  int sum = 0;
  for (std::size_t i = 0; i < kGroup; ++i) sum += a[i] * b[i];
  return sum;
}

struct GroupTerm {
  std::int64_t magnitude;  // with its sign, times 2^unit
  int unit, exponent;
};

// fused_sum() of the groups from first to one before end.
std::uint32_t step_of(const FusedSum& f, const Row& a, const Row& b, std::size_t first, std::size_t end,
                      std::uint32_t c_word) {
  const Factor c = factor_of(spec(Format::fp32), c_word);
  std::array<GroupTerm, kMostGroups + 1> terms;
  std::size_t count = 0;
  bool nan = c.kind == Factor::Kind::nan;
  int window = f.window_floor;
  for (std::size_t g = first; g < end; ++g) {
    const Scale& sa = a.scales[g];
    const Scale& sb = b.scales[g];
    nan = nan || sa.nan || sb.nan;
    const std::int64_t scale = std::int64_t{sa.significand} * sb.significand;
    if ((a.some[g] & b.some[g]) == 0 || scale == 0) continue;  // a group of zeros is not in the window
    const int exponent = sa.exponent + sb.exponent;
    terms[count++] = {dot(a.twice[g], b.twice[g]) * scale, exponent - 2 - sa.fraction_bits - sb.fraction_bits,
                      exponent};
    window = std::max(window, exponent);
  }
  if (nan) return f.output.nan;
  if (c.kind == Factor::Kind::infinite) return c_word;
  if (c.significand != 0) {
    const auto magnitude = static_cast<std::int64_t>(c.significand);
    terms[count++] = {c.negative ? -magnitude : magnitude, c.exponent - c.fraction_bits, c.exponent};
    window = std::max(window, c.exponent);
  }
  const int quantum = window - f.fraction_bits;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const int left = terms[i].unit - quantum;
    const std::int64_t magnitude = std::abs(terms[i].magnitude);
    const std::int64_t kept = left >= 0 ? magnitude << left : magnitude >> std::min(-left, 63);
    sum += terms[i].magnitude < 0 ? -kept : kept;
  }
  return converted_sum(f, sum, quantum);
}

}  // namespace

bool runs_on_groups(const Contract& contract, Format a, Format b) {
  const FusedSum& f = contract.step;
  return contract.arithmetic == Arithmetic::fused && f.group == static_cast<int>(kGroup) && a == Format::e2m1 &&
         b == Format::e2m1 && contract.scale_terms % f.group == 0 && contract.scale_terms != 0 &&
         f.terms <= static_cast<int>(kGroup * kMostGroups) && f.terms % contract.scale_terms == 0 &&
         f.output.c == Format::fp32 && f.output.shift == 0 && f.alignment == Alignment::toward_zero && !f.adds_c_last &&
         !f.saturates;
}

void group_tile(const PackedOperand& a, Extent rows, const PackedOperand& b, Extent cols, Extent k, std::uint32_t* acc,
                std::int64_t ld) {
  const FusedSum& f = a.contract().step;
  const std::size_t per_step = static_cast<std::size_t>(f.terms) / kGroup;
  thread_local std::vector<Row> of_b;
  thread_local Row of_a;
  of_b.resize(static_cast<std::size_t>(cols.end - cols.begin));
  for (std::int64_t j = cols.begin; j < cols.end; ++j)
    read_row(b, j, k, of_b[static_cast<std::size_t>(j - cols.begin)]);
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    read_row(a, i, k, of_a);
    for (std::int64_t j = cols.begin; j < cols.end; ++j) {
      const Row& other = of_b[static_cast<std::size_t>(j - cols.begin)];
      std::uint32_t& word = acc[(i - rows.begin) * ld + j - cols.begin];
      for (std::size_t g = 0; g < of_a.twice.size(); g += per_step)
        word = step_of(f, of_a, other, g, std::min(g + per_step, of_a.twice.size()), word);
    }
  }
}

}  // namespace mxcheck
