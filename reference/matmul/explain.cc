#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "reference/common/checked_size.h"
#include "reference/matmul/checks.h"
#include "reference/matmul/matmul.h"
#include "reference/matmul/parts.h"

namespace mxcheck {
namespace {

// "41200000 = 10": FP32 words; FP16 ones as wide as they are.
std::string word_text(Format format, std::uint32_t word) {
  return fmt::format("{:0{}x} = {:.9g}", word, spec(format).bits / 4, decode(format, word));
}

class Explainer {
 public:
  Explainer(const Matmul& p, const MatmulPart& part, std::int64_t i, std::int64_t j)
      : p_(p), sum_(*p.contract.sum), a_(part.a.rows_from(0, part.a.rows)), b_(part.b), i_(i), j_(j) {
    width_ = sum_.arithmetic == Arithmetic::fused ? sum_.step.output.c : Format::fp32;
    if (p.contract.decodes) {
      a_codes_ = row_of(decoded(a_, i)), b_codes_ = row_of(decoded(b_, j));
    } else if (sum_.arithmetic == Arithmetic::exact) {
      a_codes_ = exact_factors(a_, i), b_codes_ = exact_factors(b_, j);
    } else if (sum_.arithmetic == Arithmetic::ieee_fp32 && (p.a.scaled() || p.b.scaled())) {
      a_codes_ = words_of(a_, i), b_codes_ = words_of(b_, j);
    } else {
      a_codes_ = plain_factors(sum_, a_, i), b_codes_ = plain_factors(sum_, b_, j);
    }
    depth_ = static_cast<std::int64_t>(a_codes_.size());
  }

  ExplainedOutput explain(std::uint32_t c, bool has_c) {
    std::uint32_t acc = p_.contract.from_c ? c : 0;
    if (p_.contract.from_c) say("the sum starts from C, {}", word_text(width_, acc));
    if (sum_.arithmetic != Arithmetic::fused) {
      acc = accumulate(sum_, a_codes_, b_codes_, acc);
      say("{} of {} products: {}", sum_.note, depth_, word_text(width_, acc));
    } else if (p_.contract.promotion == 0) {
      acc = chain(acc, 0, depth_);
    } else {
      acc = promoted();
    }
    ExplainedOutput out;
    const bool adds_c = has_c && !p_.contract.from_c;
    out.word = finished_word(p_, acc, adds_c ? c : 0, adds_c);
    if (p_.alpha != 1) say("times alpha, {:.9g}", p_.alpha);
    if (adds_c) say("plus C, {}", word_text(p_.output, c));
    say("D as {}: {}", spec(p_.output).name, word_text(p_.output, out.word));
    out.lines = std::move(lines_);
    return out;
  }

 private:
  template <class... Args>
  void say(fmt::format_string<Args...> text, Args&&... args) {
    lines_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  static std::vector<std::uint16_t> decoded(const OperandWindow& w, std::int64_t i) {
    OperandWindow all = w;
    all.rows = i + 1;  // blocks of rows begin at the window's first row
    std::vector<std::uint16_t> codes = decoded_bf16(all);
    return {codes.end() - w.depth, codes.end()};
  }
  std::vector<Factor> row_of(const std::vector<std::uint16_t>& codes) const {
    std::vector<Factor> factors;
    for (std::uint16_t code : codes) factors.push_back(operand(sum_, Format::bf16, code));
    return factors;
  }
  std::vector<Factor> words_of(const OperandWindow& w, std::int64_t i) const {
    OperandWindow all = w;
    all.rows = i + 1;
    const std::vector<std::uint32_t> words = decoded_fp32(all);
    std::vector<Factor> factors;
    for (auto word = words.end() - w.depth; word != words.end(); ++word) factors.push_back(factor(Format::fp32, *word));
    return factors;
  }

  // Steps from `begin` to `end`, a line each.
  std::uint32_t chain(std::uint32_t acc, std::int64_t begin, std::int64_t end) {
    const std::int64_t terms = sum_.step.terms;
    const std::int64_t steps = ceil_div(end - begin, terms);
    for (std::int64_t n = 0; n < steps; ++n) {
      const bool backwards = p_.contract.descending && p_.contract.promotion == 0;
      const std::int64_t k = begin + (backwards ? steps - 1 - n : n) * terms;
      acc = step(acc, k, std::min(end, k + terms));
    }
    return acc;
  }

  std::uint32_t step(std::uint32_t acc, std::int64_t begin, std::int64_t end) {
    const auto first = static_cast<std::size_t>(begin);
    const auto count = static_cast<std::size_t>(end - begin);
    const std::span<const Factor> a = std::span(a_codes_).subspan(first, count);
    const std::span<const Factor> b = std::span(b_codes_).subspan(first, count);
    FusedTrace t;
    std::uint32_t next = 0;
    if (sum_.scale_terms == 0) {
      next = fused_sum(sum_.step, a, b, acc, nullptr, &t);
    } else {
      std::vector<std::uint8_t> sa;
      std::vector<std::uint8_t> sb;
      for (std::int64_t k = begin; k < begin + sum_.step.terms; k += sum_.scale_terms) {
        const std::uint32_t one = p_.a.scale_format == Format::e8m0 ? 127 : 0x38;
        sa.push_back(static_cast<std::uint8_t>(k < depth_ ? a_.scale_code(i_, k) : one));
        sb.push_back(static_cast<std::uint8_t>(k < depth_ ? b_.scale_code(j_, k) : one));
      }
      const StepScales scales{p_.a.scale_format, sa, sb};
      next = fused_sum(sum_.step, a, b, acc, &scales, &t);
    }
    if (t.special) {
      say("k {}..{}: a NaN or an infinity decides: {}", begin, end - 1, word_text(width_, next));
      return next;
    }
    const int unit = t.window - sum_.step.fraction_bits;
    std::string cut;
    int lost = 0;
    int shortened = 0;
    for (const FusedTerm& term : t.terms) {
      if (term.units == 0)
        ++lost;
      else if (term.cut)
        ++shortened;
      if (term.index < 0 && term.cut) cut = term.units == 0 ? ", the sum so far lost" : ", the sum so far cut";
    }
    say("k {}..{}: window 2^{}, unit 2^{}; {} terms, {} cut, {} lost{}; {} units = {:.9g}; sum {}", begin, end - 1,
        t.window, unit, t.terms.size(), shortened, lost, cut, t.sum, std::ldexp(static_cast<double>(t.sum), unit),
        word_text(width_, next));
    return next;
  }

  std::uint32_t promoted() {
    const std::int64_t interval = p_.contract.promotion;
    const std::int64_t intervals = ceil_div(depth_, interval);
    float acc = 0;
    for (std::int64_t n = 0; n < intervals; ++n) {
      const std::int64_t k = (p_.contract.descending ? intervals - 1 - n : n) * interval;
      const auto sum = std::bit_cast<float>(chain(0, k, std::min(depth_, k + interval)));
      const float sa = a_.scale(i_, k);
      const float sb = b_.scale(j_, k);
      const float before = acc;
      switch (p_.contract.order) {
        case MatmulContract::Order::product: acc = std::fma(sum, sa * sb, acc); break;
        case MatmulContract::Order::a_first: acc = std::fma(sum * sa, sb, acc); break;
        case MatmulContract::Order::b_first: acc = std::fma(sum * sb, sa, acc); break;
      }
      say("  promoted: {:.9g} * {:.9g} * {:.9g} + {:.9g} = {}", sum, sa, sb, before,
          word_text(Format::fp32, std::bit_cast<std::uint32_t>(acc)));
    }
    return std::bit_cast<std::uint32_t>(acc);
  }

  const Matmul& p_;
  const Contract& sum_;
  OperandWindow a_;
  OperandWindow b_;
  std::int64_t i_;
  std::int64_t j_;
  Format width_ = Format::fp32;
  std::vector<Factor> a_codes_;
  std::vector<Factor> b_codes_;
  std::int64_t depth_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace

ExplainedOutput explain_output(const Matmul& p, std::int64_t expert, std::int64_t i, std::int64_t j) {
  check_matmul(p);
  if (i < 0 || j < 0 || i >= p.m() || j >= p.b.rows || expert < 0 || expert >= std::max<std::int64_t>(1, p.experts())) {
    throw Error(ErrorKind::usage, fmt::format("output ({}, {}) of expert {}: D is {} x {} x {}", i, j, expert,
                                              p.experts(), p.m(), p.b.rows));
  }
  for (const MatmulPart& part : parts_of(p)) {
    const std::int64_t first = p.grouping == Grouping::rows ? p.offsets[static_cast<std::size_t>(part.expert)] : 0;
    const bool here = p.grouping == Grouping::rows ? i >= first && i < first + part.a.rows : part.expert == expert;
    if (!here) continue;
    const std::int64_t row = i - first;
    std::uint32_t c = 0;
    if (p.c != nullptr) {
      const std::size_t width = code_width(p.output);
      const std::int64_t at = part.d_first + row * p.b.rows + j;
      std::memcpy(&c, static_cast<const std::byte*>(p.c) + at * static_cast<std::int64_t>(width), width);
    }
    return Explainer(p, part, row, j).explain(c, p.c != nullptr);
  }
  return {};
}

}  // namespace mxcheck
