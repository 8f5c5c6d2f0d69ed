#pragma once
// A layer's run as a file: every tensor by its name, or those that are asked for.
//
//   OUT.safetensors   the tensors, BF16 and F32 as such; what explains them as __metadata__
//   OUT.h5, .hdf5     datasets of the root group in the format of goldens (goldens/format/writer.h): floats as their
//                     bits, weights as [experts * rows, columns]; each has the attributes `step` and `shape`
//
// Metadata: mxcheck_file = "layer", file_version = "1", tokens, width, inner, experts, rows, gate_up, the recipe
// (layer_recipe_attributes), and of one that rounds stochastically random_seed, random_step and random_layer. Of
// safetensors also "format.NAME" of each tensor whose type does not say what its elements are. The same run gives the
// same bytes.
//
// Errors: those of write_safetensors and GoldenWriter; Error{usage} for a name that the layer has not, with those that
// it has.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "goldens/layer/layer_data.h"

namespace mxcheck {

// The tensors named in `only`, in the layer's order; all where it is empty.
std::vector<LayerTensor> tensors_named(LayerData& data, const std::vector<std::string>& only);

// The metadata of a run's file, and its datasets in HDF5: of two dimensions at most, each with `step` and `shape`.
std::map<std::string, std::string> layer_metadata(const LayerData& data);
std::vector<DatasetInfo> layer_datasets(const std::vector<LayerTensor>& tensors);

// `about`: further metadata, of the router and the like.
void write_layer(const std::string& path, LayerData& data, const std::vector<std::string>& only,
                 const std::map<std::string, std::string>& about = {},
                 const std::function<void()>& before_it_appears = {});

}  // namespace mxcheck
