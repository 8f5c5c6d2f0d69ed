#pragma once
// Cards as data: peaks of the data sheets, and the shares of them that kernels reach, each with its source.
//
//   const Card& card = card_named("H200");
//   card.engine(Engine::mx)                 // null: the card lacks it
//   for (const CardFigure& f : figures_of(card)) ...   // every number with unit and source
//
// Errors: Error{usage} of card_named, which lists the names.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace mxcheck {

// The units of the figures.
inline constexpr double kMicro = 1e6;  // us in a second
inline constexpr double kGiga = 1e9;
inline constexpr double kTera = 1e12;

enum class Architecture : std::uint8_t { hopper, blackwell };

// A number and where it is from. An assumed one has no measurement; the source then says why it was chosen.
struct Figure {
  double value = 0;
  std::string_view source;
  bool assumed = false;
};

// The way in which tensor cores multiply two operands.
enum class Engine : std::uint8_t {
  bf16,        // operands in BF16
  values,      // quantized operands whose values are written as BF16: software has dequantized them
  fp8,         // FP8 codes; CUDA cores apply the scales of blocks, of which one operand has few
  fp8_lines,   // the same, both operands with a scale for each row
  fp8_tensor,  // FP8 codes under one scale a tensor
  mx,          // E8M0 scales of blocks, applied by the tensor cores
  nvfp4        // E2M1 codes under scales of blocks, applied by the tensor cores
};
inline constexpr std::size_t kEngineCount = 7;
std::string_view name_of(Engine engine);

struct EngineRate {
  Engine engine = Engine::bf16;
  Figure peak;    // TFLOPS, dense; 0: the card has no such engine
  Figure rows;    // share of it in a GEMM whose groups are rows of tokens
  Figure tokens;  // in a weight's gradient, which sums over tokens
};

// A kernel that moves memory: its share of the rate of a copy.
enum class Mover : std::uint8_t {
  quantize,         // along rows or columns of a matrix
  quantize_tokens,  // codes of gathered rows, along tokens
  two_level,        // E2M1 under two levels of scales; a pass for the largest magnitude is in its bytes
  stochastic,       // the same, rounded by random words
  four_over_six,    // the same, choosing between two scales by their errors
  ms_eden,
  gather,
  swiglu,
  swiglu_backward,
  aggregate
};
inline constexpr std::size_t kMoverCount = 10;
std::string_view name_of(Mover mover);

struct MoverShare {
  Mover mover = Mover::quantize;
  Figure of_copy;
};

struct Card {
  std::string_view name;
  Architecture architecture = Architecture::hopper;
  Figure memory_gb;
  Figure bandwidth;      // GB/s of its memory
  Figure copy;           // GB/s, read plus written, of a large copy
  Figure fp32;           // TFLOPS of its CUDA cores
  Figure launch;         // us of an empty kernel in a graph
  Figure nvlink;         // GB/s to other GPUs of the node, one direction
  Figure nvlink_share;   // of it in an all-to-all
  Figure network;        // GB/s to other nodes, one direction, a GPU
  Figure network_share;  // of it in an all-to-all
  std::array<EngineRate, kEngineCount> engines;
  std::array<MoverShare, kMoverCount> movers;

  // Null where the card has no such engine.
  [[nodiscard]] const EngineRate* engine(Engine engine) const;
  [[nodiscard]] const Figure& share_of(Mover mover) const;
};

std::span<const Card> all_cards();
const Card& card_named(std::string_view name);

struct CardFigure {
  std::string_view part;  // "mx", of what a card has several
  std::string_view what;
  std::string_view unit;
  Figure figure;
};
std::vector<CardFigure> figures_of(const Card& card);

// Latencies of an all-to-all in us, within a node and between nodes: those of Calculon's model of A100 systems
// (github.com/calculon-ai/calculon, systems/a100_80g.json: 10 and 20 us).
inline constexpr double kNvlinkLatency = 10;
inline constexpr double kNetworkLatency = 20;
// GPUs of a node: NVIDIA's DGX H100, H200 and B200, data sheets.
inline constexpr std::int64_t kNodeGpus = 8;

}  // namespace mxcheck
