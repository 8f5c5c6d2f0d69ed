#include "reference/matmul/operand.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/text.h"
#include "reference/common/checked_size.h"
#include "reference/matmul/any_order.h"
#include "reference/matmul/matmul.h"

namespace mxcheck {
namespace {

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw Error(ErrorKind::usage, "contract '" + std::string(text) + "': " + why);
}

std::int64_t interval(std::string_view text, std::string_view part) {
  const std::string_view digits = part.substr(std::string_view("promote").size());
  const auto value = parse_number<std::int64_t>(digits);
  if (!value || *value <= 0) refuse(text, "promote is followed by how many elements of k, as in promote128");
  return *value;
}

int kept_bits(std::string_view text, std::string_view part) {
  const auto bits = parse_number<int>(part.substr(1));
  if (!bits || *bits < 4 || *bits >= MatmulContract::kFp32KeptBits)
    refuse(text, "f is followed by the bits that an adder keeps, 4 to 22, as in f13; an FP32 accumulator needs no f");
  return *bits;
}

void check(const MatmulContract& c, std::string_view text) {
  if (c.any_order && c.from_c)
    refuse(text, "where no order is promised, C may be anywhere in the sum: +from_c says nothing");
  const bool fused = c.sum->arithmetic == Arithmetic::fused;
  if (c.promotion != 0 && (!fused || c.sum->scale_terms != 0 || c.sum->step.output.c != Format::fp32)) {
    refuse(text, "only sums of a tensor core in FP32 without scales of its own are promoted");
  }
  if (c.promotion != 0 && c.promotion % c.sum->step.terms != 0) {
    refuse(text, "the interval must be a multiple of a step, which is " + std::to_string(c.sum->step.terms));
  }
  if (c.order != MatmulContract::Order::product && c.promotion == 0) refuse(text, "an order of scales needs promotion");
  if (c.promotion != 0 && (c.from_c || c.decodes)) refuse(text, "promotion goes with neither from_c nor decode");
  if (c.decodes && (c.sum->scale_terms != 0 || c.sum->operands.front() != Format::bf16) &&
      c.sum->arithmetic == Arithmetic::fused) {
    refuse(text, "decode needs a sum of BF16 operands");
  }
  if (c.descending && !fused) refuse(text, "descending is said of steps of a tensor core");
}

constexpr std::string_view kAsAccurateAs = "as_accurate_as:";

// Intervals and exact values (any_order.h) must be those of what the contract reads and of accumulators that it has.
void check_accuracy(const MatmulContract& c, std::string_view text) {
  if (!c.promises_bits()) refuse(text, "only a contract that promises bits has errors to be compared with");
  const bool fused = c.sum->arithmetic == Arithmetic::fused;
  if (fused && c.sum->step.output.c != Format::fp32)
    refuse(text, "errors are compared with those of FP32 accumulators alone");
  if (c.sum->operand_mask != ~std::uint32_t{0})
    refuse(text, "the sum reads a part of its operands, so that no value is the exact one");
  if (c.sum->scale_terms != 0 && c.sum->scales.front() != Format::e8m0)
    refuse(text, "errors are compared under E8M0 and FP32 scales alone");
}

}  // namespace

MatmulContract parse_matmul_contract(std::string_view text) {
  MatmulContract c;
  if (text.starts_with(kAsAccurateAs)) {
    c = parse_matmul_contract(text.substr(kAsAccurateAs.size()));
    check_accuracy(c, text);
    c.as_accurate = true;
    if (c.sum->arithmetic == Arithmetic::fused)
      c.kept_bits = std::min(c.sum->step.fraction_bits, MatmulContract::kFp32KeptBits);
    return c;
  }
  if (text.ends_with('+')) refuse(text, "nothing follows the last +");
  std::string_view rest = text;
  for (bool first = true; first || !rest.empty(); first = false) {
    const std::size_t plus = rest.find('+');
    const std::string_view part = rest.substr(0, plus);
    rest = plus == std::string_view::npos ? std::string_view() : rest.substr(plus + 1);
    if (first && part == "any_order") {
      c.any_order = true, c.sum = &contract_named("exact");
    } else if (first) {
      c.sum = &contract_named(part);
    } else if (part.starts_with("promote")) {
      c.promotion = interval(text, part);
    } else if (part == "a_first" || part == "b_first") {
      c.order = part == "a_first" ? MatmulContract::Order::a_first : MatmulContract::Order::b_first;
    } else if (c.any_order && part.starts_with('f') && part != "from_c") {
      c.kept_bits = kept_bits(text, part);
    } else if (part == "decode") {
      c.decodes = true;
    } else if (part == "from_c") {
      c.from_c = true;
    } else if (part == "descending") {
      c.descending = true;
    } else {
      refuse(text, "'" + std::string(part) + "' is none of promoteN, a_first, b_first, decode, from_c, descending");
    }
  }
  check(c, text);
  return c;
}

std::string to_text(const MatmulContract& c) {
  std::string text(c.as_accurate ? kAsAccurateAs : "");
  text += c.any_order ? "any_order" : c.sum->name;
  if (c.any_order && c.kept_bits != MatmulContract::kFp32KeptBits) text += "+f" + std::to_string(c.kept_bits);
  if (c.promotion != 0) text += "+promote" + std::to_string(c.promotion);
  if (c.order == MatmulContract::Order::a_first) text += "+a_first";
  if (c.order == MatmulContract::Order::b_first) text += "+b_first";
  if (c.decodes) text += "+decode";
  if (c.from_c) text += "+from_c";
  if (c.descending) text += "+descending";
  return text;
}

namespace {

std::string of(const std::string& name) { return "operand " + name; }

void check_operand(const MatmulOperand& x, const std::string& name, const Matmul& p) {
  const MatmulContract& c = p.contract;
  if (x.rows < 0 || x.depth < 0) {
    refuse_usage(of(name) + " has " + std::to_string(x.rows) + " x " + std::to_string(x.depth) +
                 " codes: 0 or more are needed");
  }
  (void)checked_product(x.rows, x.depth, of(name));
  if (!x.scaled()) {
    if (x.block.cols != 0) refuse_usage(of(name) + " has blocks of no rows");
    if (c.sum->scale_terms != 0) refuse_usage("contract " + to_text(c) + " needs scales of operand " + name);
    return;
  }
  if (x.block.rows < 0 || x.block.cols <= 0) {
    refuse_usage(of(name) + " has scales of blocks " + to_text(x.block) + ": a number of rows and of k is needed");
  }
  const bool hardware = c.sum->scale_terms != 0;
  const bool plain_sum = c.sum->arithmetic == Arithmetic::fused && c.promotion == 0 && !c.decodes && !hardware;
  if (plain_sum) {
    refuse_usage("contract " + to_text(c) + " takes no scales; with +promote" + std::to_string(x.block.cols) +
                 " they enter as each block's sum is added, with +decode before");
  }
  if (c.promotion != 0 && x.block.cols % c.promotion != 0) {
    refuse_usage("contract " + to_text(c) + " adds up every " + std::to_string(c.promotion) +
                 " of k, but scales of operand " + name + " change every " + std::to_string(x.block.cols));
  }
  if (hardware && (x.block.rows != 1 || x.block.cols != c.sum->scale_terms)) {
    refuse_usage("contract " + to_text(c) + " has scales of blocks 1x" + std::to_string(c.sum->scale_terms) +
                 ", operand " + name + " of " + to_text(x.block));
  }
  constexpr std::array kDecoded{Format::e8m0, Format::fp32, Format::e4m3};
  const std::span<const Format> in_software = std::span(kDecoded).first(c.decodes ? 3 : 2);
  const auto known = hardware ? std::span<const Format>(c.sum->scales).first(1) : in_software;
  const auto taken = hardware ? std::span<const Format>(c.sum->scales) : in_software;
  if (std::find(taken.begin(), taken.end(), x.scale_format) == taken.end()) {
    refuse_usage("scales of operand " + name + " are " + std::string(spec(x.scale_format).name) + ": contract " +
                 to_text(c) + " takes " + join(known, " or ", [](Format f) { return spec(f).name; }));
  }
}

void check_counts(const Matmul& p) {
  if (!p.offsets.empty()) refuse_usage("masked groups have counts, not offsets");
  if (p.gathers) refuse_usage("masked groups have no row index");
  if (p.counts.empty() || p.m() % p.experts() != 0) {
    refuse_usage("masked groups divide rows into equal parts: " + std::to_string(p.m()) + " rows, " +
                 std::to_string(p.experts()) + " counts");
  }
  if (p.a.block.rows > 1) refuse_usage("scales of masked groups are of single rows of operand a");
  for (std::size_t e = 0; e < p.counts.size(); ++e) {
    if (p.counts[e] < 0 || p.counts[e] > p.capacity()) {
      refuse_usage("masked group " + std::to_string(e) + " has " + std::to_string(p.counts[e]) +
                   " rows: 0 to its capacity, " + std::to_string(p.capacity()) + ", are possible");
    }
  }
}

void check_groups(const Matmul& p) {
  if (p.grouping == Grouping::masked) return check_counts(p);
  if (!p.counts.empty()) refuse_usage("counts are given, but the matmul has no masked groups");
  if (p.grouping == Grouping::none) {
    if (!p.offsets.empty()) refuse_usage("offsets are given, but the matmul has no groups");
    return;
  }
  const std::int64_t end = p.grouping == Grouping::rows ? p.m() : p.a.depth;
  const std::string what = p.grouping == Grouping::rows ? "rows" : "k";
  if (p.offsets.empty() || p.offsets.front() != 0 || p.offsets.back() != end) {
    refuse_usage("offsets of groups begin with 0 and end with the number of " + what + ", which is " +
                 std::to_string(end));
  }
  for (std::size_t e = 1; e < p.offsets.size(); ++e) {
    if (p.offsets[e] < p.offsets[e - 1]) {
      refuse_usage("offsets descend from " + std::to_string(p.offsets[e - 1]) + " to " + std::to_string(p.offsets[e]) +
                   " at group " + std::to_string(e - 1));
    }
  }
}

}  // namespace

void check_matmul(const Matmul& p) {
  const MatmulContract& c = p.contract;
  if (c.sum == nullptr) refuse_usage("a matmul without a contract");
  if (p.a.depth != p.b.depth) {
    refuse_usage("K differs: operand a has " + std::to_string(p.a.depth) + ", operand b " + std::to_string(p.b.depth));
  }
  check_operand(p.a, "a", p);
  check_operand(p.b, "b", p);
  if (c.decodes) {
    if (spec(p.a.format).bits > 8 || spec(p.b.format).bits > 8) refuse_usage("+decode is of codes of at most 8 bits");
  } else {
    check_operands(*c.sum, p.a.format, p.b.format);
  }
  if (c.sum->scale_terms != 0 && p.a.scale_format != p.b.scale_format)
    refuse_usage("both operands' scales must be of one format");
  if (p.output != Format::fp32 && p.output != Format::bf16 && p.output != Format::fp16) {
    refuse_usage("D is written as fp32, bf16 or fp16, not " + std::string(spec(p.output).name));
  }
  if (c.from_c && p.c == nullptr) refuse_usage("contract " + to_text(c) + " starts from C: there is none");
  if (c.from_c && (p.alpha != 1 || (c.sum->arithmetic == Arithmetic::fused ? p.output != c.sum->step.output.c
                                                                           : p.output != Format::fp32))) {
    refuse_usage("contract " + to_text(c) + " starts from C: alpha is 1 and C has the sum's own type");
  }
  for (std::int32_t row : p.row_index) {
    if (row < 0 || row >= p.a.rows) {
      refuse_usage("row index " + std::to_string(row) + " of operand a, which has " + std::to_string(p.a.rows) +
                   " rows");
    }
  }
  check_groups(p);
  (void)checked_product(checked_product(p.experts(), p.m(), "D"), p.b.rows, "D");
}

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
    const bool by_rows = p.grouping == Grouping::rows || p.grouping == Grouping::masked;
    const std::int64_t first = !by_rows                         ? 0
                               : p.grouping == Grouping::masked ? part.a.first_row
                                                                : p.offsets[static_cast<std::size_t>(part.expert)];
    const bool here = by_rows ? i >= first && i < first + part.a.rows : part.expert == expert;
    if (!here) continue;
    const std::int64_t row = i - first;
    std::uint32_t c = 0;
    if (p.c != nullptr) {
      const std::size_t width = code_width(p.output);
      const std::int64_t at = part.d_first + row * p.b.rows + j;
      std::memcpy(&c, static_cast<const std::byte*>(p.c) + at * static_cast<std::int64_t>(width), width);
    }
    ExplainedOutput out = Explainer(p, part, row, j).explain(c, p.c != nullptr);
    if (!p.contract.promises_bits()) {
      std::vector<std::uint8_t> wanted(static_cast<std::size_t>(p.rows_of_d() * p.b.rows));
      const auto at = static_cast<std::size_t>(part.d_first + row * p.b.rows + j);
      wanted[at] = 1;
      out.lines.push_back("whatever the order: " + to_text(any_order_ranges(p, wanted)[at]));
    }
    return out;
  }
  return {};
}

}  // namespace mxcheck
