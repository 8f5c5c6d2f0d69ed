#include "reference/accumulate/accumulate.h"

#include <algorithm>
#include <string>
#include <vector>

#include "numerics/error.h"
#include "reference/accumulate/engine.h"
#include "reference/accumulate/exact_tile.h"

namespace mxcheck {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::usage, text); }

std::string to_text(Extent e) { return std::to_string(e.begin) + " to " + std::to_string(e.end); }

void check_extent(const char* what, Extent e, std::int64_t size) {
  if (e.begin >= 0 && e.begin <= e.end && e.end <= size) return;
  refuse(std::string(what) + " " + to_text(e) + " are not within the operand's 0 to " + std::to_string(size));
}

void check(const PackedOperand& a, Extent rows, const PackedOperand& b, Extent cols, Extent k) {
  const Contract& contract = a.contract();
  if (b.contract().name != contract.name) {
    refuse("operands were packed for " + std::string(contract.name) + " and " + std::string(b.contract().name));
  }
  check_operands(contract, a.format(), b.format());
  if (a.k() != b.k()) refuse("K is " + std::to_string(a.k()) + " and " + std::to_string(b.k()));
  check_extent("rows", rows, a.rows());
  check_extent("columns", cols, b.rows());
  check_extent("k", k, a.k());
  const int unit = std::max({1, contract.step.terms, contract.scale_terms});
  if (k.begin % unit != 0 || (k.end % unit != 0 && k.end != a.k())) {
    refuse("k " + to_text(k) + " are not whole steps of " + std::to_string(unit));
  }
}

void read_factors(const PackedOperand& x, std::int64_t row, Extent k, std::vector<Factor>& out) {
  out.clear();
  for (std::int64_t i = k.begin; i < k.end; ++i) out.push_back(x.factor(row, i));
}

// accumulate() with what the operands hold of row, col and k.
std::uint32_t plain_chain(const PackedOperand& a, std::int64_t row, std::span<const Factor> fa, const PackedOperand& b,
                          std::int64_t col, std::span<const Factor> fb, std::int64_t k_begin, std::uint32_t c) {
  const std::int64_t terms = a.contract().scale_terms;
  if (terms == 0) return accumulate(a.contract(), fa, fb, c);
  const std::int64_t first = k_begin / terms;
  const auto count = (fa.size() + static_cast<std::size_t>(terms) - 1) / static_cast<std::size_t>(terms);
  const ContractScales scales{a.scale_format(), {a.scales(row) + first, count}, {b.scales(col) + first, count}};
  return accumulate(a.contract(), fa, fb, c, &scales);
}

void plain_tile(const PackedOperand& a, Extent rows, const PackedOperand& b, Extent cols, Extent k, std::uint32_t* acc,
                std::int64_t ld) {
  constexpr std::int64_t kRows = 16;  // decoded at a time
  std::vector<std::vector<Factor>> fa(kRows);
  std::vector<Factor> fb;
  for (std::int64_t i0 = rows.begin; i0 < rows.end; i0 += kRows) {
    const std::int64_t i1 = std::min(rows.end, i0 + kRows);
    for (std::int64_t i = i0; i < i1; ++i) read_factors(a, i, k, fa[static_cast<std::size_t>(i - i0)]);
    for (std::int64_t j = cols.begin; j < cols.end; ++j) {
      read_factors(b, j, k, fb);
      for (std::int64_t i = i0; i < i1; ++i) {
        std::uint32_t& word = acc[(i - rows.begin) * ld + j - cols.begin];
        word = plain_chain(a, i, fa[static_cast<std::size_t>(i - i0)], b, j, fb, k.begin, word);
      }
    }
  }
}

}  // namespace

void detail::plain_step(const ChainJob& job, std::int64_t row, Extent cols, std::int64_t step,
                        const std::int32_t* wanted, std::uint32_t* acc) {
  const FusedSum& f = job.a.contract().step;
  const std::int64_t first = step * f.terms;
  const Extent k{first, std::min(first + f.terms, job.a.k())};
  thread_local std::vector<Factor> fa;
  thread_local std::vector<Factor> fb;
  read_factors(job.a, row, k, fa);
  for (std::int64_t col = cols.begin; col < cols.end; ++col) {
    if (wanted[col - cols.begin] == 0) continue;
    std::uint32_t& word = acc[col - cols.begin];
    if ((word & 0x7FFFFFFF) > 0x7F800000) {  // a chain that became NaN stays so
      word = f.output.nan;
      continue;
    }
    read_factors(job.b, col, k, fb);
    word = plain_chain(job.a, row, fa, job.b, col, fb, k.begin, word);
  }
}

void accumulate_tile(const PackedOperand& a, Extent rows, const PackedOperand& b, Extent cols, Extent k,
                     std::uint32_t* acc, std::int64_t ld) {
  check(a, rows, b, cols, k);
  if (k.begin == k.end || rows.begin == rows.end || cols.begin == cols.end) return;
  if (a.exact() != nullptr) return exact_tile(*a.exact(), rows, *b.exact(), cols, k, acc, ld);
  if (!runs_on_engine(a.contract())) return plain_tile(a, rows, b, cols, k, acc, ld);
  const std::int64_t terms = a.contract().step.terms;
  detail::run_chains({a, b, rows, cols, {k.begin / terms, (k.end + terms - 1) / terms}, acc, ld});
}

}  // namespace mxcheck
