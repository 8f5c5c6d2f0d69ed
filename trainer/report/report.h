#pragma once
// A comparison as text, as JSON and as a page. The same comparison gives the same bytes.
//
// Errors: none.

#include <string>
#include <string_view>
#include <vector>

#include "trainer/compare/comparison.h"

namespace mxcheck {

// Verdicts, noise and power, trajectory, observations, runs, and how it was decided.
std::string comparison_text(const ParityComparison& comparison);

// Every number of it, for machines. What is no finite number is null. Shares and relative differences are plain
// numbers: 0.001 is 0.1 %.
std::string comparison_json(const ParityComparison& comparison);
inline constexpr std::string_view kComparisonSchema = "mxcheck loss parity comparison 1";

// One HTML page that needs nothing else: no network, no script; charts are inline SVG, and colours follow the reader's
// light or dark setting. It is well-formed XML too.
std::string comparison_html(const ParityComparison& comparison);

// The charts of a comparison, each as one or several pictures of a page: the forest plot, the loss of BF16, differences
// from it over training and by branch point, shares that quantization saturates and flushes, routes and loads of
// experts. Series i is arm i.
//
// Errors: none. An empty text where no run observed what a chart shows.

// Where an axis of differences ends: beyond all of `reaches` and 1.4 times `least`, but for a minority that is four
// times as far away as the rest, which would make gaps of 0.02 % invisible.
double axis_end(std::vector<double> reaches, double least);

// The forest plot, a group a branch point: for each arm a line of text, and under it its interval and its pairs against
// the margins. Places are shares of the width, so that it is as wide as the page, a phone's too, with text of one size.
// An arrow at the axis's end stands for a value beyond it.
std::string forest_html(const ParityComparison& comparison);

std::string baseline_chart(const ParityComparison& comparison);       // of validation: mean and range over its runs
std::string branch_point_charts(const ParityComparison& comparison);  // mean d of all arms, a branch point each
std::string difference_charts(const ParityComparison& comparison);    // d with its limits, an arm each
std::string dependence_chart(const ParityComparison& comparison);     // gap against share of training, a line a recipe
// The training losses of BF16 and mxfp8, two lines that can hardly be told apart, and below them their difference.
std::string two_curves_figure(const ParityComparison& comparison);
std::string operand_charts(const ArmResult& arm);                // an operand each
std::string routing_charts(const ParityComparison& comparison);  // equal routes, entropy, loads by layer

// Names of arms with their lines.
std::string key_of(const ParityComparison& comparison, const std::vector<std::size_t>& arms);

}  // namespace mxcheck
