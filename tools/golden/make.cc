// mxcheck golden make and mxcheck golden suites.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include "goldens/make/make.h"
#include "goldens/make/suite.h"
#include "mxcheck_version.h"
#include "numerics/error.h"
#include "tools/common/json.h"
#include "tools/common/progress.h"
#include "tools/common/text.h"
#include "tools/golden/golden.h"

namespace mxcheck {
namespace {

struct Options {
  std::string suite, output;
  int compression = 0;
  int threads = 0;
  bool json = false;
};

bool is_file(const std::string& suite) { return suite.ends_with(".json") || suite.find('/') != std::string::npos; }

std::string report_text(const Options& o, const GoldenSuite& suite, const std::vector<ManifestEntry>& made) {
  std::uint64_t bytes = 0;
  for (const ManifestEntry& entry : made) bytes += entry.size;
  if (o.json) {
    Json json{{"suite", suite.name}, {"output", o.output}, {"bytes", bytes}};
    json["goldens"] = Json::array();
    for (const ManifestEntry& e : made)
      json["goldens"].push_back({{"name", e.name}, {"size", e.size}, {"sha256", e.sha256}});
    return to_text(json) + "\n";
  }
  std::string text;
  for (const ManifestEntry& e : made) text += fmt::format("{}  {:>11}  {}\n", e.sha256.substr(0, 16), e.size, e.name);
  return text + fmt::format("{}: {} golden{} of suite {}, {} bytes, and {}\n", o.output, made.size(),
                            made.size() == 1 ? "" : "s", suite.name, bytes, kManifestName);
}

int run_make(const Options& o) {
  std::optional<GoldenSuite> from_file;
  if (is_file(o.suite)) from_file = read_suite(o.suite);
  const GoldenSuite& suite = from_file ? *from_file : builtin_suite(o.suite);
  MakeOptions options;
  if (from_file) options.input_directory = std::filesystem::path(o.suite).parent_path().string();
  options.compression = o.compression;
  options.threads = o.threads;
  options.generator = std::string("mxcheck ") + kVersion;

  const auto all = static_cast<double>(suite.goldens.size());
  const std::string what = fmt::format("making {} goldens of suite {}", suite.goldens.size(), suite.name);
  std::optional<Progress> progress(std::in_place, what);
  std::size_t at = 0;  // goldens that are made
  options.progress = [&](std::int64_t done, std::int64_t rows) {
    const double of_this = static_cast<double>(done) / static_cast<double>(std::max<std::int64_t>(1, rows));
    progress->now(what, (static_cast<double>(at) + of_this) / all);
  };
  std::vector<ManifestEntry> made;
  options.before_they_appear = [&] {
    progress.reset();
    print_at_once(report_text(o, suite, made));
  };
  make_suite(suite, o.output, options, [&](const ManifestEntry& entry) {
    made.push_back(entry);
    progress->now(what, static_cast<double>(++at) / all);
  });
  return 0;
}

int run_suites(bool as_json) {
  Json json{{"suites", Json::array()}};
  for (const GoldenSuite& suite : builtin_suites()) {
    if (!as_json) print(fmt::format("{:<12}{:>3} goldens  {}\n", suite.name, suite.goldens.size(), suite.description));
    Json entry{{"name", suite.name}, {"description", suite.description}};
    for (const GoldenSpec& golden : suite.goldens) {
      entry["goldens"].push_back(
          {{"name", golden.name}, {"kind", to_text(golden.kind)}, {"description", golden.description}});
    }
    json["suites"].push_back(entry);
  }
  if (as_json) print_json(json);
  return 0;
}

}  // namespace

void add_golden_make(Command& golden) {
  auto o = std::make_shared<Options>();
  Command sub = golden.subcommand("make", "Compute goldens and write them with their manifest");
  sub.option("--suite", o->suite, "A name that mxcheck golden suites lists, or SPEC.json").required();
  sub.option("-o,--output", o->output, "Directory; made if it is not there, goldens of the same names replaced")
      .required();
  sub.option("--compression", o->compression, "Deflate level; the bytes then depend on the zlib at hand")
      .between(0, 9)
      .shows_default();
  sub.option("--threads", o->threads, "0: all of the machine's; changes nothing but the time")
      .between(0, 4096)
      .shows_default();
  sub.flag("--json", o->json, "Print what was made as JSON");
  sub.footer(
      "A golden is NAME.h5. manifest.txt lists size and SHA-256 of each; a golden that it does not list is not "
      "trusted.\n"
      "The same spec and input give the same bytes. docs/goldens.md has the schema and what a SPEC.json says:\n"
      "  {\"suite\": \"mine\", \"goldens\": [{\"name\": \"w1\", \"kind\": \"quantize\", \"input\": {\"file\": "
      "\"w1.npy\"},\n"
      "    \"format\": \"e4m3\", \"block\": \"1x32\", \"recipe\": \"rceil\", \"layouts\": [\"tcgen05\"]}]}\n\n"
      "Examples:\n"
      "  mxcheck golden make --suite real -o goldens\n"
      "  mxcheck golden make --suite ./mine.json -o goldens --json");
  sub.runs([o] { return run_make(*o); });
}

void add_golden_suites(Command& golden) {
  auto json = std::make_shared<bool>(false);
  Command sub = golden.subcommand("suites", "List the suites that come with mxcheck");
  sub.flag("--json", *json, "Print them, with their goldens, as JSON");
  sub.footer(
      "Examples:\n"
      "  mxcheck golden suites\n"
      "  mxcheck golden suites --json");
  sub.runs([json] { return run_suites(*json); });
}

}  // namespace mxcheck
