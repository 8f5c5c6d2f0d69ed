// mxcheck golden show: what a golden says.

#include <fmt/format.h>

#include <cstring>
#include <memory>

#include "goldens/format/reader.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/text.h"
#include "tools/common/json.h"
#include "tools/common/text.h"
#include "tools/golden/file.h"
#include "tools/golden/golden.h"

namespace mxcheck {
namespace {

struct Options {
  std::string file, dataset;
  Trust trust;
  std::int64_t first = 16;
  bool json = false;
};

std::uint64_t element(const Tensor& t, std::size_t i) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, t.data.data() + i * size_of(t.dtype), size_of(t.dtype));
  if (t.dtype == Dtype::i32) return static_cast<std::uint64_t>(static_cast<std::int32_t>(bits));
  return bits;
}

void print_elements(const DatasetInfo& info, const Tensor& t, std::int64_t first) {
  const std::optional<Format> format = find_format(info.format);
  const std::size_t count = t.data.size() / size_of(t.dtype);
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

Json to_json(const Options& o, const GoldenReader& golden, const ManifestEntry& entry) {
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

int run(const Options& o) {
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
  auto o = std::make_shared<Options>();
  Command sub = golden.subcommand("show", "Print what a golden says: attributes, datasets, elements");
  sub.option("FILE", o->file, "GOLDEN.h5").required();
  sub.option("--dataset", o->dataset, "Print this dataset's attributes and first elements");
  sub.option("--first", o->first, "How many elements").between(0, 1 << 20).shows_default();
  add_trust_options(sub, o->trust);
  sub.flag("--json", o->json, "Print attributes and datasets as JSON");
  sub.footer(
      "Examples:\n"
      "  mxcheck golden show goldens/layer0_x_1x32.h5                      attributes, datasets, their shapes\n"
      "  mxcheck golden show goldens/layer0_x_1x32.h5 --dataset scales     its first 16 elements: place, code, value\n"
      "  mxcheck golden show goldens/layer0_x_1x32.h5 --dataset codes --first 64\n"
      "  mxcheck golden show g.h5 --sha256 HASH                            a golden without its manifest");
  sub.runs([o] { return run(*o); });
}

}  // namespace mxcheck
