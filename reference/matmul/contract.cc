#include <charconv>

#include "numerics/error.h"
#include "reference/matmul/matmul.h"

namespace mxcheck {
namespace {

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw Error(ErrorKind::usage, "contract '" + std::string(text) + "': " + why);
}

std::int64_t interval(std::string_view text, std::string_view part) {
  const std::string_view digits = part.substr(std::string_view("promote").size());
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value <= 0) {
    refuse(text, "promote is followed by how many elements of k, as in promote128");
  }
  return value;
}

void check(const MatmulContract& c, std::string_view text) {
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

}  // namespace

MatmulContract parse_matmul_contract(std::string_view text) {
  MatmulContract c;
  if (text.ends_with('+')) refuse(text, "nothing follows the last +");
  std::string_view rest = text;
  for (bool first = true; first || !rest.empty(); first = false) {
    const std::size_t plus = rest.find('+');
    const std::string_view part = rest.substr(0, plus);
    rest = plus == std::string_view::npos ? std::string_view() : rest.substr(plus + 1);
    if (first) {
      c.sum = &contract_named(part);
    } else if (part.starts_with("promote")) {
      c.promotion = interval(text, part);
    } else if (part == "a_first" || part == "b_first") {
      c.order = part == "a_first" ? MatmulContract::Order::a_first : MatmulContract::Order::b_first;
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
  std::string text(c.sum->name);
  if (c.promotion != 0) text += "+promote" + std::to_string(c.promotion);
  if (c.order == MatmulContract::Order::a_first) text += "+a_first";
  if (c.order == MatmulContract::Order::b_first) text += "+b_first";
  if (c.decodes) text += "+decode";
  if (c.from_c) text += "+from_c";
  if (c.descending) text += "+descending";
  return text;
}

}  // namespace mxcheck
