#include "properties/identify/product.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "numerics/error.h"
#include "numerics/tensor.h"
#include "numerics/text.h"
#include "properties/identify/reveal.h"
#include "properties/operations/matmul/definitions.h"
#include "reference/common/checked_size.h"
#include "reference/matmul/matmul.h"

namespace mxcheck {
namespace {

Bytes bytes_of(Format format, std::span<const std::uint32_t> words) {
  const std::size_t width = size_of(format);
  Bytes bytes(words.size() * width);
  for (std::size_t i = 0; i < words.size(); ++i) std::memcpy(bytes.data() + i * width, &words[i], width);
  return bytes;
}

MatmulOperand operand_of(Format format, std::int64_t rows, std::int64_t scale_rows, const ProductCall& call,
                         const Bytes& codes, const Bytes& scales) {
  MatmulOperand o;
  o.format = format, o.codes = codes.data(), o.rows = rows, o.depth = call.k, o.row_stride = call.k;
  if (call.scale_k == 0) return o;
  o.block = {scale_rows, call.scale_k};
  o.scale_format = call.scale_format, o.scales = scales.data();
  o.scale_row_stride = ceil_div(call.k, call.scale_k);
  return o;
}

// A call as the reference takes it, with its operands.
class Operands {
 public:
  explicit Operands(const ProductCall& call)
      : a_(bytes_of(call.a_format, call.a)),
        b_(bytes_of(call.b_format, call.b)),
        a_scales_(bytes_of(call.scale_format, call.a_scales)),
        b_scales_(bytes_of(call.scale_format, call.b_scales)),
        c_(bytes_of(call.output, call.c)) {
    product.a = operand_of(call.a_format, call.m, call.a_scale_rows, call, a_, a_scales_);
    product.b = operand_of(call.b_format, call.n, call.b_scale_rows, call, b_, b_scales_);
    product.output = call.output;
    product.c = call.c.empty() ? nullptr : c_.data();
  }
  Operands(const Operands&) = delete;
  Operands(Operands&&) = default;

  Matmul product;

 private:
  Bytes a_, b_, a_scales_, b_scales_, c_;
};

Probe probe_of(const std::string& name, const Matmul& m, Bytes d) {
  Probe probe{name, {}, {}, {}};
  TensorInfo& info = probe.outputs.emplace_back();
  info.name = "D", info.format = m.output, info.rows = m.a.rows, info.cols = m.b.rows, info.any_nan_is_equal = true;
  probe.observed.push_back(std::move(d));
  return probe;
}

void check_answer(const ProductCall& call, const std::vector<std::uint32_t>& words) {
  if (static_cast<std::int64_t>(words.size()) == call.m * call.n) return;
  throw Error(ErrorKind::usage, "the box answered " + std::to_string(words.size()) + " words; D is " +
                                    std::to_string(call.m) + " x " + std::to_string(call.n));
}

constexpr std::int64_t kLarge = std::int64_t{1} << 26;  // multiplications
constexpr std::int64_t kCorner = 16;                    // rows and columns of D

// The calls, their answers, and a table of each.
class Asked {
 public:
  Asked(std::span<const std::string> names, std::span<const ProductCall> calls,
        std::span<const std::vector<std::uint32_t>> answers, const std::string& declared)
      : declared_(declared) {
    for (std::size_t p = 0; p < calls.size(); ++p) {
      check_answer(calls[p], answers[p]);
      operands_.emplace_back(calls[p]);
      probes_.push_back(probe_of(names[p], product(p), bytes_of(calls[p].output, answers[p])));
    }
  }

  [[nodiscard]] const Matmul& product(std::size_t p = 0) const { return operands_[p].product; }

  // In a large D only those rows that explain a corner of it, and the closest there, are computed in full; `tried` is
  // the number of all.
  template <class Rows>
  Match match(const Rows& rows) {
    for (std::size_t p = 0; p < probes_.size(); ++p) probes_[p].table = rows(product(p));
    const Matmul& one = product();
    const std::int64_t outputs = one.a.rows * one.b.rows;
    const bool large =
        probes_.size() == 1 && one.c == nullptr && outputs > kCorner * kCorner && outputs * one.a.depth > kLarge;
    if (!large) return match_answers(probes_, declared_);
    const std::size_t tried = probes_.front().table.size();
    const Match corner = match_of_corner(rows);
    std::erase_if(probes_.front().table, [&](const Definition& row) {
      const auto is_row = [&](const Explained& e) { return e.name == row.name; };
      return std::ranges::find(corner.explaining, row.name) == corner.explaining.end() &&
             std::ranges::none_of(corner.closest, is_row);
    });
    Match match = match_answers(probes_, declared_);
    match.tried = tried;
    return match;
  }

 private:
  // The upper left of D, as a product of its own.
  template <class Rows>
  Match match_of_corner(const Rows& rows) const {
    Matmul part = product();
    const std::size_t line = static_cast<std::size_t>(part.b.rows) * size_of(part.output);
    part.a.rows = std::min(kCorner, part.a.rows), part.b.rows = std::min(kCorner, part.b.rows);
    Bytes d;
    for (std::int64_t i = 0; i < part.a.rows; ++i) {
      const auto from = probes_.front().observed.front().begin() + static_cast<std::ptrdiff_t>(line) * i;
      d.insert(d.end(), from, from + part.b.rows * static_cast<std::ptrdiff_t>(size_of(part.output)));
    }
    Probe probe = probe_of("corner", part, std::move(d));
    probe.table = rows(part);
    return match_answers({&probe, 1});
  }

  std::string declared_;
  std::vector<Operands> operands_;
  std::vector<Probe> probes_;
};

Table contracts_and(const std::string& declared, const Matmul& m) {
  Table table = product_contracts(m);
  if (!declared.empty() && std::ranges::find(table, declared, &Definition::name) == table.end())
    table.push_back(product_definition(declared, m));
  return table;
}

// The names of every contract; those of the declared one by their own names.
Table slips_of_contracts(const std::string& declared, Matmul m) {
  Table table;
  for (const Definition& contract : product_contracts(m)) {
    m.contract = parse_matmul_contract(contract.name);
    for (Definition& slip : product_slips(m)) {
      if (contract.name != declared) slip.name = contract.name + ", " + slip.name;
      table.push_back(std::move(slip));
    }
  }
  return table;
}

}  // namespace

ProductSpace space_of(const ProductCall& call) {
  return {call.a_format,     call.b_format,   call.output,       call.k,           call.scale_k,
          call.scale_format, !call.c.empty(), call.a_scale_rows, call.b_scale_rows};
}

std::vector<std::uint32_t> answer_of_contract(const std::string& definition, const ProductCall& call) {
  const Operands operands(call);
  const Tensor d{"", call.output, {}, answer_of_product(definition, operands.product)};
  std::vector<std::uint32_t> words(d.size());
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = d.code(i);
  return words;
}

// Split-k is looked at only where no contract explains everything: it is most of the work. Slips come last.
Match match_products(std::span<const std::string> names, std::span<const ProductCall> calls,
                     std::span<const std::vector<std::uint32_t>> answers, const std::string& declared) {
  if (calls.empty()) return {};
  Asked asked(names, calls, answers, declared);
  Match match = asked.match([&](const Matmul& m) { return contracts_and(declared, m); });
  if (match.explained()) {
    const std::string words = other_words(match.explaining.front(), asked.product());
    if (!words.empty()) match.notes.push_back(words);
    return match;
  }
  Match splits = asked.match(product_splits);
  match.explaining = std::move(splits.explaining);
  match.tried += splits.tried;
  match.closest.insert(match.closest.end(), splits.closest.begin(), splits.closest.end());
  keep_closest(match);
  if (match.explained()) return match;
  Match slips = asked.match([&](const Matmul& m) { return slips_of_contracts(declared, m); });
  match.slips = std::move(slips.explaining);
  match.tried += slips.tried;
  return match;
}

Match match_named_products(std::span<const std::string> definitions, std::span<const std::string> names,
                           std::span<const ProductCall> calls, std::span<const std::vector<std::uint32_t>> answers) {
  for (const std::string& text : definitions) answer_of_contract(text, calls.front());  // refuses what does not fit
  Asked asked(names, calls, answers, "");
  Match match = asked.match([&](const Matmul& m) {
    Table table;
    for (const std::string& text : definitions) table.push_back(product_definition(text, m));
    return table;
  });
  if (match.explained()) {
    const std::string words = other_words(match.explaining.front(), asked.product());
    if (!words.empty()) match.notes.push_back(words);
  }
  return match;
}

ProductReport identify_product(const ProductSpace& space, const ProductBox& box, const ProductQuestion& question) {
  if (space.k < 1) throw Error(ErrorKind::usage, "K is " + std::to_string(space.k) + "; it must be at least 1");
  auto probes = product_probes(space);
  if (product_contracts(Operands(probes.front().second).product).empty()) {
    throw Error(ErrorKind::usage, "no contract multiplies " + std::string(spec(space.a).name) + " and " +
                                      std::string(spec(space.b).name) + " to " + std::string(spec(space.output).name) +
                                      " with these scales; mxcheck mma --list has them");
  }
  std::vector<std::string> names;
  std::vector<ProductCall> calls;
  std::vector<std::vector<std::uint32_t>> answers;
  for (auto& [name, call] : probes) {
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

}  // namespace mxcheck
