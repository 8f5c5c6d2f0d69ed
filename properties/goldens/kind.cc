#include "properties/goldens/kind.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>

#include "numerics/error.h"

namespace mxcheck {

const Tensor& golden_tensor(const GoldenTensors& golden, const std::string& name) {
  const auto found = golden.tensors.find(name);
  if (found == golden.tensors.end()) throw Error(ErrorKind::golden, "it lacks the dataset " + name);
  return found->second;
}

const Tensor& golden_tensor(const GoldenTensors& golden, const std::string& name, Format format,
                            const std::vector<std::int64_t>& shape) {
  const Tensor& t = golden_tensor(golden, name);
  const bool fits = std::ranges::equal(
      t.shape, shape, [](std::int64_t is, std::int64_t asked) { return asked == kAnyExtent || is == asked; });
  if (fits && size_of(t.format) == size_of(format)) return t;
  std::string asked;
  for (const std::int64_t n : shape)
    asked += (asked.empty() ? "" : ", ") + (n == kAnyExtent ? "any" : std::to_string(n));
  throw Error(ErrorKind::golden, "its dataset " + name + " is " + std::string(spec(t.format).dtype_name) + " [" +
                                     shape_to_text(t.shape) + "]; the rest of it asks for " +
                                     std::to_string(8 * size_of(format)) + " bits [" + asked + "]");
}

const GoldenKind* find_golden_kind(std::string_view name) {
  const auto& kinds = all_golden_kinds();
  const auto at = std::ranges::find(kinds, name, &GoldenKind::name);
  return at == kinds.end() ? nullptr : *at;
}

std::int64_t number_of(const GoldenInfo& info, const char* key) {
  const std::string& text = attribute(info.attributes, key);
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Error(ErrorKind::golden, std::string("its attribute ") + key + " is no number: '" + text + "'");
  }
  return n;
}

Format format_of_golden(const GoldenInfo& info) {
  const std::optional<Format> format = find_format(attribute(info.attributes, "format"));
  if (!format)
    throw Error(ErrorKind::golden, "its attribute format is none: '" + attribute(info.attributes, "format") + "'");
  return *format;
}

Format format_of_dataset(const GoldenTensors& golden, const std::string& name) {
  golden_tensor(golden, name);
  return format_of_attribute(golden.info.find(name)->format);
}

Tensor in_format(const GoldenTensors& golden, const std::string& name, Format format,
                 const std::vector<std::int64_t>& shape) {
  const Tensor& t = golden_tensor(golden, name, format, shape);
  return {name, format, t.shape, t.data};
}

Attributes common_attributes(const GoldenSpec& golden) {
  return {{"kind", std::string(golden.kind->name())}, {"name", golden.name}, {"description", golden.description}};
}

Table rows_of_dataset(Table rows, std::size_t output, const std::function<Bytes(const Bytes&)>& map) {
  for (Definition& row : rows) {
    row.bytes = [bytes = std::move(row.bytes), output, map](std::size_t of_dataset) {
      if (of_dataset != 0) return Bytes();
      const Bytes of_problem = bytes(output);
      return of_problem.empty() ? Bytes() : map(of_problem);
    };
  }
  return rows;
}

}  // namespace mxcheck
