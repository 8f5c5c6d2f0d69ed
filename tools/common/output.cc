#include "tools/common/output.h"
#include "tools/common/progress.h"

#include <unistd.h>

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

Progress::Progress(std::string what)
    : what_(std::move(what)), begun_(std::chrono::steady_clock::now()), phase_begun_(begun_) {
  if (::isatty(STDERR_FILENO) == 1) thread_ = std::thread([this] { show(); });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void Progress::now(const std::string& what, double share) {
  const std::lock_guard lock(mutex_);
  const bool goes_on = share_ >= 0 && share >= share_;
  if (!goes_on && (what != what_ || (share >= 0 && share < share_))) {
    phase_begun_ = std::chrono::steady_clock::now();
    first_share_ = std::max(share, 0.0);
  }
  what_ = what;
  share_ = share;
  watched_ = nullptr;
}

void Progress::watch(const std::string& what, std::function<double()> share) {
  now(what);
  const std::lock_guard lock(mutex_);
  watched_ = std::move(share);
}

std::string Progress::line(std::chrono::steady_clock::time_point at) const {
  const auto seconds = [](std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); };
  const std::string text = "mxcheck: " + what_;
  const double share = watched_ ? watched_() : share_;
  if (!(share >= 0)) return fmt::format("{}, {:.0f} s", text, seconds(at - begun_));
  const std::string done = fmt::format("{}: {:.0f} %, {:.0f} s", text, std::floor(100 * share), seconds(at - begun_));
  if (share <= first_share_) return done;
  return fmt::format("{}, {:.0f} s left", done, seconds(at - phase_begun_) / (share - first_share_) * (1 - share));
}

void Progress::show() {
  using std::chrono::seconds;
  std::unique_lock lock(mutex_);
  std::size_t shown = 0;
  for (seconds wait(2);; wait = seconds(1)) {
    if (ended_.wait_for(lock, wait, [this] { return end_; })) break;
    const std::string text = line(std::chrono::steady_clock::now());
    // Blanks first: a shorter phase must not leave the end of a longer one.
    std::fprintf(stderr, "\r%*s\r%s", static_cast<int>(shown), "", text.c_str());
    shown = text.size();
  }
  if (shown > 0) std::fprintf(stderr, "\r%*s\r", static_cast<int>(shown), "");
}

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
