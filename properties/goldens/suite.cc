#include "properties/goldens/suite.h"

#include <algorithm>
#include <set>

#include "goldens/io/byte_source.h"
#include "numerics/error.h"
#include "numerics/names.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

constexpr std::uint64_t kMostText = 1 << 20;
constexpr std::size_t kMostGoldens = 4096;
constexpr int kMaxDepth = 6;

bool is_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), fits);
}

GoldenSpec parse_golden(const Json& value, const std::string& place) {
  JsonObject o(value, place);
  GoldenSpec golden;
  golden.name = o.text("name");
  if (!is_name(golden.name)) o.refuse("name", "must be 1 to 64 letters, digits, '_' and '-'");
  golden.description = o.text_or("description", "");
  golden.kind = find_golden_kind(o.text("kind"));
  if (golden.kind == nullptr) {
    o.refuse("kind", "must be " + join(all_golden_kinds(), ", ", [](const GoldenKind* k) { return k->name(); }));
  }
  golden.own = golden.kind->parse(o);
  o.finish();
  return golden;
}

}  // namespace

GoldenSuite parse_suite(std::string_view text, const std::string& where) {
  if (text.size() > kMostText) throw Error(ErrorKind::usage, where + ": over 1 MiB of text; a suite is less");
  const Json value = parse_json(text, where, kMaxDepth, ErrorKind::usage);
  JsonObject o(value, where);
  GoldenSuite suite;
  suite.name = o.text("suite");
  if (!is_name(suite.name)) o.refuse("suite", "must be 1 to 64 letters, digits, '_' and '-'");
  suite.description = o.text_or("description", "");
  const Json::Array& goldens = o.list("goldens", kMostGoldens);
  std::set<std::string> names;
  for (std::size_t i = 0; i < goldens.size(); ++i) {
    const std::string place = where + ": goldens[" + std::to_string(i) + "]";
    suite.goldens.push_back(parse_golden(goldens[i], place));
    if (!names.insert(suite.goldens.back().name).second) {
      throw Error(ErrorKind::usage, place + ".name: '" + suite.goldens.back().name + "' is a duplicate");
    }
  }
  if (suite.goldens.empty()) o.refuse("goldens", "are at least one");
  o.finish();
  return suite;
}

GoldenSuite read_suite(const std::string& path) {
  const FileSource file(path);
  if (file.size() > kMostText) throw Error(ErrorKind::usage, path + ": over 1 MiB of text; a suite is less");
  return parse_suite(file.text(), path);
}

const std::vector<GoldenSuite>& builtin_suites() {
  static const std::vector<GoldenSuite> suites = [] {
    std::vector<GoldenSuite> all;
    for (const BuiltinText& b : builtin_texts()) all.push_back(parse_suite(b.text, b.name));
    return all;
  }();
  return suites;
}

const GoldenSuite& builtin_suite(std::string_view name) {
  for (const GoldenSuite& suite : builtin_suites()) {
    if (suite.name == name) return suite;
  }
  const std::vector<std::string> names = names_in(builtin_suites());
  throw Error(ErrorKind::usage, "no suite '" + std::string(name) + "'; there are " + join(names) +
                                    ", or give the path of a SPEC.json" + did_you_mean(name, names));
}

}  // namespace mxcheck
