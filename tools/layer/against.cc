#include "tools/layer/layer.h"

#include <algorithm>

#include <fmt/format.h>

#include "goldens/format/described_file.h"
#include "goldens/format/reader.h"
#include "goldens/io/byte_source.h"
#include "goldens/io/sha256.h"
#include "numerics/error.h"
#include "numerics/names.h"
#include "numerics/text.h"
#include "properties/diagnosis/layer/verdict.h"
#include "tools/common/output.h"

namespace mxcheck {
namespace {

std::string place_of(const Difference& d) { return fmt::format("({}, {})", d.first.row, d.first.col); }

std::string details(const LayerTensorResult& r) {
  std::string text = fmt::format("\n{} (step {})\n", r.name, r.step);
  if (!r.note.empty()) text += "  note      " + r.note + "\n";
  for (const std::string& cause : r.causes) text += "  cause     " + cause + "\n";
  if (!r.difference) return text;
  const Difference& d = *r.difference;
  if (r.verdict == LayerTensorVerdict::follows) {
    text += "  own       every element follows from " + r.made_of + "\n";
  } else if (r.own_wrong != 0) {
    text += fmt::format("  own       {} of {} elements do not follow from {}{}\n", r.own_wrong, d.total, r.made_of,
                        r.causes.empty() ? "; no known cause gives them" : "");
  }
  text += fmt::format("  extent    {} of {} elements differ from the reference, first at {}\n", d.count, d.total,
                      place_of(d));
  text += fmt::format("  reference {}\n  dump      {}\n", expected_text(d), observed_text(d));
  if (!d.histogram.empty()) {
    const auto bin_text = [](const auto& bin) { return fmt::format("{}: {}", bin.first, bin.second); };
    text += fmt::format("  off by    {}\n", join(d.histogram, ", ", bin_text));
  }
  if (!d.pattern.empty()) text += "  pattern   " + d.pattern + "\n";
  return text;
}

std::string names_with(const LayerVerdict& v, LayerTensorVerdict verdict) {
  std::vector<std::string> names;
  for (const LayerTensorResult& r : v.results) {
    if (r.verdict == verdict) names.push_back(r.name);
  }
  return join(names);
}

std::string verdict_text(const LayerOptions& o, const LayerVerdict& v, const std::vector<std::string>& others) {
  std::string text = fmt::format("{} against recipe {}\n\n", o.against, o.recipe);
  for (const LayerTensorResult& r : v.results) {
    if (r.verdict == LayerTensorVerdict::missing) continue;
    text += fmt::format("{:<8} {:<16} {:<16} {:<16} {}\n", verdict_word(r.verdict), r.step, r.name, r.format,
                        shape_to_text(r.shape));
  }
  if (const LayerTensorResult* first = v.first()) {
    text += fmt::format("\nfirst difference: step {}, tensor {}\n", first->step, first->name);
    for (const LayerTensorResult& r : v.results) {
      if (r.verdict != LayerTensorVerdict::equal && r.verdict != LayerTensorVerdict::missing &&
          (&r == first || r.verdict != LayerTensorVerdict::follows))
        text += details(r);
    }
  }
  const std::string follow = names_with(v, LayerTensorVerdict::follows);
  if (!follow.empty()) text += "\nno fault of their own, what the dump's earlier tensors give: " + follow + "\n";
  const std::string missing = names_with(v, LayerTensorVerdict::missing);
  if (!missing.empty()) text += "\nnot in the dump, and not looked at: " + missing + "\n";
  if (!others.empty()) text += "\nnot of the layer, and not looked at: " + join(others) + "\n";
  const std::size_t compared = v.results.size() - v.count(LayerTensorVerdict::missing);
  return text +
         fmt::format("\n{} of {} tensors are equal, bit for bit\n", v.count(LayerTensorVerdict::equal), compared);
}

Json result_json(const LayerTensorResult& r) {
  Json j{{"step", r.step},
         {"tensor", r.name},
         {"format", r.format},
         {"shape", r.shape},
         {"verdict", r.verdict == LayerTensorVerdict::differs      ? "differs"
                     : r.verdict == LayerTensorVerdict::wrong_form ? "form"
                     : r.verdict == LayerTensorVerdict::missing    ? "missing"
                                                                   : std::string(verdict_word(r.verdict))},
         {"note", r.note},
         {"made_of", r.made_of},
         {"causes", r.causes}};
  if (!r.difference) return j;
  const Difference& d = *r.difference;
  j["differing"] = d.count;
  j["elements"] = d.total;
  j["not_from_own"] = r.own_wrong;
  j["first"]["row"] = d.first.row;
  j["first"]["col"] = d.first.col;
  j["first"]["reference"] = expected_text(d);
  j["first"]["dump"] = observed_text(d);
  return j;
}

std::string verdict_json(const LayerOptions& o, const LayerVerdict& v, const std::vector<std::string>& others) {
  Json json{{"dump", o.against}, {"recipe", o.recipe}, {"equal", v.equal()}};
  json["first"] = v.first() == nullptr ? "" : v.first()->name;
  json["tensors"] = Json::array();
  for (const LayerTensorResult& r : v.results) json["tensors"].push_back(result_json(r));
  json["not_of_the_layer"] = others;
  return to_text(json) + "\n";
}

}  // namespace

Comparison compare_with_dump(const LayerOptions& o, LayerData& layer, const LayerRouting& routing) {
  const LayerDump dump(o.against, o.map);
  std::set<std::string> known;
  for (const LayerTensor& t : tensors_of(layer)) known.insert(t.name);
  for (const std::string& pair : o.map) {
    const std::string name = pair.substr(0, pair.find('='));
    if (known.contains(name)) continue;
    throw Error(ErrorKind::usage, "--map " + pair + ": '" + name + "' is no tensor of this run, which has " +
                                      join(known) + did_you_mean(name, {known.begin(), known.end()}));
  }
  const LayerJudge judge{[&](const std::string& name) { return dump.find(name); },
                         [&](std::span<const float> ds) { return routing.logits_gradient(ds, o.threads); }, o.only};
  const LayerVerdict verdict = judge_layer(layer, judge);
  if (verdict.count(LayerTensorVerdict::missing) == verdict.results.size())
    throw Error(ErrorKind::input, o.against + ": has none of the layer's tensors, " + join(known) + "; it has " +
                                      join(dump.names()) + "; --map H=NAME says which is which");
  const std::vector<std::string> others = dump.others(known);
  return {o.json ? verdict_json(o, verdict, others) : verdict_text(o, verdict, others), verdict.equal() ? 0 : 1};
}

namespace {

// No manifest vouches for a dump; what is read is checked as any golden's schema is.
ManifestEntry entry_of(const std::string& path) {
  const FileSource source(path);
  return {sha256(source), source.size(), ""};
}

}  // namespace

struct LayerDump::Files {  // one of the two
  std::map<std::string, Tensor> safetensors;
  std::unique_ptr<GoldenReader> hdf5;
};

LayerDump::LayerDump(const std::string& path, const std::vector<std::string>& map) : files_(std::make_unique<Files>()) {
  if (!is_described_path(path))
    throw Error(ErrorKind::usage, path + ": a dump is FILE.safetensors, or FILE.h5 that mxcheck layer wrote");
  if (is_hdf5_path(path)) {
    try {
      files_->hdf5 = std::make_unique<GoldenReader>(path, entry_of(path));
    } catch (const Error& e) {
      throw Error(ErrorKind::input, e.what());
    }
    for (const DatasetInfo& info : files_->hdf5->info().datasets) names_.push_back(info.name);
  } else {
    for (Tensor& t : read_safetensors(path).tensors) {
      names_.push_back(t.name);
      files_->safetensors[t.name] = std::move(t);
    }
    std::sort(names_.begin(), names_.end());
  }
  for (const std::string& pair : map) {
    const std::size_t at = pair.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == pair.size())
      throw Error(ErrorKind::usage, "--map " + pair + ": NAME=NAME IN THE DUMP is needed, as H=model.h");
    const std::string name = pair.substr(0, at), there = pair.substr(at + 1);
    if (std::find(names_.begin(), names_.end(), there) == names_.end())
      throw Error(ErrorKind::usage, "--map " + pair + ": " + path + " has no tensor '" + there + "'; it has " +
                                        join(names_) + did_you_mean(there, names_));
    if (!map_.emplace(name, there).second)
      throw Error(ErrorKind::usage, "--map " + pair + ": " + name + " is mapped twice");
  }
}

LayerDump::~LayerDump() = default;

std::optional<Tensor> LayerDump::find(const std::string& name) const {
  const auto mapped = map_.find(name);
  const std::string& there = mapped == map_.end() ? name : mapped->second;
  if (std::find(names_.begin(), names_.end(), there) == names_.end()) return std::nullopt;
  if (files_->hdf5) return files_->hdf5->read(there);
  return files_->safetensors.at(there);
}

std::vector<std::string> LayerDump::others(const std::set<std::string>& known) const {
  std::vector<std::string> found;
  for (const std::string& name : names_) {
    const bool is_mapped = std::any_of(map_.begin(), map_.end(), [&](const auto& m) { return m.second == name; });
    if (!is_mapped && (!known.contains(name) || map_.contains(name))) found.push_back(name);
  }
  return found;
}

}  // namespace mxcheck
