#include "properties/identify/product.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "properties/core/rng.h"
#include "properties/identify/reveal.h"
#include "reference/matmul/matmul.h"

namespace mxcheck {
namespace {

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

// Each a different stress of a sum.
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
std::vector<std::uint32_t> drawn_scales(const ProductSpace& s, std::int64_t rows, Data data, Draw& draw) {
  std::vector<std::uint32_t> scales(static_cast<std::size_t>(rows * ((s.k + s.scale_k - 1) / s.scale_k)));
  for (std::uint32_t& word : scales) {
    // All 23 bits of an FP32 scale: products of shorter ones are exact, and every order of them is one.
    const double fraction = s.scale_format == Format::e8m0 ? 1 : 1 + std::ldexp(draw.between(0, (1 << 23) - 1), -23);
    const double value = std::ldexp(fraction, static_cast<int>(draw.between(data == Data::cancelling ? -16 : -6, 3)));
    word = encode(s.scale_format, value, Rounding::nearest_even, Overflow::saturate);
  }
  return scales;
}

ProductCall drawn_call(const ProductSpace& s, std::int64_t m, std::int64_t n, Data data, Draw& draw) {
  ProductCall call{s.a, s.b, s.output, m, n, s.k, {}, {}, s.scale_k, s.scale_format, {}, {}, {}};
  call.a = drawn_rows(s.a, m, s.k, data, draw);
  call.b = drawn_rows(s.b, n, s.k, data, draw);
  if (data == Data::cancelling) cancel(call, draw);
  if (s.scale_k != 0) call.a_scales = drawn_scales(s, m, data, draw), call.b_scales = drawn_scales(s, n, data, draw);
  for (std::int64_t i = 0; s.with_c && i < m * n; ++i) {
    const double value = std::ldexp(draw.between(-4096, 4096), static_cast<int>(draw.between(-20, -4)));
    call.c.push_back(encode(s.output, value, Rounding::nearest_even, Overflow::saturate));
  }
  return call;
}

// The second half of k takes back the first but for one product in a hundred: what is left is what intervals rounded,
// which a narrow D shows too.
ProductCall halves_that_cancel(const ProductSpace& s, Draw& draw) {
  ProductCall call = drawn_call(s, 16, 16, Data::intervals, draw);
  const std::uint32_t sign = std::uint32_t{1} << (spec(s.a).bits - 1);
  const std::int64_t half = s.k / 2;
  for (std::int64_t i = 0; i < 16; ++i) {
    for (std::int64_t k = 0; k < half; ++k) {
      const auto from = static_cast<std::size_t>(i * s.k + k);
      const auto to = static_cast<std::size_t>(i * s.k + k + half);
      if (!draw.chance(1)) call.a[to] = call.a[from] ^ sign;
      call.b[to] = call.b[from];
    }
  }
  for (std::uint32_t& word : call.a_scales) word = call.a_scales.front();
  for (std::uint32_t& word : call.b_scales) word = call.b_scales.front();
  return call;
}

AnswerPart part_of(const ProductCall& call, std::vector<std::uint32_t> words) {
  if (static_cast<std::int64_t>(words.size()) != call.m * call.n) {
    throw Error(ErrorKind::usage, "the box answered " + std::to_string(words.size()) + " words; D is " +
                                      std::to_string(call.m) + " x " + std::to_string(call.n));
  }
  return {"D", call.output, std::move(words), call.n, true};
}

MatmulOperand operand_of(Format format, std::int64_t rows, const ProductCall& call, const void* codes,
                         const void* scales) {
  MatmulOperand o;
  o.format = format, o.codes = codes, o.rows = rows, o.depth = call.k, o.row_stride = call.k;
  if (call.scale_k == 0) return o;
  o.block = {1, call.scale_k};
  o.scale_format = call.scale_format, o.scales = scales;
  o.scale_row_stride = (call.k + call.scale_k - 1) / call.scale_k;
  return o;
}

}  // namespace

std::vector<std::string> product_contracts(const ProductSpace& space) {
  std::vector<std::string> texts;
  for (const Contract& c : all_contracts()) add_variants(c, space, texts);
  std::erase_if(texts, [&](const std::string& text) {
    try {
      Draw draw(0);
      const ProductCall call = drawn_call(space, 1, 1, Data::ordinary, draw);
      answer_of_contract(text, call);
      return false;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::usage) throw;
      return true;
    }
  });
  return texts;
}

std::vector<std::uint32_t> answer_of_contract(const std::string& contract, const ProductCall& call) {
  Matmul m;
  m.contract = parse_matmul_contract(contract);
  const std::vector<std::byte> a = packed(call.a_format, call.a);
  const std::vector<std::byte> b = packed(call.b_format, call.b);
  const std::vector<std::byte> sa = packed(call.scale_format, call.a_scales);
  const std::vector<std::byte> sb = packed(call.scale_format, call.b_scales);
  const std::vector<std::byte> c = packed(call.output, call.c);
  m.a = operand_of(call.a_format, call.m, call, a.data(), sa.data());
  m.b = operand_of(call.b_format, call.n, call, b.data(), sb.data());
  m.output = call.output;
  m.c = call.c.empty() ? nullptr : c.data();
  m.threads = 1;
  const std::size_t width = width_of(call.output);
  std::vector<std::byte> d(static_cast<std::size_t>(call.m * call.n) * width);
  matmul(m, d.data());
  std::vector<std::uint32_t> words(d.size() / width);
  for (std::size_t i = 0; i < words.size(); ++i) std::memcpy(&words[i], d.data() + i * width, width);
  return words;
}

Match match_products(std::span<const std::string> names, std::span<const ProductCall> calls,
                     std::span<const std::vector<std::uint32_t>> answers) {
  std::vector<Definition> definitions;
  if (!calls.empty()) {
    const ProductCall& one = calls.front();
    const ProductSpace space{one.a_format, one.b_format,     one.output,    one.k,
                             one.scale_k,  one.scale_format, !one.c.empty()};
    for (const std::string& text : product_contracts(space)) {
      definitions.push_back({text, [&calls, text](std::size_t p) -> BoxAnswer {
                               return {part_of(calls[p], answer_of_contract(text, calls[p]))};
                             }});
    }
  }
  std::vector<BoxAnswer> parts;
  for (std::size_t p = 0; p < calls.size(); ++p) parts.push_back({part_of(calls[p], answers[p])});
  return match_answers(names, parts, definitions);
}

std::vector<std::pair<std::string, ProductCall>> product_probes(const ProductSpace& space) {
  Draw draw(derived_seed(0, "identify product"));  // the same probes on every run
  std::vector<std::pair<std::string, ProductCall>> probes;
  probes.emplace_back("ordinary", drawn_call(space, 16, 16, Data::ordinary, draw));
  probes.emplace_back("wide exponents", drawn_call(space, 16, 16, Data::wide, draw));
  probes.emplace_back("intervals of far magnitudes", drawn_call(space, 16, 16, Data::intervals, draw));
  probes.emplace_back("nearly cancelling", drawn_call(space, 16, 16, Data::cancelling, draw));
  probes.emplace_back("halves that cancel", halves_that_cancel(space, draw));
  probes.emplace_back("one row", drawn_call(space, 1, 8, Data::wide, draw));
  probes.emplace_back("special values", drawn_call(space, 8, 8, Data::special, draw));
  return probes;
}

ProductReport identify_product(const ProductSpace& space, const ProductBox& box, bool always_tree) {
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
  ProductReport report{match_products(names, calls, answers), std::nullopt};
  if (report.match.explaining.empty() || always_tree) report.order = reveal_order(space, box);
  return report;
}

std::string to_text(const ProductReport& report) {
  std::string text = to_text(report.match);
  if (!report.order) return text;
  const TreeReport& o = *report.order;
  if (!o.tree) return text + "order         no tree: " + o.why_not + "\n";
  text += "order         " + o.shape.value_or("of no name") + ", from " + std::to_string(o.masks) + " masks\n";
  text += "  tree        " + o.tree->text() + "\n";
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

}  // namespace mxcheck
