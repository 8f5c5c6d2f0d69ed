#include "properties/identify/product.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/text.h"
#include "properties/core/rng.h"
#include "properties/identify/node_sums.h"
#include "properties/identify/product_definitions.h"
#include "properties/identify/reveal.h"
#include "reference/common/checked_size.h"
#include "reference/matmul/matmul.h"

namespace mxcheck {
namespace {

AnswerPart part_of(const ProductCall& call, std::vector<std::uint32_t> words) {
  if (static_cast<std::int64_t>(words.size()) != call.m * call.n) {
    throw Error(ErrorKind::usage, "the box answered " + std::to_string(words.size()) + " words; D is " +
                                      std::to_string(call.m) + " x " + std::to_string(call.n));
  }
  return {"D", call.output, std::move(words), call.n, true};
}

std::vector<BoxDefinition> definitions_of(const std::vector<std::string>& texts, std::span<const ProductCall> calls) {
  std::vector<BoxDefinition> definitions;
  for (const std::string& text : texts) {
    definitions.push_back({text, [calls, text](std::size_t p) -> BoxAnswer {
                             return {part_of(calls[p], answer_of_contract(text, calls[p]))};
                           }});
  }
  return definitions;
}

constexpr std::int64_t kLarge = std::int64_t{1} << 26;  // multiplications
constexpr std::int64_t kCorner = 16;                    // rows and columns of D

std::vector<std::uint32_t> first_rows(const std::vector<std::uint32_t>& words, std::int64_t rows, std::int64_t cols) {
  return {words.begin(), words.begin() + rows * cols};
}

// The upper left of a D, as a call of its own.
ProductCall corner(const ProductCall& call) {
  ProductCall part = call;
  part.m = std::min(kCorner, call.m), part.n = std::min(kCorner, call.n);
  part.a = first_rows(call.a, part.m, call.k), part.b = first_rows(call.b, part.n, call.k);
  if (call.scale_k == 0) return part;
  const std::int64_t blocks = ceil_div(call.k, call.scale_k);
  part.a_scales = first_rows(call.a_scales, ceil_div(part.m, call.a_scale_rows), blocks);
  part.b_scales = first_rows(call.b_scales, ceil_div(part.n, call.b_scale_rows), blocks);
  return part;
}

// The definitions that explain a corner of a large D, and the closest there: the others are not computed in full.
std::vector<std::string> worth_computing(const std::vector<std::string>& texts, const ProductCall& call,
                                         const std::vector<std::uint32_t>& answer) {
  const ProductCall part = corner(call);
  std::vector<std::uint32_t> d;
  for (std::int64_t i = 0; i < part.m * part.n; ++i) {
    d.push_back(answer[static_cast<std::size_t>(i / part.n * call.n + i % part.n)]);
  }
  const std::string name = "corner";
  const BoxAnswer observed{part_of(part, std::move(d))};
  const Match match = match_answers({&name, 1}, {&observed, 1}, definitions_of(texts, {&part, 1}));
  std::vector<std::string> worth = match.explaining;
  for (const Explained& e : match.closest) worth.push_back(e.name);
  return worth;
}

// The number of definitions is that of all, computed in full or not.
Match match_of(const std::vector<std::string>& texts, std::span<const std::string> names,
               std::span<const ProductCall> calls, std::span<const BoxAnswer> parts, const std::string& declared) {
  const ProductCall& one = calls.front();
  const bool large =
      calls.size() == 1 && one.c.empty() && one.m * one.n > kCorner * kCorner && one.m * one.n * one.k > kLarge;
  if (!large) return match_answers(names, parts, definitions_of(texts, calls), declared);
  const std::vector<std::string> worth = worth_computing(texts, one, parts.front().front().words);
  Match match = match_answers(names, parts, definitions_of(worth, calls), declared);
  match.tried = texts.size();
  return match;
}

}  // namespace

// Split-k is looked at only where no contract explains everything: it is most of the work.
Match match_products(std::span<const std::string> names, std::span<const ProductCall> calls,
                     std::span<const std::vector<std::uint32_t>> answers, const std::string& declared) {
  std::vector<BoxAnswer> parts;
  for (std::size_t p = 0; p < calls.size(); ++p) parts.push_back({part_of(calls[p], answers[p])});
  if (calls.empty()) return {};
  const ProductSpace space = space_of(calls.front());
  std::vector<std::string> texts = product_contracts(space);
  if (!declared.empty() && std::ranges::find(texts, declared) == texts.end()) texts.push_back(declared);
  Match match = match_of(texts, names, calls, parts, declared);
  if (match.explained()) {
    const std::string words = other_words(match.explaining.front(), space);
    if (!words.empty()) match.notes.push_back(words);
    return match;
  }
  const std::vector<std::string> split = split_products(space);
  Match in_parts = match_of(split, names, calls, parts, declared);
  match.explaining = in_parts.explaining;
  match.tried += in_parts.tried;
  match.closest.insert(match.closest.end(), in_parts.closest.begin(), in_parts.closest.end());
  keep_closest(match);
  return match;
}

ProductReport identify_product(const ProductSpace& space, const ProductBox& box, const ProductQuestion& question) {
  if (space.k < 1) throw Error(ErrorKind::usage, "K is " + std::to_string(space.k) + "; it must be at least 1");
  if (product_contracts(space).empty()) {
    throw Error(ErrorKind::usage, "no contract multiplies " + std::string(spec(space.a).name) + " and " +
                                      std::string(spec(space.b).name) + " to " + std::string(spec(space.output).name) +
                                      " with these scales; mxcheck mma --list has them");
  }
  std::vector<std::string> names;
  std::vector<ProductCall> calls;
  std::vector<std::vector<std::uint32_t>> answers;
  for (auto& [name, call] : product_probes(space)) {
    answers.push_back(box(call));
    names.push_back(name);
    calls.push_back(std::move(call));
  }
  ProductReport report{match_products(names, calls, answers, question.declared), std::nullopt};
  const bool wanted = question.tree == TreeWanted::always ||
                      (question.tree == TreeWanted::where_unexplained && !report.match.explained());
  if (wanted) report.order = reveal_order(space, box);
  return report;
}

std::string to_text(const ProductReport& report) {
  return to_text(report.match) + (report.order ? to_text(*report.order) : "");
}

namespace {

// A chain of hundreds of terms is as many parentheses; JSON has all of them.
std::string shortened(const std::string& text) {
  return text.size() <= 240 ? text : text.substr(0, 120) + " ... " + text.substr(text.size() - 80);
}

}  // namespace

std::string to_text(const TreeReport& o) {
  if (!o.tree) return "order         no tree: " + o.why_not + "\n";
  std::string text =
      "order         " + o.shape.value_or("of no name") + ", from " + std::to_string(o.masks) + " masks\n";
  text += "  tree        " + shortened(o.tree->text()) + "\n";
  for (const std::string& a : o.arithmetic) {
    text += "  additions   " + a + ": all of " + std::to_string(o.compared) + " random sums equal\n";
  }
  if (o.arithmetic.empty()) {
    text += "  additions   none that were tried; closest " + o.closest + ", " + std::to_string(o.closest_equal) +
            " of " + std::to_string(o.compared) + " random sums equal\n";
  }
  if (o.keeps_more) {
    text += "  compensated it keeps small terms that additions in this tree lose: compensated (Kahan), or wider\n";
  }
  return text;
}

namespace {

constexpr std::string_view kSplit = ", split-k of ";
constexpr std::string_view kParts = " in parts of ";
constexpr std::string_view kAdded = ", added ";

std::size_t width_of(Format format) { return spec(format).bits <= 8 ? 1 : spec(format).bits <= 16 ? 2 : 4; }

std::vector<std::byte> packed(Format format, const std::vector<std::uint32_t>& words) {
  const std::size_t width = width_of(format);
  std::vector<std::byte> bytes(words.size() * width);
  for (std::size_t i = 0; i < words.size(); ++i) std::memcpy(bytes.data() + i * width, &words[i], width);
  return bytes;
}

void add_variants(const Contract& c, const ProductSpace& s, std::vector<std::string>& texts) {
  const std::string name(c.name);
  const bool fused = c.arithmetic == Arithmetic::fused;
  texts.push_back(name);
  if (s.scale_k != 0) texts.push_back(name + "+decode");
  if (s.with_c) texts.push_back(name + "+from_c");
  if (!fused) return;
  texts.push_back(name + "+descending");
  if (s.with_c) texts.push_back(name + "+from_c+descending");
  if (s.scale_k != 0) texts.push_back(name + "+decode+descending");
  for (std::int64_t every = c.step.terms; every <= s.k; every += c.step.terms) {
    const std::string promoted = name + "+promote" + std::to_string(every);
    for (const char* order : {"", "+a_first", "+b_first"}) {
      if (s.scale_k == 0 && order[0] != '\0') continue;  // without scales all orders are one
      texts.push_back(promoted + order);
      texts.push_back(promoted + order + "+descending");
    }
  }
}

// Whether the contract takes the formats, blocks and output, by a call of one output that holds zeros.
bool fits(const std::string& text, const ProductSpace& s) {
  ProductCall call{
      s.a, s.b, s.output, 1, 1, s.k, {}, {}, s.scale_k, s.scale_format, {}, {}, {}, s.a_scale_rows, s.b_scale_rows};
  call.a.assign(static_cast<std::size_t>(s.k), 0), call.b = call.a;
  if (s.scale_k != 0) call.a_scales.assign(static_cast<std::size_t>(ceil_div(s.k, s.scale_k)), 0);
  call.b_scales = call.a_scales;
  if (s.with_c) call.c = {0};
  try {
    answer_of_contract(text, call);
    return true;
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::usage) throw;
    return false;
  }
}

MatmulOperand operand_of(Format format, std::int64_t rows, std::int64_t scale_rows, const ProductCall& call,
                         const void* codes, const void* scales) {
  MatmulOperand o;
  o.format = format, o.codes = codes, o.rows = rows, o.depth = call.k, o.row_stride = call.k;
  if (call.scale_k == 0) return o;
  o.block = {scale_rows, call.scale_k};
  o.scale_format = call.scale_format, o.scales = scales;
  o.scale_row_stride = ceil_div(call.k, call.scale_k);
  return o;
}

std::vector<std::uint32_t> answer_in_one(const std::string& contract, const ProductCall& call) {
  Matmul m;
  m.contract = parse_matmul_contract(contract);
  const std::vector<std::byte> a = packed(call.a_format, call.a);
  const std::vector<std::byte> b = packed(call.b_format, call.b);
  const std::vector<std::byte> sa = packed(call.scale_format, call.a_scales);
  const std::vector<std::byte> sb = packed(call.scale_format, call.b_scales);
  const std::vector<std::byte> c = packed(call.output, call.c);
  m.a = operand_of(call.a_format, call.m, call.a_scale_rows, call, a.data(), sa.data());
  m.b = operand_of(call.b_format, call.n, call.b_scale_rows, call, b.data(), sb.data());
  m.output = call.output;
  m.c = call.c.empty() ? nullptr : c.data();
  m.threads = call.m * call.n * call.k > (1 << 22) ? 0 : 1;
  const std::size_t width = width_of(call.output);
  std::vector<std::byte> d(static_cast<std::size_t>(call.m * call.n) * width);
  matmul(m, d.data());
  std::vector<std::uint32_t> words(d.size() / width);
  for (std::size_t i = 0; i < words.size(); ++i) std::memcpy(&words[i], d.data() + i * width, width);
  return words;
}

// Columns [first, end) of a matrix of `cols`.
std::vector<std::uint32_t> columns(const std::vector<std::uint32_t>& words, std::int64_t cols, std::int64_t first,
                                   std::int64_t end) {
  std::vector<std::uint32_t> cut;
  for (auto row = words.begin(); row != words.end(); row += cols) cut.insert(cut.end(), row + first, row + end);
  return cut;
}

ProductCall product_definitions_part_of(const ProductCall& call, std::int64_t first, std::int64_t end) {
  ProductCall part = call;
  part.output = Format::fp32;
  part.k = end - first;
  part.a = columns(call.a, call.k, first, end), part.b = columns(call.b, call.k, first, end);
  if (call.scale_k == 0) return part;
  const std::int64_t blocks = ceil_div(call.k, call.scale_k);
  const std::int64_t from = first / call.scale_k;
  const std::int64_t to = ceil_div(end, call.scale_k);
  part.a_scales = columns(call.a_scales, blocks, from, to), part.b_scales = columns(call.b_scales, blocks, from, to);
  return part;
}

struct Split {
  std::string contract;
  std::int64_t parts = 0;
  std::int64_t length = 0;
  std::string order;  // "", descending, pairwise
};

std::optional<Split> split_of(const std::string& text) {
  const std::size_t at = text.find(kSplit);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t in = text.find(kParts, at);
  if (in == std::string::npos) throw Error(ErrorKind::usage, "'" + text + "' is no definition of a product");
  const std::size_t added = std::min(text.find(kAdded, in), text.size());
  const auto number = [&](std::size_t from, std::size_t to) {
    const auto value = parse_number<std::int64_t>(std::string_view(text).substr(from, to - from));
    if (!value || *value < 1) throw Error(ErrorKind::usage, "'" + text + "' is no definition of a product");
    return *value;
  };
  Split split{text.substr(0, at), number(at + kSplit.size(), in), number(in + kParts.size(), added), ""};
  if (added < text.size()) split.order = text.substr(added + kAdded.size());
  return split;
}

float value_of(std::uint32_t word) { return std::bit_cast<float>(word); }

std::vector<std::uint32_t> added(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  std::vector<std::uint32_t> sums;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sums.push_back(std::bit_cast<std::uint32_t>(value_of(a[i]) + value_of(b[i])));
  }
  return sums;
}

std::vector<std::uint32_t> answer_in_parts(const Split& split, const ProductCall& call) {
  if (!call.c.empty() || call.k == 0 || ceil_div(call.k, split.length) != split.parts) {
    throw Error(ErrorKind::usage, "K of " + std::to_string(call.k) + " has no " + std::to_string(split.parts) +
                                      " parts of " + std::to_string(split.length));
  }
  std::vector<std::vector<std::uint32_t>> sums;
  for (std::int64_t first = 0; first < call.k; first += split.length) {
    sums.push_back(answer_in_one(split.contract,
                                 product_definitions_part_of(call, first, std::min(call.k, first + split.length))));
  }
  if (split.order == "descending") std::ranges::reverse(sums);
  if (split.order == "pairwise" && sums.size() == 4) sums = {added(sums[0], sums[1]), added(sums[2], sums[3])};
  std::vector<std::uint32_t> d = sums.front();
  for (std::size_t i = 1; i < sums.size(); ++i) d = added(d, sums[i]);
  for (std::uint32_t& word : d) {
    word = encode(call.output, value_of(word), Rounding::nearest_even, Overflow::non_saturate);
  }
  return d;
}

// The lengths that so many parts can have: multiples of a tile, of the step and of the blocks of scales.
std::vector<std::int64_t> lengths_of(const ProductSpace& s, std::int64_t parts, std::int64_t step) {
  std::vector<std::int64_t> lengths;
  const std::int64_t unit = std::lcm(step, std::max<std::int64_t>(1, s.scale_k));
  for (std::int64_t tile : {1, 32, 64, 128}) {
    const std::int64_t each = std::lcm(unit, tile);
    const std::int64_t length = ceil_div(ceil_div(s.k, parts), each) * each;
    if (ceil_div(s.k, length) == parts && std::ranges::find(lengths, length) == lengths.end())
      lengths.push_back(length);
  }
  return lengths;
}

}  // namespace

ProductSpace space_of(const ProductCall& call) {
  return {call.a_format,     call.b_format,   call.output,       call.k,           call.scale_k,
          call.scale_format, !call.c.empty(), call.a_scale_rows, call.b_scale_rows};
}

std::vector<std::string> product_contracts(const ProductSpace& space) {
  std::vector<std::string> texts;
  for (const Contract& c : all_contracts()) add_variants(c, space, texts);
  std::erase_if(texts, [&](const std::string& text) { return !fits(text, space); });
  return texts;
}

std::vector<std::string> split_products(const ProductSpace& space) {
  std::vector<std::string> texts;
  if (space.with_c) return texts;
  ProductSpace whole = space;
  whole.output = Format::fp32;
  for (const std::string& text : product_contracts(whole)) {
    const MatmulContract contract = parse_matmul_contract(text);
    const bool usual = contract.promotion == 0 || 256 % contract.promotion == 0;  // 32, 64, 128, 256
    if (contract.descending || contract.promotion == space.k || !usual) continue;
    const std::int64_t step = contract.promotion != 0 ? contract.promotion : std::max(1, contract.sum->step.terms);
    for (std::int64_t parts = 2; parts <= 4; ++parts) {
      for (const std::int64_t length : lengths_of(space, parts, step)) {
        if (contract.promotion == length) continue;  // as promotion alone
        if (contract.promotion == 0 && space.scale_k == 0 && contract.sum->arithmetic == Arithmetic::fused) continue;
        const std::string split =
            text + std::string(kSplit) + std::to_string(parts) + std::string(kParts) + std::to_string(length);
        texts.push_back(split);
        if (parts > 2) texts.push_back(split + std::string(kAdded) + "descending");
        if (parts == 4) texts.push_back(split + std::string(kAdded) + "pairwise");
      }
    }
  }
  return texts;
}

std::string other_words(const std::string& definition, const ProductSpace& space) {
  if (space.scale_k != 0 || space.with_c || definition.find(kSplit) != std::string::npos) return {};
  const MatmulContract contract = parse_matmul_contract(definition);
  const std::int64_t parts = contract.promotion == 0 ? 0 : ceil_div(space.k, contract.promotion);
  if (parts < 2 || parts > 4) return {};
  return "split-k of " + std::to_string(parts) + std::string(kParts) + std::to_string(contract.promotion) +
         (contract.descending ? std::string(kAdded) + "descending" : "") + ", no promotion within them";
}

std::vector<std::uint32_t> answer_of_contract(const std::string& definition, const ProductCall& call) {
  if (const auto split = split_of(definition)) return answer_in_parts(*split, call);
  return answer_in_one(definition, call);
}

// The calls that a black box which multiplies is asked: each a different stress of a sum.

namespace {

enum class Data { ordinary, wide, intervals, cancelling, special };

std::uint32_t drawn(Format format, Data data, Draw& draw) {
  const FormatSpec& f = spec(format);
  const auto any = static_cast<std::uint32_t>(draw.word() & ((std::uint64_t{1} << f.bits) - 1));
  if (data == Data::special && draw.chance(3)) return any;
  const auto mantissa = std::ldexp(static_cast<double>(draw.between(1 - (1 << 24), (1 << 24) - 1)), -23);
  const int spread = data == Data::wide ? static_cast<int>(draw.between(-9, 6)) : static_cast<int>(draw.between(-1, 1));
  return encode(format, std::ldexp(mantissa, spread), Rounding::nearest_even, Overflow::saturate);
}

// Every second product nearly takes back the one before it.
void cancel(ProductCall& call, Draw& draw) {
  const std::uint32_t sign = std::uint32_t{1} << (spec(call.a_format).bits - 1);
  for (std::size_t i = 0; i + 1 < call.a.size(); i += 2) {
    call.a[i + 1] = call.a[i] ^ sign;
    if (draw.chance(30) && (call.a[i + 1] & 0x7F) > 1) --call.a[i + 1];
  }
  for (std::size_t i = 0; i + 1 < call.b.size(); i += 2) call.b[i + 1] = call.b[i];
}

// Every 32 of k have a magnitude of their own, and every 128 one that is further from their neighbours', so that adding
// up intervals rounds: their order then shows.
std::vector<std::uint32_t> drawn_rows(Format format, std::int64_t rows, std::int64_t k, Data data, Draw& draw) {
  std::vector<std::uint32_t> codes;
  int far = 0;
  int shift = 0;
  for (std::int64_t i = 0; i < rows * k; ++i) {
    if (data == Data::intervals && i % k % 128 == 0) far = static_cast<int>(draw.between(-6, 6));
    if (data == Data::intervals && i % k % 32 == 0) shift = far + static_cast<int>(draw.between(-2, 2));
    const std::uint32_t code = drawn(format, data, draw);
    const double shifted = std::ldexp(decode(format, code), shift);
    codes.push_back(shift == 0 ? code : encode(format, shifted, Rounding::nearest_even, Overflow::saturate));
  }
  return codes;
}

// Where products cancel, scales lie far apart: what the smaller ones add is then left, or was cut off before.
std::vector<std::uint32_t> drawn_scales(const ProductSpace& s, std::int64_t rows, std::int64_t of, Data data,
                                        Draw& draw) {
  const std::int64_t blocks = ceil_div(rows, of) * ceil_div(s.k, s.scale_k);
  std::vector<std::uint32_t> scales(static_cast<std::size_t>(blocks));
  for (std::uint32_t& word : scales) {
    // All 23 bits of an FP32 scale: products of shorter ones are exact, and every order of them is one.
    const double fraction = s.scale_format == Format::e8m0 ? 1 : 1 + std::ldexp(draw.between(0, (1 << 23) - 1), -23);
    const double value = std::ldexp(fraction, static_cast<int>(draw.between(data == Data::cancelling ? -16 : -6, 3)));
    word = encode(s.scale_format, value, Rounding::nearest_even, Overflow::saturate);
  }
  return scales;
}

ProductCall drawn_call(const ProductSpace& s, std::int64_t m, std::int64_t n, Data data, Draw& draw) {
  ProductCall call{
      s.a, s.b, s.output, m, n, s.k, {}, {}, s.scale_k, s.scale_format, {}, {}, {}, s.a_scale_rows, s.b_scale_rows};
  call.a = drawn_rows(s.a, m, s.k, data, draw);
  call.b = drawn_rows(s.b, n, s.k, data, draw);
  if (data == Data::cancelling) cancel(call, draw);
  if (s.scale_k != 0) {
    call.a_scales = drawn_scales(s, m, s.a_scale_rows, data, draw);
    call.b_scales = drawn_scales(s, n, s.b_scale_rows, data, draw);
  }
  for (std::int64_t i = 0; s.with_c && i < m * n; ++i) {
    const double value = std::ldexp(draw.between(-4096, 4096), static_cast<int>(draw.between(-20, -4)));
    call.c.push_back(encode(s.output, value, Rounding::nearest_even, Overflow::saturate));
  }
  return call;
}

// The second half of k takes back the first but for one product in a hundred: what is left is what intervals rounded,
// which a narrow D shows too.
ProductCall halves_that_cancel(const ProductSpace& s, Draw& draw) {
  ProductCall call = drawn_call(s, s.m, s.n, Data::intervals, draw);
  const std::uint32_t sign = std::uint32_t{1} << (spec(s.a).bits - 1);
  const std::int64_t half = s.k / 2;
  for (std::int64_t i = 0; i < std::max(s.m, s.n); ++i) {
    for (std::int64_t k = 0; k < half; ++k) {
      const auto from = static_cast<std::size_t>(i * s.k + k);
      const auto to = static_cast<std::size_t>(i * s.k + k + half);
      if (i < s.m && !draw.chance(1)) call.a[to] = call.a[from] ^ sign;
      if (i < s.n) call.b[to] = call.b[from];
    }
  }
  for (std::uint32_t& word : call.a_scales) word = call.a_scales.front();
  for (std::uint32_t& word : call.b_scales) word = call.b_scales.front();
  return call;
}

}  // namespace

std::vector<std::pair<std::string, ProductCall>> product_probes(const ProductSpace& s) {
  Draw draw(derived_seed(0, "identify product"));  // the same probes on every run
  std::vector<std::pair<std::string, ProductCall>> probes;
  probes.emplace_back("ordinary", drawn_call(s, s.m, s.n, Data::ordinary, draw));
  probes.emplace_back("wide exponents", drawn_call(s, s.m, s.n, Data::wide, draw));
  probes.emplace_back("intervals of far magnitudes", drawn_call(s, s.m, s.n, Data::intervals, draw));
  probes.emplace_back("nearly cancelling", drawn_call(s, s.m, s.n, Data::cancelling, draw));
  probes.emplace_back("halves that cancel", halves_that_cancel(s, draw));
  if (s.one_shape) {
    probes.emplace_back("special values", drawn_call(s, s.m, s.n, Data::special, draw));
    return probes;
  }
  probes.emplace_back("one row", drawn_call(s, 1, 8, Data::wide, draw));
  probes.emplace_back("special values", drawn_call(s, 8, 8, Data::special, draw));
  if (s.scale_k != 0 && (s.a_scale_rows > 1 || s.b_scale_rows > 1)) {
    const auto rows = [](std::int64_t of) { return of > 1 ? of + 8 : 4; };  // two blocks of rows
    const ProductCall call = drawn_call(s, rows(s.a_scale_rows), rows(s.b_scale_rows), Data::ordinary, draw);
    probes.emplace_back("blocks of rows", call);
  }
  return probes;
}

namespace {

using Terms = std::vector<ProductTerm>;

enum class Products { rounded, fused, fused_from_the_last };

struct Additions {
  Format format;  // fp32 stands for FP64 too where `doubles`
  Rounding rounding;
  Products products;
  bool doubles = false;
};

// a + b as if exact, then rounded. The error of a double's sum (Knuth's two-sum) keeps the truncation from seeing a
// value that rounding to 53 bits has carried over a boundary.
double node_sums_added(const Additions& f, double a, double b) {
  double s = a + b;
  if (f.doubles) return s;
  if (f.rounding == Rounding::toward_zero && std::isfinite(s)) {
    const double b_part = s - a;
    const double error = (a - (s - b_part)) + (b - b_part);
    if (error != 0 && std::signbit(error) != std::signbit(s)) s = std::nextafter(s, 0.0);
  }
  return decode(f.format, encode(f.format, s, f.rounding, Overflow::non_saturate));
}

double product(const Additions& f, const ProductTerm& t) { return node_sums_added(f, t.a_value * t.b_value, 0); }

double value_at(const Additions& f, const SumTree& t, const Terms& terms) {
  const auto term = [&](const SumTree& leaf) -> const ProductTerm& {
    return terms[static_cast<std::size_t>(leaf.term)];
  };
  if (t.leaf()) return product(f, term(t));
  const SumTree& left = t.children[0];
  const SumTree& right = t.children[1];
  const bool with_leaf = left.leaf() || right.leaf();
  if (f.products == Products::rounded || !with_leaf) {
    return node_sums_added(f, value_at(f, left, terms), value_at(f, right, terms));
  }
  const bool both = left.leaf() && right.leaf();
  const bool fuses_left = both ? f.products == Products::fused_from_the_last : left.leaf();
  const ProductTerm& fused = term(fuses_left ? left : right);
  const double other = value_at(f, fuses_left ? right : left, terms);
  if (f.doubles) return std::fma(fused.a_value, fused.b_value, other);
  if (f.format == Format::fp32) {
    return std::fma(static_cast<float>(fused.a_value), static_cast<float>(fused.b_value), static_cast<float>(other));
  }
  return node_sums_added(f, fused.a_value * fused.b_value, other);
}

bool binary(const SumTree& t) {
  return t.leaf() || (t.children.size() == 2 && std::ranges::all_of(t.children, binary));
}

// A fused sum has at most one child that is a sum itself: its accumulator.
bool fusable(const SumTree& t) {
  if (t.leaf()) return true;
  const auto sums = std::ranges::count_if(t.children, [](const SumTree& c) { return !c.leaf(); });
  return (sums <= 1 || t.children.size() == 2) && std::ranges::all_of(t.children, fusable);
}

std::uint32_t word_at(const FusedSum& step, const SumTree& t, const Terms& terms) {
  std::vector<Factor> a, b;
  std::vector<std::uint32_t> sums;
  const auto take = [&](const SumTree& leaf) {
    a.push_back(terms[static_cast<std::size_t>(leaf.term)].a);
    b.push_back(terms[static_cast<std::size_t>(leaf.term)].b);
  };
  if (t.leaf()) take(t);
  for (const SumTree& c : t.children) {
    if (c.leaf()) {
      take(c);
    } else {
      sums.push_back(word_at(step, c, terms));
    }
  }
  if (sums.size() == 2) {  // a promotion
    const double x = decode(step.output.c, sums[0]) + decode(step.output.c, sums[1]);
    return encode(step.output.c, x, Rounding::nearest_even, Overflow::non_saturate);
  }
  FusedSum one = step;
  one.terms = static_cast<int>(a.size());
  return fused_sum(one, a, b, sums.empty() ? 0 : sums[0]);
}

std::vector<NodeArithmetic> additions_in(const SumTree& tree) {
  const std::pair<const char*, Additions> all[] = {
      {"FP32, products rounded first", {Format::fp32, Rounding::nearest_even, Products::rounded}},
      {"FP32 fused multiply-adds", {Format::fp32, Rounding::nearest_even, Products::fused}},
      {"FP32 fused multiply-adds, the last of two products rounded first",
       {Format::fp32, Rounding::nearest_even, Products::fused_from_the_last}},
      {"FP32 toward zero", {Format::fp32, Rounding::toward_zero, Products::rounded}},
      {"FP16, products rounded first", {Format::fp16, Rounding::nearest_even, Products::rounded}},
      {"FP16 fused multiply-adds", {Format::fp16, Rounding::nearest_even, Products::fused}},
      {"BF16, products rounded first", {Format::bf16, Rounding::nearest_even, Products::rounded}},
      {"BF16 fused multiply-adds", {Format::bf16, Rounding::nearest_even, Products::fused}},
      {"FP64", {Format::fp32, Rounding::nearest_even, Products::rounded, true}},
  };
  std::vector<NodeArithmetic> found;
  for (const auto& [name, f] : all) {
    found.push_back({name, [&tree, f = f](const Terms& terms, Format output) {
                       return encode(output, value_at(f, tree, terms), Rounding::nearest_even, Overflow::non_saturate);
                     }});
  }
  return found;
}

std::vector<NodeArithmetic> fused_sums_in(const SumTree& tree) {
  SumOutput rounded = kFp32Output;
  rounded.rounds_to_even = true;
  const std::pair<const char*, SumOutput> outputs[] = {{"cut to FP32", kFp32Output},
                                                       {"rounded to FP32", rounded},
                                                       {"cut to E8M13", kE8m13Output},
                                                       {"rounded to FP16", kFp16Output}};
  const std::pair<const char*, Alignment> alignments[] = {{"cut", Alignment::toward_zero},
                                                          {"rounded down", Alignment::downward},
                                                          {"rounded to nearest", Alignment::nearest_even}};
  std::vector<NodeArithmetic> found;
  for (const auto& [output_name, output] : outputs) {
    for (const auto& [alignment_name, alignment] : alignments) {
      for (int bits = 7; bits <= 36; ++bits) {
        FusedSum step{0, bits, output, -133};
        step.alignment = alignment;
        found.push_back({"fused, terms " + std::string(alignment_name) + " at " + std::to_string(bits) +
                             " fraction bits, " + output_name,
                         [&tree, step](const Terms& terms, Format d) {
                           const double value = decode(step.output.c, word_at(step, tree, terms));
                           return encode(d, value, Rounding::nearest_even, Overflow::non_saturate);
                         }});
      }
    }
  }
  return found;
}

}  // namespace

std::vector<NodeArithmetic> node_arithmetics(const SumTree& tree) {
  if (binary(tree)) return additions_in(tree);
  if (fusable(tree)) return fused_sums_in(tree);
  return {};
}

}  // namespace mxcheck
