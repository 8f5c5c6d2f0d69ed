#pragma once
// A dump of a layer's tensors, of anyone's making: a safetensors file, or an HDF5 file that `mxcheck layer` wrote.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "goldens/io/tensor_file.h"

namespace mxcheck {

class LayerDump {
 public:
  // map: "H=model.h" says that the layer's H is there by the name model.h.
  LayerDump(const std::string& path, const std::vector<std::string>& map);
  ~LayerDump();
  LayerDump(const LayerDump&) = delete;
  LayerDump& operator=(const LayerDump&) = delete;

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }  // as they are in the file
  // By the layer's name.
  [[nodiscard]] std::optional<Tensor> find(const std::string& name) const;
  // Names in the file that are none of these of the layer's.
  [[nodiscard]] std::vector<std::string> others(const std::set<std::string>& known) const;

 private:
  struct Files;
  std::unique_ptr<Files> files_;
  std::vector<std::string> names_;
  std::map<std::string, std::string> map_;
};

}  // namespace mxcheck
