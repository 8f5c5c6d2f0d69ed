#include "trainer/run/device_layers.h"

#include <algorithm>
#include <cstring>

#include "numerics/error.h"
#include "reference/training/observe.h"
#include "reference/training/passes.h"

namespace mxcheck {
namespace {

// The first `count` elements of a tensor.
template <class T>
std::vector<T> elements_of(const ReadTensor& read, const std::string& name, std::int64_t count) {
  const std::vector<std::byte> bytes = read(name);
  std::vector<T> values(static_cast<std::size_t>(count));
  if (bytes.size() < values.size() * sizeof(T)) {
    throw Error(ErrorKind::environment, "the tensor '" + name + "' of an observed step has " +
                                            std::to_string(bytes.size()) + " bytes; " +
                                            std::to_string(values.size() * sizeof(T)) + " are needed");
  }
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// Before a size is made of them.
std::int64_t routed_rows(const std::vector<std::int64_t>& offsets, std::int64_t most) {
  if (offsets.front() == 0 && std::is_sorted(offsets.begin(), offsets.end()) && offsets.back() <= most)
    return offsets.back();
  throw Error(ErrorKind::environment, "the offsets of an observed step's experts are none: they begin with " +
                                          std::to_string(offsets.front()) + " and end with " +
                                          std::to_string(offsets.back()));
}

}  // namespace

bool quantizes(const LayerRecipe& recipe) {
  return std::any_of(recipe.gemms.begin(), recipe.gemms.end(),
                     [](const GemmRule& gemm) { return gemm.a.quantized() || gemm.b.quantized(); });
}

LayerObservation observe_device_layer(const TrainingConfig& config, std::int64_t layer, const ReadTensor& read,
                                      int threads) {
  const ModelShape& m = config.model;
  const std::int64_t tokens = config.tokens();
  const std::string of = "layers." + std::to_string(layer) + ".";
  LayerRoutes routes;
  routes.offsets = elements_of<std::int64_t>(read, of + "offsets", m.experts + 1);
  const std::int64_t rows = routed_rows(routes.offsets, tokens * m.experts);
  if (!quantizes(config.recipe)) {
    LayerObservation loads;
    loads.expert_loads = expert_loads(routes);
    return loads;
  }
  routes.row_token = elements_of<std::int32_t>(read, of + "row_token", rows);
  routes.row_weight = elements_of<float>(read, of + "row_weight", rows);
  routes.token_offsets = elements_of<std::int64_t>(read, of + "token_offsets", tokens + 1);
  routes.token_rows = elements_of<std::int32_t>(read, of + "token_rows", rows);
  const auto x = elements_of<std::uint16_t>(read, of + "moe_u", tokens * m.width);
  const auto d_o = elements_of<std::uint16_t>(read, of + "observed_d_o", tokens * m.width);
  const auto h = elements_of<std::uint16_t>(read, of + "observed_h", rows * 2 * m.inner);
  const auto p = elements_of<float>(read, of + "observed_p", rows * m.inner);
  const LayerParameters at = parameters_of_layer(layer);
  const std::int64_t matrix = m.experts * m.width * m.inner;
  const auto w1 = elements_of<std::uint16_t>(read, "weights_bf16." + std::to_string(at.w1), 2 * matrix);
  const auto w2 = elements_of<std::uint16_t>(read, "weights_bf16." + std::to_string(at.w2), matrix);
  const Layer computed{{tokens, m.width, m.inner, m.experts}, &config.recipe, GateUp::halves, w1, w2, threads};
  return observe_layer(computed, x, d_o, routes, {h, p});
}

}  // namespace mxcheck
