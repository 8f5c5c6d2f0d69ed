#include "properties/operations/layer/statements.h"

#include <cstring>

namespace mxcheck {

Statement step_law(std::string_view name, std::string_view sentence, Applies* applies, Check* check) {
  Statement s;
  s.name = name, s.sentence = sentence, s.source = "docs/layer.md";
  s.applies = applies;
  s.data = {Data::normal, Data::boundaries, Data::slots, Data::specials, Data::wide, Data::sparse};
  s.check = check;
  return s;
}

bool is_usual(const Variant& v) {
  const LayerVariant& own = layer_of(v);
  return own.recipe == "rceil" && own.block == 32 && own.format == Format::e4m3 && own.scaled == Format::e4m3;
}

std::vector<std::byte> rotated(std::span<const std::byte> from, std::int64_t lines, std::int64_t by) {
  std::vector<std::byte> to(from.begin(), from.end());
  const std::size_t line = lines == 0 ? 0 : from.size() / static_cast<std::size_t>(lines);
  for (std::int64_t i = 0; i < lines && line != 0; ++i) {
    std::memcpy(to.data() + static_cast<std::size_t>(i) * line,
                from.data() + static_cast<std::size_t>((i + by) % lines) * line, line);
  }
  return to;
}

}  // namespace mxcheck
