#include "tools/common/text.h"

#include <fmt/format.h>

#include <cmath>
#include <csignal>
#include <cstdio>

#include "numerics/error.h"

namespace mxcheck {

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    throw Error(ErrorKind::environment, "standard output cannot be written");
  }
}

void print_at_once(std::string_view text) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  std::signal(SIGPIPE, before);
  if (!written) throw Error(ErrorKind::environment, "standard output cannot be written");
}

std::string decimal(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }
std::string decimal(float value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }
std::string hex(std::uint32_t bits, int width_in_bits) {
  return fmt::format("0x{:0{}x}", bits, (width_in_bits + 3) / 4);
}

}  // namespace mxcheck
