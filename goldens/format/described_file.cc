#include "goldens/format/described_file.h"

#include <filesystem>

#include "goldens/format/schema.h"
#include "goldens/format/writer.h"

namespace mxcheck {

bool is_hdf5_path(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  return extension == ".h5" || extension == ".hdf5";
}

bool is_described_path(const std::string& path) {
  return is_hdf5_path(path) || std::filesystem::path(path).extension() == ".safetensors";
}

void write_described(const std::string& path, const SafetensorsFile& file,
                     const std::function<std::string_view(const Tensor&)>& format_of) {
  if (!is_hdf5_path(path)) return write_safetensors(path, file);
  GoldenInfo info;
  for (const auto& [key, value] : file.metadata) {
    if (key != kFileKindKey) info.attributes.emplace_back(key, value);  // the writer's own
  }
  for (const Tensor& t : file.tensors) {
    const Dtype dtype = t.dtype == Dtype::f32 ? Dtype::u32 : t.dtype;
    info.datasets.push_back({t.name, Role::output, std::string(format_of(t)), dtype, t.shape, {}});
  }
  GoldenWriter writer(path, info, {0, file.metadata.at(kFileKindKey).c_str()});
  for (std::size_t i = 0; i < file.tensors.size(); ++i) writer.append(i, file.tensors[i].data);
  writer.commit();
}

}  // namespace mxcheck
