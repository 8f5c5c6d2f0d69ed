#pragma once
// The charts of a comparison, each as one or several inline SVGs: losses, differences over training, shares that
// quantization saturates and flushes, routes and loads of experts. Series i is arm i, class "s<i>".
//
// Errors: none. An empty text where no run observed what a chart shows.

#include <string>

#include "trainer/compare/comparison.h"

namespace mxcheck {

inline constexpr std::size_t kSeriesColours = 8;  // arms beyond share them again
std::string series_class(std::size_t arm);

std::string loss_charts(const ParityComparison& comparison);        // validation and training, all runs
std::string difference_charts(const ParityComparison& comparison);  // an arm each, at the checkpoints
std::string operand_charts(const ArmResult& arm);                   // an operand each
std::string routing_charts(const ParityComparison& comparison);     // equal routes, entropy, loads by layer

}  // namespace mxcheck
