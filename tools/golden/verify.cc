// mxcheck golden verify: a candidate's tensors against a golden, bit for bit, and the likeliest cause of differences.

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>

#include "goldens/format/reader.h"
#include "goldens/io/byte_source.h"
#include "goldens/io/tensor_file.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/core/notation.h"
#include "properties/diagnosis/golden_verdict.h"
#include "tools/common/output.h"
#include "tools/common/progress.h"
#include "tools/golden/golden.h"

namespace mxcheck {
namespace {

constexpr std::uint64_t kMostInMemory = std::uint64_t{1} << 30;

struct VerifyOptions {
  std::string candidate, golden;
  std::vector<std::string> only;
  Trust trust;
  bool json = false;
};

constexpr const char* kWhatIs = "a candidate is an HDF5 or safetensors file, FILE.h5 or FILE.safetensors";

bool is_absent(const Error& e) {
  const std::string text = e.what();
  return text.find("there is no '/") != std::string::npos || text.find("has no tensor '") != std::string::npos;
}

bool is_safetensors(const std::string& path) { return path.ends_with(".safetensors"); }

// The location of the candidate's tensor, as read_tensor takes it.
std::string location(const VerifyOptions& o, const std::string& name) {
  return o.candidate + (is_safetensors(o.candidate) ? ":" : ":/") + name;
}

bool is_asked(const VerifyOptions& o, const DatasetInfo& info) {
  return info.role == Role::output &&
         (o.only.empty() || std::find(o.only.begin(), o.only.end(), info.name) != o.only.end());
}

GoldenVerdict verify(const VerifyOptions& o, const GoldenReader& golden, std::atomic<std::uint64_t>& compared) {
  std::uint64_t bytes = 0;
  for (const DatasetInfo& info : golden.info().datasets)
    bytes += checked_bytes(info.shape, size_of(info.dtype), o.golden);
  // Datasets that are equal need no more than a pass over both files; the rest needs tensors in memory.
  std::vector<std::string> names;
  GoldenVerdict all_equal;
  for (const DatasetInfo& info : golden.info().datasets) {
    if (!is_asked(o, info)) continue;
    bool equal = false;
    try {
      equal = dataset_equals(golden, info.name, location(o, info.name), &compared);
    } catch (const Error& e) {
      if (e.kind() == ErrorKind::golden) throw;  // the candidate's own faults become verdicts below
    }
    if (equal) {
      all_equal.results.push_back({info, DatasetVerdict::equal, {}, {}, {}, {}});
    } else {
      names.push_back(info.name);
    }
  }
  if (names.empty() && o.only.size() <= all_equal.results.size() && !all_equal.results.empty()) return all_equal;
  if (bytes > kMostInMemory) {
    for (const DatasetInfo& info : golden.info().datasets) {
      if (std::find(names.begin(), names.end(), info.name) == names.end()) continue;
      all_equal.results.push_back(
          {info,
           DatasetVerdict::different,
           {"the golden is over 1 GiB: that it differs is all that was looked at; make one of a "
            "slice of the rows to see where and why"},
           {},
           {},
           {}});
    }
    return all_equal;
  }
  GoldenTensors tensors{golden.info(), {}};
  for (const DatasetInfo& info : golden.info().datasets) tensors.tensors[info.name] = golden.read(info.name);
  return judge(
      tensors,
      [&](const std::string& name) -> std::optional<Tensor> {
        try {
          return read_tensor(location(o, name));
        } catch (const Error& e) {
          if (is_absent(e)) return std::nullopt;
          throw;
        }
      },
      o.only);
}

// The first wrong dataset of a golden whose datasets come step after step; null for other goldens.
const DatasetResult* first_wrong_step(const GoldenVerdict& verdict) {
  for (const DatasetResult& r : verdict.results) {
    if (r.verdict == DatasetVerdict::equal || r.verdict == DatasetVerdict::missing) continue;
    return attribute(r.expected.attributes, "step").empty() ? nullptr : &r;
  }
  return nullptr;
}

void print_verdict(const VerifyOptions& o, const GoldenReader& golden, const GoldenVerdict& verdict) {
  const Attributes& a = golden.info().attributes;
  std::vector<std::string> about;
  const bool layer = attribute(a, "kind") == "layer";  // whose recipe is a page of JSON
  for (const char* key : {"kind", "format", "block", layer ? "recipe_name" : "recipe", "source"}) {
    if (!attribute(a, key).empty()) about.push_back(attribute(a, key));
  }
  print(fmt::format("candidate {}\ngolden    {} ({})\n\n", o.candidate, o.golden, join(about)));
  std::size_t equal = 0, missing = 0;
  for (const DatasetResult& r : verdict.results) {
    equal += r.verdict == DatasetVerdict::equal ? 1 : 0;
    missing += r.verdict == DatasetVerdict::missing ? 1 : 0;
    print(fmt::format("{:<13} {:<28}{:<16}{}\n", verdict_word(r.verdict), r.expected.name, r.expected.format,
                      shape_to_text(r.expected.shape)));
  }
  if (const DatasetResult* first = first_wrong_step(verdict)) {
    print(fmt::format("\nfirst difference: step {}, dataset {}\n", attribute(first->expected.attributes, "step"),
                      first->expected.name));
  }
  for (const DatasetResult& r : verdict.results) {
    if (r.verdict == DatasetVerdict::missing || (r.verdict == DatasetVerdict::equal && r.notes.empty())) continue;
    print(fmt::format("\n{}\n", r.expected.name));
    for (const std::string& note : r.notes) print(fmt::format("  form      {}\n", note));
    for (const std::string& cause : r.causes) print(fmt::format("  cause     {}\n", cause));
    for (const std::string& line : r.element) print(fmt::format("  {}\n", line));
    if (!r.difference) continue;
    const Difference& d = *r.difference;
    print(fmt::format("  extent    {} of {} elements differ; first at ({}, {}), last at ({}, {})\n", d.count, d.total,
                      d.first.row, d.first.col, d.last.row, d.last.col));
    const auto bin_text = [](const auto& bin) { return fmt::format("{}: {}", bin.first, bin.second); };
    print(fmt::format("  off by    {}\n", join(d.histogram, ", ", bin_text)));
    if (!d.neighbours.empty()) print(fmt::format("  beside    {}\n", d.neighbours));
    if (!d.pattern.empty()) print(fmt::format("  pattern   {}\n", d.pattern));
  }
  print(fmt::format("\n{} of {} datasets are equal, bit for bit\n", equal, verdict.results.size()));
  if (missing > 0) print(fmt::format("{} missing; --only NAME,... asks for fewer\n", missing));
}

void print_verdict_json(const VerifyOptions& o, const GoldenVerdict& verdict) {
  Json json{{"candidate", o.candidate}, {"golden", o.golden}, {"equal", verdict.equal()}};
  json["datasets"] = Json::array();
  for (const DatasetResult& r : verdict.results) {
    Json j{{"name", r.expected.name},
           {"step", attribute(r.expected.attributes, "step")},
           {"format", r.expected.format},
           {"shape", r.expected.shape},
           {"verdict", r.verdict == DatasetVerdict::equal ? "equal" : std::string(verdict_word(r.verdict))},
           {"form", r.notes},
           {"causes", r.causes},
           {"element", r.element}};
    if (r.difference) {
      const Difference& d = *r.difference;
      j["differing"] = d.count, j["elements"] = d.total;
      j["first"] = {{"row", d.first.row}, {"col", d.first.col}};
      if (d.tensor.integer_bits != 0) {
        j["first"].update({{"expected", d.first.expected_integer}, {"observed", d.first.observed_integer}});
      } else {
        j["first"].update({{"expected", d.first.expected}, {"observed", d.first.observed}});
      }
      j["steps"] = d.histogram;
      j["pattern"] = d.pattern;
    }
    json["datasets"].push_back(j);
  }
  print_json(json);
}

int verify_run(const VerifyOptions& o) {
  struct stat status {};
  const bool there = ::stat(o.candidate.c_str(), &status) == 0;
  if (there && !S_ISREG(status.st_mode)) {
    throw Error(ErrorKind::input, o.candidate + ": is " + kind_of_file(status.st_mode) + "; " + kWhatIs);
  }
  const std::string extension = std::filesystem::path(o.candidate).extension().string();
  if (extension != ".h5" && extension != ".hdf5" && !is_safetensors(o.candidate)) {
    throw Error(ErrorKind::usage, o.candidate + ": " + kWhatIs);
  }
  if (!there) throw Error(ErrorKind::input, o.candidate + ": there is no such file");
  const ManifestEntry entry = trusted_entry(o.golden, o.trust);
  std::atomic<std::uint64_t> hashed = 0, compared = 0;  // outlive progress
  std::optional<Progress> progress(std::in_place, "hashing " + o.golden);
  const auto share_of = [](const std::atomic<std::uint64_t>& done, std::uint64_t all) {
    return static_cast<double>(done) / std::max(1.0, static_cast<double>(all));
  };
  progress->watch("hashing " + o.golden, [&] { return share_of(hashed, entry.size); });
  progress->rate("MB", static_cast<double>(entry.size) * 1e-6);
  const GoldenReader golden(o.golden, entry, GoldenReader::kMostInMemory, &hashed);
  if (golden.file_kind() != "golden")
    throw Error(ErrorKind::golden, o.golden + ": is no golden; mxcheck quantize wrote it");
  std::uint64_t outputs = 0;
  for (const DatasetInfo& info : golden.info().datasets) {
    if (is_asked(o, info)) outputs += checked_bytes(info.shape, size_of(info.dtype), o.golden);
  }
  progress->watch("comparing " + o.candidate, [&] { return share_of(compared, outputs); });
  progress->rate("MB", static_cast<double>(outputs) * 1e-6);
  const GoldenVerdict verdict = verify(o, golden, compared);
  progress.reset();
  const bool unreadable = std::all_of(verdict.results.begin(), verdict.results.end(),
                                      [](const DatasetResult& r) { return r.verdict == DatasetVerdict::unreadable; });
  if (unreadable && !verdict.results.empty()) throw Error(ErrorKind::input, verdict.results.front().notes.front());
  o.json ? print_verdict_json(o, verdict) : print_verdict(o, golden, verdict);
  return verdict.equal() ? 0 : 1;
}

}  // namespace

void add_golden_verify(Command& golden) {
  auto o = std::make_shared<VerifyOptions>();
  Command sub = golden.subcommand("verify", "Compare a candidate's datasets with a golden's, bit for bit");
  sub.option("CANDIDATE", o->candidate, "An HDF5 or safetensors file with the golden's outputs by name").required();
  sub.option("--against", o->golden, "GOLDEN.h5").required();
  sub.option("--only", o->only, "Outputs to compare, separated by commas (default: all)").comma_separated();
  add_trust_options(sub, o->trust);
  sub.flag("--json", o->json, "Print the verdict as JSON");
  sub.exits({{0, "equal"},
             {1, "different, or a dataset is missing or of another form"},
             {2, "the command line, or a candidate that cannot be read"},
             {5, "a golden that is missing, corrupt or not in its manifest"}});
  sub.footer(
      "dtype and shape are looked at first, then bits. `cause` names what would give exactly the candidate's bytes, "
      "or\n"
      "most of them: a recipe, a rounding, a layout. Codes are held against the candidate's own scales.\n\n"
      "Examples:\n"
      "  mxcheck golden verify mine.h5 --against goldens/layer0_dO_1x32.h5\n"
      "  mxcheck golden verify mine.h5 --against goldens/scales_e4m3.h5 --only te,torchao");
  sub.runs([o] { return verify_run(*o); });
}

}  // namespace mxcheck
