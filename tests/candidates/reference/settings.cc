#include "tests/candidates/reference/settings.h"

#include <cstdio>
#include <cstdlib>

namespace mxcheck::candidates {
namespace {

// A sum of each kind of operand, and what kernels do on top of one.
constexpr const char* kContracts =
    "sm90_fp8,sm90_fp8+promote128,sm90_bf16+from_c,sm90_bf16+decode,sm90_tf32,sm100_mxf8f6f4,ieee_fp32,exact";

void set(Settings& s, const std::string& name, const std::string& value) {
  const auto number = [&value] { return std::atoll(value.c_str()); };
  if (name == "operations")
    s.operations = value;
  else if (name == "contracts")
    s.contracts = value;
  else if (name == "variant")
    s.variant = value;
  else if (name == "one_of")
    s.one_of = static_cast<std::uint64_t>(number());
  else if (name == "with")
    s.with = value;
  else if (name == "max_rows")
    s.max_rows = number();
  else if (name == "max_cols")
    s.max_cols = number();
  else if (name == "rows_multiple")
    s.rows_multiple = number();
  else if (name == "cols_multiple")
    s.cols_multiple = number();
  else if (name == "refuses")
    s.refuses = value;
  else if (name == "any_nan")
    s.any_nan = number() != 0;
  else if (name == "has_timer")
    s.has_timer = number() != 0;
  else if (name == "prints")
    s.prints = number() != 0;
  else if (name == "other_script")
    s.other_script = number() != 0;
  else if (name == "sleep_us")
    s.sleep_us = number();
  else if (name == "workspace")
    s.workspace = static_cast<std::uint64_t>(number());
  else if (name == "follows")
    s.follows = value;
  else if (name == "ends")
    s.ends = value;
  else {
    std::fprintf(stderr, "REFERENCE: no setting '%s'\n", name.c_str());
    std::abort();
  }
}

Settings read_settings() {
  Settings s;
  s.contracts = kContracts;
  const char* text = std::getenv("REFERENCE");
  std::string_view rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const std::size_t end = rest.find(';');
    const std::string_view one = rest.substr(0, end);
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
    const std::size_t equals = one.find('=');
    if (!one.empty()) set(s, std::string(one.substr(0, equals)), std::string(one.substr(equals + 1)));
  }
  return s;
}

}  // namespace

const Settings& settings() {
  static const Settings all = read_settings();
  return all;
}

bool lists(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t end = list.find(',');
    if (list.substr(0, end) == word) return true;
    list = end == std::string_view::npos ? "" : list.substr(end + 1);
  }
  return false;
}

}  // namespace mxcheck::candidates
