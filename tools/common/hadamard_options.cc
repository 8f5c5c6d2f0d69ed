#include "tools/common/hadamard_options.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "numerics/accumulate/contract.h"
#include "numerics/elementary/elementary.h"
#include "numerics/error.h"
#include "numerics/format/format.h"
#include "numerics/names.h"
#include "numerics/text.h"
#include "tools/common/output.h"

namespace mxcheck {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

std::vector<std::string> hadamard_sizes() {
  std::vector<std::string> sizes;
  for (const int size : kHadamardSizes) sizes.push_back(std::to_string(size));
  return sizes;
}

[[noreturn]] void refuse_signs(const std::string& text, int size) {
  refuse_usage(
      fmt::format("--signs '{}': must be 0x and up to {} hexadecimal digits, of which bit i is element i of "
                  "every group, or a seed from 0 to 2^64 - 1",
                  text, size / 4));
}

// The number's bits from the lowest: element 0 is bit 0 of the last digit.
std::array<std::uint32_t, 4> signs_of_digits(const std::string& text, int size) {
  std::array<std::uint32_t, 4> signs{};
  std::size_t at = 0;
  for (std::size_t i = text.size(); i > 2; --i, ++at) {
    const char digit = text[i - 1];
    const std::size_t value = kHexDigits.find(digit >= 'A' && digit <= 'F' ? static_cast<char>(digit + 32) : digit);
    if (value == std::string_view::npos || (value != 0 && at >= static_cast<std::size_t>(size) / 4))
      refuse_signs(text, size);
    if (value != 0) signs[at / 8] |= static_cast<std::uint32_t>(value) << at % 8 * 4;
  }
  if (at == 0) refuse_signs(text, size);
  return signs;
}

std::array<std::uint32_t, 4> signs_of(const std::string& text, int size) {
  if (text.empty()) return {};
  if (text.starts_with("0x") || text.starts_with("0X")) return signs_of_digits(text, size);
  const auto seed = parse_number<std::uint64_t>(text);
  if (!seed) refuse_signs(text, size);
  std::array<std::uint32_t, 4> signs{};
  for (int word = 0; word * 32 < size; ++word)
    signs[static_cast<std::size_t>(word)] = philox_word(*seed, static_cast<std::uint32_t>(word), 0, 0, 0);
  if (size == 16) signs[0] &= 0xFFFF;
  return signs;
}

std::string signs_text(const Hadamard& t) {
  std::string text = "0x";
  for (int digit = t.size / 4 - 1; digit >= 0; --digit) {
    const auto at = static_cast<std::size_t>(digit);
    text += kHexDigits[t.signs[at / 8] >> at % 8 * 4 & 0xF];
  }
  return text;
}

std::string sum_text(const Hadamard& t) {
  return t.sum == HadamardSum::matrix ? t.contract : std::string(name_in(kHadamardSums, t.sum));
}

}  // namespace

std::vector<std::string> hadamard_sums() {
  std::vector<std::string> sums{"exact", "butterfly"};
  for (const Contract& contract : all_contracts()) {
    const bool takes_bf16 = std::ranges::count(contract.operands, Format::bf16) != 0;
    const bool is_fp32 = contract.arithmetic != Arithmetic::fused || contract.step.output.c == Format::fp32;
    if (takes_bf16 && is_fp32 && contract.name != "exact") sums.emplace_back(contract.name);
  }
  return sums;
}

void add_hadamard_options(Command& sub, HadamardOptions& o, const std::string& group, const std::string& usual) {
  sub.option("--hadamard", o.size, "Transform groups of this many consecutive columns of every row first")
      .one_of(hadamard_sizes())
      .in_group(group);
  sub.option("--signs", o.signs,
             "Elements of a group that change their signs before: 0xHEX, bit i for element i; or a seed, whose word j "
             "(Philox4x32-10 of the counter j) is of the elements from 32 j on. Default: none")
      .in_group(group);
  sub.option(
         "--hadamard-sum", o.sum,
         "exact, butterfly (FP32, stages of 1, 2, 4 ...), or a contract: a GEMM with the matrix in BF16. Default: " +
             usual)
      .completes(hadamard_sums())
      .in_group(group);
  sub.option("--hadamard-result", o.result, "Type that the sums are rounded to (default: the matrix's)")
      .one_of({"fp32", "bf16", "fp16"})
      .in_group(group);
}

std::optional<Hadamard> hadamard_of(const HadamardOptions& o, Format matrix) {
  if (o.size.empty()) {
    if (!o.signs.empty() || !o.sum.empty() || !o.result.empty())
      refuse_usage("--signs, --hadamard-sum and --hadamard-result are of --hadamard, which is missing");
    return std::nullopt;
  }
  Hadamard t;
  t.size = parse_number<int>(o.size).value();
  t.signs = signs_of(o.signs, t.size);
  t.result = o.result.empty() ? matrix : find_format(o.result).value();
  if (o.sum == "butterfly") {
    t.sum = HadamardSum::butterfly;
  } else if (!o.sum.empty() && o.sum != "exact") {
    const std::vector<std::string> sums = hadamard_sums();
    if (std::ranges::count(sums, o.sum) == 0) refuse_usage("--hadamard-sum '" + o.sum + "'" + known_names(o.sum, sums));
    t.sum = HadamardSum::matrix;
    t.contract = o.sum;
  }
  return t;
}

std::vector<std::pair<std::string, std::string>> described(const Hadamard& t) {
  return {{"hadamard", std::to_string(t.size)},
          {"hadamard_signs", signs_text(t)},
          {"hadamard_sum", sum_text(t)},
          {"hadamard_result", std::string(spec(t.result).name)}};
}

std::string to_text(const Hadamard& t) {
  return fmt::format("hadamard {} along rows, signs {}, sum {}, to {}", t.size, signs_text(t), sum_text(t),
                     spec(t.result).name);
}

}  // namespace mxcheck
