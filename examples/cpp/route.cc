// Router logits to the experts of each token, their weights, and the rows of the grouped GEMM after them.

#include <mxcheck/reference/router/metadata.h>
#include <mxcheck/reference/router/router.h>

#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

int main() {
  constexpr std::int64_t kTokens = 3;
  constexpr std::int64_t kExperts = 4;
  const std::vector<float> logits{0.5F, 2.0F,  -1.0F, 2.0F,   // a tie: the smaller index comes first
                                  1.0F, -2.0F, 0.25F, 0.0F,   //
                                  3.0F, 0.0F,  0.5F,  2.5F};  // tokens x experts
  const mxcheck::MatrixView view{mxcheck::Format::fp32, std::as_bytes(std::span(logits)).data(), kTokens, kExperts,
                                 kExperts};

  mxcheck::Router router;
  router.variant = &mxcheck::router_variant_named("softmax-topk-renorm");  // docs/router.md defines each to the bit
  router.top_k = 2;
  const mxcheck::Routes routes = mxcheck::route(router, view);
  for (std::size_t i = 0; i < routes.experts.size(); ++i) {
    std::printf("token %zu -> expert %d, weight %.8f\n", i / 2, routes.experts[i], routes.weights[i]);
  }

  // Rows sorted by expert, each expert's first row a multiple of a tile of 4; what fills a tile up has no token (-1).
  const mxcheck::RouteMetadata rows = mxcheck::route_metadata(routes.experts, router.top_k, {}, kExperts, 4);
  for (std::size_t e = 0; e < kExperts; ++e) {
    std::printf("expert %zu: rows %ld to %ld, tokens", e, rows.offsets[e], rows.offsets[e + 1]);
    for (std::int64_t r = rows.offsets[e]; r < rows.offsets[e + 1]; ++r) {
      std::printf(" %d", rows.row_token[static_cast<std::size_t>(r)]);
    }
    std::printf("\n");
  }
}
