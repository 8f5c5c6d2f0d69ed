#include "goldens/io/routes_file.h"

#include <gtest/gtest.h>

#include "goldens/make/embedded.h"
#include "numerics/bytes.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

TEST(RoutesFile, holds_the_rows_alone_and_every_number_they_depend_on) {
  const test::TemporaryDirectory dir;
  const Tensor& t = real_tensor("layer0.router_logits");
  const MatrixView logits{Format::bf16, t.data.data(), t.shape[0], t.shape[1], t.shape[1]};
  RoutesFile file;
  file.router.variant = &router_variant_named("sigmoid");
  file.router.top_k = 4;
  file.source = Format::bf16;
  file.token_rounding.tile = 128;
  for (const TokenRoundingRule rule : {TokenRoundingRule::none, TokenRoundingRule::up}) {
    file.token_rounding.rule = rule;
    file.routes = route(file.router, logits, 1);
    file.rounded = round_tokens(file.router, file.token_rounding, logits, 1);
    if (rule == TokenRoundingRule::none) file.metadata = route_metadata(file.routes.experts, 4, {}, logits.cols, 1);
    write_routes(dir / "r.safetensors", file);
    const SafetensorsFile written = read_safetensors(dir / "r.safetensors");
    EXPECT_EQ(written.tensors.size(), rule == TokenRoundingRule::none ? 10U : 6U);
    EXPECT_EQ(written.metadata.at("mxcheck_file"), "routes");
    EXPECT_EQ(written.metadata.at("rule"), to_text(rule));
    EXPECT_EQ(written.metadata.at("variant"), "sigmoid");
    EXPECT_EQ(written.metadata.at("row_weights"), rule == TokenRoundingRule::none ? "variant" : "renorm");
    const Tensor tokens = read_tensor(dir / "r.safetensors:row_token");
    EXPECT_EQ(tokens.shape, (std::vector<std::int64_t>{file.rounded.offsets.back()}));
    const auto rows = std::span(file.rounded.row_token).first(static_cast<std::size_t>(tokens.shape[0]));
    EXPECT_EQ(tokens.data, to_bytes(std::span<const std::int32_t>(rows)));
    write_routes(dir / "r.h5", file);
    EXPECT_EQ(read_tensor(dir / "r.h5:/row_token").data, tokens.data);
    EXPECT_EQ(read_tensor(dir / "r.h5:/row_weight").dtype, Dtype::f32);
    EXPECT_EQ(read_tensor(dir / "r.h5:/offsets").data, to_bytes(file.rounded.offsets));
  }
}

}  // namespace
}  // namespace mxcheck
