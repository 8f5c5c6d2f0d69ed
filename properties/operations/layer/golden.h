#pragma once
// Goldens about steps of a layer: the kind swiglu of properties/goldens/suite.h.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "properties/goldens/input.h"
#include "properties/goldens/kind.h"
#include "reference/layer/layer.h"

namespace mxcheck {

// Codes and scales of one of SwiGLU's outputs.
struct SwigluCodes {
  std::string of;  // "A", "scaled_A", "dH"
  Format format = Format::e4m3;
  std::int64_t block = 32;  // along the depth
  std::string recipe;
  bool along_tokens = false;  // of the transpose, blocks starting again at each expert
};
std::string name_of(const SwigluCodes& codes);  // "dH_T_e4m3_1x32_rceil"; its datasets are this and "_codes", "_scales"

struct SwigluGolden {
  InputSpec gate, up, h, p, weights;  // gate and up, or h
  bool has_h = false;
  std::optional<SwigluCodes> h_codes;  // its format and recipe alone
  std::vector<SwigluCodes> codes;
  GateUp gate_up = GateUp::halves;
  std::vector<std::int64_t> offsets;
};

std::vector<const GoldenKind*> swiglu_golden_kinds();

// Definitions and slips for a dataset; codes are also held against the candidate's own scales and values.
Table rows_of_swiglu(const GoldenTensors& golden, const DatasetInfo& dataset, const CandidateTensor& candidate);

// Specs that have gate and up values: their order, an input by its key, and what a refused size looks like.
GateUp parse_gate_up(JsonObject& o);
// Gate and up values of rows of n, side by side or one after the other.
std::vector<std::uint16_t> gate_and_up(const std::vector<std::uint16_t>& gate, const std::vector<std::uint16_t>& up,
                                       std::int64_t n, GateUp order);
InputSpec input_at(JsonObject& o, const char* key);
std::string size_text(std::int64_t rows, std::int64_t cols);

}  // namespace mxcheck
