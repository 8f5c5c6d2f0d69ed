#pragma once
// Colours of series: arm i of a comparison is class "s<i>". BF16 is grey; the others are spread over hue and lightness,
// and lines over dashes, too. Red is none of them: it is for what failed.
//
//   page += "<style>" + series_style(arms.size()) + "</style>";
//   chart.line(curve, series_class(i));
//
// Errors: none.

#include <cstddef>
#include <string>

namespace mxcheck {

inline constexpr std::size_t kSeriesColours = 40;  // all different, BF16's besides; later arms differ by their dashes

std::string series_class(std::size_t arm);
std::string series_colour(std::size_t arm, bool on_black);  // "#2a78d6"
std::string series_style(std::size_t arms);                 // the style sheet of so many

}  // namespace mxcheck
