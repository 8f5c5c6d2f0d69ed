#include "tools/common/text.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "numerics/error.h"

namespace mxcheck {

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    throw Error(ErrorKind::environment, "standard output cannot be written");
  }
}

void print_json(const nlohmann::ordered_json& json) {
  // Arguments and file names are repeated in the answer and may hold any bytes.
  print(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

nlohmann::ordered_json json_number(double value) {
  if (std::isfinite(value)) return value;
  return decimal(value);
}

std::string decimal(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }
std::string decimal(float value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }
std::string hex(std::uint32_t bits, int width_in_bits) {
  return fmt::format("0x{:0{}x}", bits, (width_in_bits + 3) / 4);
}

}  // namespace mxcheck
