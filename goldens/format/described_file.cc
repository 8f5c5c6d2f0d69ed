#include "goldens/format/described_file.h"

#include <filesystem>
#include <optional>

#include "goldens/format/schema.h"
#include "goldens/format/writer.h"
#include "goldens/io/readers.h"

namespace mxcheck {

bool is_hdf5_path(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  return extension == ".h5" || extension == ".hdf5";
}

bool is_described_path(const std::string& path) {
  return is_hdf5_path(path) || std::filesystem::path(path).extension() == ".safetensors";
}

struct DescribedWriter::Files {  // one of the two
  std::optional<SafetensorsWriter> safetensors;
  std::optional<GoldenWriter> hdf5;
};

DescribedWriter::DescribedWriter(const std::string& path, const std::vector<NamedHead>& tensors,
                                 const std::map<std::string, std::string>& metadata, const FormatOf& format_of)
    : files_(std::make_unique<Files>()) {
  if (!is_hdf5_path(path)) {
    files_->safetensors.emplace(path, tensors, metadata);
    return;
  }
  GoldenInfo info;
  for (const auto& [key, value] : metadata) {
    if (key != kFileKindKey) info.attributes.emplace_back(key, value);  // the writer's own
  }
  for (const NamedHead& t : tensors) {
    const Dtype dtype = t.head.dtype == Dtype::f32 ? Dtype::u32 : t.head.dtype;
    info.datasets.push_back({t.name, Role::output, std::string(format_of(t)), dtype, t.head.shape, {}});
  }
  files_->hdf5.emplace(path, info, GoldenWriter::Options{0, metadata.at(kFileKindKey).c_str()});
}

DescribedWriter::~DescribedWriter() = default;

void DescribedWriter::append(std::size_t tensor, std::span<const std::byte> rows) {
  files_->hdf5 ? files_->hdf5->append(tensor, rows) : files_->safetensors->append(tensor, rows);
}

void DescribedWriter::commit(const std::function<void()>& before_it_appears) {
  files_->hdf5 ? void(files_->hdf5->commit(before_it_appears)) : files_->safetensors->commit(before_it_appears);
}

void write_described(const std::string& path, const SafetensorsFile& file, const FormatOf& format_of,
                     const std::function<void()>& before_it_appears) {
  std::vector<NamedHead> heads;
  for (const Tensor& t : file.tensors) {
    check_tensor(t, path);
    heads.push_back({t.name, {t.dtype, t.shape}});
  }
  DescribedWriter writer(path, heads, file.metadata, format_of);
  for (std::size_t i = 0; i < file.tensors.size(); ++i) writer.append(i, file.tensors[i].data);
  writer.commit(before_it_appears);
}

}  // namespace mxcheck
