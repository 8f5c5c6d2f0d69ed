#include "properties/core/misalignment.h"

#include <vector>

#include "numerics/text.h"
#include "properties/core/case_text.h"

namespace mxcheck {
namespace {

constexpr int kMost = 63;

std::string list_of(const std::array<std::uint8_t, 4>& bytes) {
  return join(bytes, ",", [](std::uint8_t byte) { return std::to_string(byte); });
}

std::array<std::uint8_t, 4> parse_list(std::string_view whole, std::string_view text) {
  constexpr std::string_view kRight =
      "the bytes past a multiple of 64 of four inputs and four outputs: 3,0,0,0/5,0,0,0";
  std::array<std::uint8_t, 4> bytes{};
  const auto parts = split(text, ',');
  if (parts.size() != bytes.size()) fail_field("misaligned", whole, kRight);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = number_field<std::uint8_t>("misaligned", parts[i]);
    if (bytes[i] > kMost) fail_field("misaligned", whole, kRight);
  }
  return bytes;
}

}  // namespace

std::string to_text(const Misalignment& m) { return list_of(m.inputs) + "/" + list_of(m.outputs); }

Misalignment parse_misalignment(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string_view inputs = text.substr(0, slash);
  const std::string_view outputs = slash == std::string_view::npos ? std::string_view{} : text.substr(slash + 1);
  return {parse_list(text, inputs), parse_list(text, outputs)};
}

}  // namespace mxcheck
