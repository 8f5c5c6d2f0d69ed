#include "properties/identify/product_definitions.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/text.h"
#include "reference/common/checked_size.h"
#include "reference/matmul/matmul.h"

namespace mxcheck {
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

ProductCall part_of(const ProductCall& call, std::int64_t first, std::int64_t end) {
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
    sums.push_back(answer_in_one(split.contract, part_of(call, first, std::min(call.k, first + split.length))));
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

// Of the lengths that so many parts can have: multiples of a tile, of the step and of the blocks of scales.
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

}  // namespace mxcheck
