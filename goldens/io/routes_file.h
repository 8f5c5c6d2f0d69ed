#pragma once
// Routes as a file with self-describing metadata: OUT.safetensors, or OUT.h5 with the same as datasets and attributes.
//
//   rows   chosen I32 [experts], offsets I64 [experts + 1], row_token I32 [rows], row_weight F32 [rows],
//          token_offsets I64 [tokens + 1], token_rows I32 [rows]            (reference/router/token_rounding.h,
//          trimmed)
//   none   also experts I32 [tokens, top_k], weights F32 [tokens, top_k], row_slot I32 [rows], slot_row I32
//          [tokens * top_k]                                                  (reference/router/metadata.h)
//   padded also padded_offsets I64 [experts + 1], padded_row_slot, padded_row_token, padded_row_expert I32 [padded
//          rows], -1 in padding, padded_slot_row I32 [slots]
//   __metadata__  mxcheck_file = "routes", file_version = "1", variant, rule and every number that they depend on
//
// The same logits and options give the same bytes.
//
//   RoutesFile file{router, token_rounding, logits.dtype, route(router, logits), ...};
//   write_routes("r.safetensors", file);
//
// Errors: those of write_safetensors and GoldenWriter.

#include <functional>
#include <optional>
#include <string>

#include "goldens/io/tensor_file.h"
#include "reference/router/metadata.h"
#include "reference/router/token_rounding.h"

namespace mxcheck {

struct RoutesFile {
  Router router;
  TokenRounding token_rounding;
  Format source = Format::fp32;
  Routes routes;  // token choice, before any rule
  RoundedTokens rounded;
  RouteMetadata metadata;  // of rule none
  // The same rows, whatever the rule, with every expert at a multiple of token_rounding.tile. Slots are the routes,
  // token after token: of rule none in the order of experts, else experts ascending.
  std::optional<RouteMetadata> padded;
};

// To OUT.safetensors or OUT.h5 (goldens/format/described_file.h).
void write_routes(const std::string& output, const RoutesFile& file,
                  const std::function<void()>& before_it_appears = {});

}  // namespace mxcheck
