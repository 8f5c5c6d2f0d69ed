// mxcheck golden: reference tensors in files, for implementations in any language.

#include "tools/golden/golden.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "goldens/format/reader.h"
#include "goldens/io/byte_source.h"
#include "mxcheck_version.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/text.h"
#include "properties/core/compare.h"
#include "properties/goldens/suite.h"
#include "tools/common/output.h"
#include "tools/common/progress.h"

namespace mxcheck {

void add_golden(Command& app) {
  Command sub = app.subcommand("golden", "Make, show and verify against golden tensors in HDF5 files");
  sub.requires_subcommand();
  add_golden_make(sub);
  add_golden_verify(sub);
  add_golden_show(sub);
  add_golden_suites(sub);
  sub.exits({{1, "verify: different"}, {5, "a golden that is missing, corrupt or not in its manifest"}});
  sub.footer(
      "Examples:\n"
      "  mxcheck golden suites                                   the suites that come with mxcheck\n"
      "  mxcheck golden make --suite real -o goldens             their files, and manifest.txt\n"
      "  mxcheck golden show goldens/layer0_dO_1x32.h5\n"
      "  mxcheck golden verify mine.h5 --against goldens/layer0_dO_1x32.h5");
}

void add_trust_options(Command& sub, Trust& trust) {
  const auto manifest =
      sub.option("--manifest", trust.manifest, "Manifest of the golden (default: manifest.txt beside it)");
  sub.option("--sha256", trust.sha256, "The golden's SHA-256, where there is no manifest").excludes(manifest);
}

ManifestEntry trusted_entry(const std::string& golden, const Trust& trust) {
  const std::string name = std::filesystem::path(golden).filename().string();
  std::uint64_t size = 0;
  try {
    size = FileSource(golden).size();
  } catch (const Error& e) {
    throw Error(ErrorKind::golden, e.what());
  }
  if (!trust.sha256.empty()) {
    if (trust.sha256.size() != 64 || trust.sha256.find_first_not_of("0123456789abcdef") != std::string::npos) {
      throw Error(ErrorKind::usage, "--sha256 takes 64 lower-case hexadecimal digits");
    }
    return {trust.sha256, size, name};
  }
  if (trust.manifest.empty()) return entry_beside(golden);
  const Manifest manifest = read_manifest(trust.manifest);
  const ManifestEntry* entry = manifest.find(name);
  if (entry == nullptr) refuse_foreign(golden, trust.manifest, manifest);
  return *entry;
}

// mxcheck golden make and mxcheck golden suites.

namespace {

struct Options {
  std::string suite, the_case, name = "case", output;
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

// A suite of one case, by the way of every suite: names and texts are checked there.
GoldenSuite suite_of_case(const Options& o) {
  Json suite{{"suite", "case"}, {"description", "one case of the gate"}, {"goldens", Json::array()}};
  suite["goldens"].push_back({{"name", o.name}, {"kind", "case"}, {"case", o.the_case}});
  return parse_suite(to_text(suite), "--case");
}

int run_make(const Options& o) {
  if (o.suite.empty() == o.the_case.empty()) throw Error(ErrorKind::usage, "either --suite or --case is needed");
  std::optional<GoldenSuite> own;
  if (!o.the_case.empty()) own = suite_of_case(o);
  if (is_file(o.suite)) own = read_suite(o.suite);
  const GoldenSuite& suite = own ? *own : builtin_suite(o.suite);
  MakeOptions options;
  if (own && o.the_case.empty()) options.input_directory = std::filesystem::path(o.suite).parent_path().string();
  options.compression = o.compression;
  options.threads = o.threads;
  options.generator = std::string("mxcheck ") + kVersion;

  const auto all = static_cast<double>(suite.goldens.size());
  const std::string what = fmt::format("making {} goldens of suite {}", suite.goldens.size(), suite.name);
  std::optional<Progress> progress(std::in_place, what);
  progress->rate("goldens", all);
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
          {{"name", golden.name}, {"kind", golden.kind->name()}, {"description", golden.description}});
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
  sub.option("--suite", o->suite, "A name that mxcheck golden suites lists, or SPEC.json");
  sub.option("--case", o->the_case,
             "In place of a suite: one golden of this case of the gate, as its reports print it");
  sub.option("--name", o->name, "Of --case: NAME.h5").shows_default();
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
      "  mxcheck golden make --suite ./mine.json -o goldens --json\n"
      "  mxcheck golden make --case 'op=matmul:sm90_fp8+promote128 format=e4m3 format_b=e4m3 block=1x128 "
      "block_b=128x128\n"
      "    scales=fp32 groups=none d=bf16 rows=64 cols=96 depth=512 data=normal seed=1' --name gemm -o goldens");
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

// mxcheck golden show: what a golden says.

namespace {

struct ShowOptions {
  std::string file, dataset;
  Trust trust;
  std::int64_t first = 16;
  bool json = false;
};

std::uint64_t element(const Tensor& t, std::size_t i) {
  const std::uint64_t bits = word_at(t.data, size_of(t.format), i);
  if (t.format == Format::int32) return static_cast<std::uint64_t>(static_cast<std::int32_t>(bits));
  return bits;
}

void print_elements(const DatasetInfo& info, const Tensor& t, std::int64_t first) {
  const std::optional<Format> format = find_format(info.format);
  const std::size_t count = t.data.size() / size_of(t.format);
  const std::size_t shown = std::min<std::size_t>(count, static_cast<std::size_t>(first));
  const std::int64_t cols = t.shape.size() == 2 ? t.shape[1] : 0;
  for (std::size_t i = 0; i < shown; ++i) {
    const std::uint64_t bits = element(t, i);
    const auto at = static_cast<std::int64_t>(i);
    const std::string place = cols > 0 ? fmt::format("({}, {})", at / cols, at % cols) : fmt::format("({})", at);
    const auto code = static_cast<std::uint32_t>(bits);
    const std::string value = format ? decimal(decode(*format, code)) : std::to_string(static_cast<std::int64_t>(bits));
    print(fmt::format("  {:<14}{:<12}{}\n", place, format ? hex(code, spec(*format).bits) : "", value));
  }
  if (shown < count) print(fmt::format("  ... {} more; --first N prints N\n", count - shown));
}

Json to_json(const ShowOptions& o, const GoldenReader& golden, const ManifestEntry& entry) {
  Json json{{"file", o.file}, {"size", entry.size}, {"sha256", entry.sha256}};
  for (const auto& [key, value] : golden.info().attributes) json["attributes"][key] = value;
  for (const DatasetInfo& info : golden.info().datasets) {
    Json d{{"name", info.name},
           {"role", to_text(info.role)},
           {"dtype", safetensors_name(info.dtype)},
           {"format", info.format},
           {"shape", info.shape}};
    for (const auto& [key, value] : info.attributes) d["attributes"][key] = value;
    json["datasets"].push_back(d);
  }
  return json;
}

int run(const ShowOptions& o) {
  const ManifestEntry entry = trusted_entry(o.file, o.trust);
  const GoldenReader golden(o.file, entry);
  if (!o.dataset.empty() && golden.info().find(o.dataset) == nullptr) {
    const std::string names = join(golden.info().datasets, ", ", [](const auto& info) { return info.name; });
    throw Error(ErrorKind::usage, o.file + ": has no dataset '" + o.dataset + "'; there are " + names);
  }
  if (o.json) {
    print_json(to_json(o, golden, entry));
    return 0;
  }
  if (o.dataset.empty()) {
    print(fmt::format("{}: {} bytes, SHA-256 {} as its manifest says\n", o.file, entry.size, entry.sha256));
    for (const auto& [key, value] : golden.info().attributes) {
      if (!value.empty()) print(fmt::format("  {:<20}{}\n", key, value));
    }
    print("\n");
  }
  for (const DatasetInfo& info : golden.info().datasets) {
    if (!o.dataset.empty() && info.name != o.dataset) continue;
    print(fmt::format("{:<7} {:<28}{:<5}{:<16}{}\n", to_text(info.role), info.name, safetensors_name(info.dtype),
                      info.format, shape_to_text(info.shape)));
    if (o.dataset.empty()) continue;
    for (const auto& [key, value] : info.attributes) print(fmt::format("  {:<20}{}\n", key, value));
    print_elements(info, golden.read(info.name), o.first);
  }
  return 0;
}

}  // namespace

void add_golden_show(Command& golden) {
  auto o = std::make_shared<ShowOptions>();
  Command sub = golden.subcommand("show", "Print what a golden says: attributes, datasets, elements");
  sub.option("FILE", o->file, "GOLDEN.h5").required();
  sub.option("--dataset", o->dataset, "Print this dataset's attributes and first elements");
  sub.option("--first", o->first, "How many elements").between(0, 1 << 20).shows_default();
  add_trust_options(sub, o->trust);
  sub.flag("--json", o->json, "Print attributes and datasets as JSON");
  sub.exits({{5, "a golden that is missing, corrupt or not in its manifest"}});
  sub.footer(
      "Examples:\n"
      "  mxcheck golden show goldens/layer0_x_1x32.h5                      attributes, datasets, their shapes\n"
      "  mxcheck golden show goldens/layer0_x_1x32.h5 --dataset scales     its first 16 elements: place, code, value\n"
      "  mxcheck golden show goldens/layer0_x_1x32.h5 --dataset codes --first 64\n"
      "  mxcheck golden show g.h5 --sha256 HASH                            a golden without its manifest");
  sub.runs([o] { return run(*o); });
}

}  // namespace mxcheck
