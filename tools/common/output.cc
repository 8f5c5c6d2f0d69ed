#include "tools/common/output.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "goldens/format/described_file.h"
#include "numerics/error.h"

namespace mxcheck {
namespace {

// A file's name may hold colons, and one precedes the tensor's name.
bool is_in(const std::string& input, const std::filesystem::path& output) {
  std::error_code error;
  for (std::size_t end = input.size(); end != std::string::npos && end > 0; end = input.rfind(':', end - 1)) {
    if (std::filesystem::equivalent(input.substr(0, end), output, error) && !error) return true;
  }
  return false;
}

}  // namespace

void check_output(const std::string& output, OutputKinds kinds, const std::vector<std::string>& inputs) {
  const std::filesystem::path path(output);
  if (kinds == OutputKinds::safetensors_or_hdf5 && !is_described_path(output)) {
    throw Error(ErrorKind::usage, output + ": name the output OUT.safetensors or OUT.h5");
  }
  if (kinds == OutputKinds::npy_or_safetensors && path.extension() != ".npy" && path.extension() != ".safetensors") {
    throw Error(ErrorKind::usage, output + ": name the output OUT.npy or OUT.safetensors");
  }
  for (const std::string& input : inputs) {
    if (!is_in(input, path)) continue;
    throw Error(ErrorKind::usage,
                output + ": is " + (inputs.size() == 1 ? "the" : "an") + " input file; choose another output");
  }
}

Json json_number(double value) { return std::isfinite(value) ? Json(value) : Json(decimal(value)); }

void print_json(const Json& json) { print(to_text(json) + "\n"); }

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
