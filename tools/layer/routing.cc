#include "tools/layer/routing.h"

#include <utility>

#include "goldens/format/described_file.h"
#include "goldens/make/embedded.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/scale/recipe_words.h"
#include "tools/common/matrix_input.h"
#include "tools/common/text.h"

namespace mxcheck {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::input, text); }

class RoutesInFile {
 public:
  explicit RoutesInFile(const std::string& file) : file_(file), colon_(is_hdf5_path(file) ? ":/" : ":") {
    if (!is_described_path(file))
      throw Error(ErrorKind::usage, "--routes " + file + ": FILE.safetensors or FILE.h5 of mxcheck route is needed");
  }

  // Nothing where the file has no such tensor.
  std::optional<Tensor> find(const std::string& name, Dtype dtype, std::size_t rank) const {
    const std::string where = file_ + colon_ + name;
    Tensor t;
    try {
      t = read_tensor(where);
    } catch (const Error& e) {
      const std::string text = e.what();
      if (text.find("has no tensor '") != std::string::npos || text.find("there is no '/") != std::string::npos)
        return std::nullopt;
      throw;
    }
    if (t.dtype != dtype || t.shape.size() != rank)
      refuse(where + ": is " + safetensors_name(t.dtype) + " " + shape_in_brackets(t.shape) + "; " +
             safetensors_name(dtype) + " of " + std::to_string(rank) + " dimensions is needed");
    return t;
  }
  template <class T>
  std::vector<T> list(const std::string& name, Dtype dtype) const {
    const std::optional<Tensor> t = find(name, dtype, 1);
    if (!t) refuse(file_ + ": has no tensor '" + name + "'; what mxcheck route -o wrote is needed");
    return values_in<T>(t->data);
  }

 private:
  std::string file_;
  const char* colon_;
};

}  // namespace

std::optional<std::vector<float>> LayerRouting::logits_gradient(std::span<const float> ds, int threads) const {
  if (slot_experts.empty()) return std::nullopt;
  Router biased = router;
  biased.bias = bias;
  const MatrixView view{logits_dtype, logits.data(), tokens, experts, experts};
  return route_backward(biased, view, slot_experts, slot_gradient(routes, ds), router.top_k, threads);
}

LayerRouting routing_from_logits(const LayerFiles& files, const std::string& logits, const RouterOptions& o,
                                 int threads) {
  LayerRouting r;
  r.where = location_of(files, "--logits", logits);
  r.router = router_of(o);
  TokenRounding rounding = token_rounding_of(o);
  Tensor tensor = tensor_at(r.where);
  while (tensor.shape.size() > 2 && tensor.shape[0] == 1) tensor.shape.erase(tensor.shape.begin());
  const MatrixView view = matrix_of({r.where, std::nullopt, tensor.dtype == Dtype::u16 ? files.dtype : ""}, tensor);
  r.tokens = view.rows, r.experts = view.cols, r.logits_dtype = view.dtype;
  r.bias = bias_at(o.bias, r.router, r.experts);
  r.router.bias = r.bias;
  set_capacity(o, rounding, view);
  in_place(r.where, [&] {
    if (rounding.rule == TokenRoundingRule::none) {
      const Routes routes = route(r.router, view, threads);
      r.routes = layer_routes(routes, r.experts);
      r.slot_experts = routes.experts;
    } else {
      r.routes = layer_routes(round_tokens(r.router, rounding, view, threads));
    }
  });
  r.router.bias = {};  // it would point to where this object was before it moved
  r.logits = std::move(tensor.data);
  r.about = {{"variant", o.variant},
             {"top_k", std::to_string(r.router.top_k)},
             {"groups", std::to_string(o.groups)},
             {"groups_kept", std::to_string(o.groups_kept)},
             {"nan", o.nan},
             {"scale", hexfloat(o.scale)},
             {"bias", o.bias.empty() ? "no" : "yes"},
             {"rule", o.round},
             {"tile", std::to_string(o.tile)},
             {"capacity", std::to_string(rounding.capacity)}};
  return r;
}

LayerRouting routing_from_file(const std::string& file) {
  const RoutesInFile in(file);
  LayerRouting r;
  r.where = file;
  r.routes.offsets = in.list<std::int64_t>("offsets", Dtype::i64);
  r.routes.token_offsets = in.list<std::int64_t>("token_offsets", Dtype::i64);
  if (r.routes.offsets.size() < 2 || r.routes.token_offsets.empty())
    refuse(file + ": offsets of " + std::to_string(r.routes.offsets.size()) + " numbers and token_offsets of " +
           std::to_string(r.routes.token_offsets.size()) + "; experts + 1, 2 or more, and tokens + 1 are needed");
  r.experts = std::ssize(r.routes.offsets) - 1;
  r.tokens = std::ssize(r.routes.token_offsets) - 1;
  const std::optional<Tensor> experts = in.find("experts", Dtype::i32, 2);
  const std::optional<Tensor> weights = in.find("weights", Dtype::f32, 2);
  in_place_of_input(file, file, [&] {
    if (experts && weights) {
      if (experts->shape[0] != r.tokens || experts->shape != weights->shape || experts->shape[1] < 1)
        refuse("experts is " + shape_in_brackets(experts->shape) + " and weights " + shape_in_brackets(weights->shape) +
               "; both must be [" + std::to_string(r.tokens) + ", top_k]");
      r.routes = layer_routes(values_in<std::int32_t>(experts->data), values_in<float>(weights->data),
                              experts->shape[1], {}, r.experts);
      return;
    }
    r.routes.row_token = in.list<std::int32_t>("row_token", Dtype::i32);
    r.routes.row_weight = in.list<float>("row_weight", Dtype::f32);
    r.routes.token_rows = in.list<std::int32_t>("token_rows", Dtype::i32);
    check(r.routes, r.tokens, r.experts);
  });
  return r;
}

}  // namespace mxcheck
