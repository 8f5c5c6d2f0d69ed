#include "goldens/format/offsets.h"

#include <algorithm>
#include <string_view>

#include "goldens/io/byte_source.h"
#include "goldens/io/tensor_file.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

constexpr std::uint64_t kMaxText = 16 << 20;
constexpr std::string_view kBlanks = " \n\t\r";

// The next number of the text, with the blanks around it and one comma after it; the text is what is left.
std::int64_t take_number(std::string_view& text, const std::string& where) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = parse_number<std::int64_t>(text.substr(0, digits));
  if (!number) throw Error(ErrorKind::usage, where + ": expected numbers like 0,96,192");
  text.remove_prefix(digits);
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  if (text.starts_with(',')) text.remove_prefix(1);
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return *number;
}

bool names_a_tensor(const std::string& location) {
  return location.find(".npy") != std::string::npos || location.find(".safetensors") != std::string::npos ||
         location.find(".h5") != std::string::npos;
}

}  // namespace

std::vector<std::int64_t> parse_offsets(const std::string& text, const std::string& where) {
  std::vector<std::int64_t> offsets;
  std::string_view rest = text;
  rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
  while (!rest.empty()) offsets.push_back(take_number(rest, where));
  if (offsets.empty()) throw Error(ErrorKind::usage, where + ": no numbers; expected something like 0,96,192");
  return offsets;
}

std::vector<std::int64_t> read_offsets(const std::string& location) {
  if (!names_a_tensor(location)) {
    const FileSource file(location);
    if (file.size() > kMaxText) throw Error(ErrorKind::input, location + ": over 16 MiB of offsets");
    return parse_offsets(file.text(), location);
  }
  const Tensor t = read_tensor(location);
  if (t.shape.size() != 1 || (t.dtype != Dtype::i64 && t.dtype != Dtype::i32)) {
    throw Error(ErrorKind::input, location + ": offsets are one vector of I64 or I32");
  }
  if (t.dtype == Dtype::i64) return values_in<std::int64_t>(t.data);
  const auto narrow = values_in<std::int32_t>(t.data);
  return {narrow.begin(), narrow.end()};
}

std::string offsets_to_text(std::span<const std::int64_t> offsets) {
  return join(offsets, ",", [](std::int64_t row) { return std::to_string(row); });
}

}  // namespace mxcheck
