#pragma once
// The report of identify as JSON. Members are only ever added; tests/properties/identify/reveal_test.cc has them all.
//
//   {"explained": true, "explaining": ["sm90_fp8"], "also": [], "declared": null, "closest": [...], "compared": 64,
//    "probes": 1, "tried": 72, "order": {"tree": "((0 1) (2 3))", "shape": "pairwise", ...}}
//
// Words are texts, "0x47ad0000" of values and decimal numbers of integers.

#include "goldens/json/json.h"
#include "properties/identify/product.h"

namespace mxcheck {

Json to_json(const Match& match);
Json to_json(const TreeReport& order);
// A match and its order, which is null where none was looked for.
Json to_json(const Match& match, const std::optional<TreeReport>& order);

}  // namespace mxcheck
