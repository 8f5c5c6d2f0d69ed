#include "tools/layer/dump.h"

#include <algorithm>

#include "goldens/format/described_file.h"
#include "goldens/format/reader.h"
#include "goldens/io/byte_source.h"
#include "goldens/io/sha256.h"
#include "numerics/error.h"
#include "numerics/text.h"

namespace mxcheck {
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
      throw Error(ErrorKind::usage,
                  "--map " + pair + ": " + path + " has no tensor '" + there + "'; it has " + join(names_));
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
