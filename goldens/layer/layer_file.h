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

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "goldens/format/golden.h"
#include "reference/layer/layer.h"

namespace mxcheck {

// All tensors of one run of a layer, and each by its name: what a layer's file holds (goldens/layer/layer_file.h).
//
//   LayerData data{...inputs...};  compute(data);
//   for (const LayerTensor& t : tensors_of(data)) ...       // "X", "up_a_codes", "H", ..., in the order of the steps
//
// Names are those of docs/layer.md. Errors: those of layer_forward and layer_backward.

struct LayerData {
  LayerShape shape;
  LayerRecipe recipe;
  GateUp gate_up = GateUp::halves;
  std::vector<std::uint16_t> x, w1, w2;
  std::vector<std::uint16_t> d_o;  // of the backward pass
  LayerRoutes routes;
  bool has_backward = false;
  int threads = 0;
  LayerRandom random;  // of a recipe that rounds stochastically
  // Computed.
  LayerForward forward;
  LayerBackward backward;
  std::optional<std::vector<float>> d_logits;  // tokens x experts; whoever has the router sets it

  [[nodiscard]] Layer layer() const { return {shape, &recipe, gate_up, w1, w2, threads, nullptr, random}; }
  [[nodiscard]] std::int64_t rows() const { return std::ssize(routes.row_token); }
};

// The forward pass, and the backward one where has_backward says so.
void compute(LayerData& data);

struct LayerTensor {
  std::string name;    // "up_a_codes", "dX_rows": letters, digits and '_'
  std::string step;    // "input", "routes", "up", "swiglu", ...
  std::string format;  // the attribute `format` of a golden's dataset: "bfloat16", "float8_e4m3fn", "int32", ...
  Role role = Role::output;
  Format dtype = Format::uint8;
  std::vector<std::int64_t> shape;  // weights have three dimensions
  std::span<std::byte> data;        // into the LayerData
};

// In the order in which they are made. Operands that are not quantized are not there: they are the tensor itself.
// Others have NAME_codes and NAME_scales, before them NAME_rotated where they are rotated, and after them NAME_outer,
// the tensor's scale as the recipe stores it, where scales have two levels.
std::vector<LayerTensor> tensors_of(LayerData& data);

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
