#include "pages/svg.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "pages/html.h"

namespace mxcheck::svg {
namespace {

std::string place(std::string_view name, Length at) {
  return fmt::format(" {}=\"{}{}\"", name, number(at.value), at.unit);
}

std::string spaced(std::string_view attributes) { return attributes.empty() ? "" : " " + std::string(attributes); }

std::string title_of(std::string_view title) {
  return title.empty() ? "" : "<title>" + html::escaped(title) + "</title>";
}

}  // namespace

std::string number(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text == "-0" ? "0" : text;
}

void Drawing::element(std::string_view tag, std::string_view places, const Look& look, std::string_view content) {
  const std::string inner = title_of(look.title) + std::string(content);
  body_ += fmt::format("<{}{}{}{}", tag, html::class_attribute(look.css), places, spaced(look.attributes));
  if (!look.anchor.empty()) body_ += fmt::format(" text-anchor=\"{}\"", look.anchor);
  body_ += inner.empty() ? "/>\n" : fmt::format(">{}</{}>\n", inner, tag);
}

void Drawing::rect(Length x, Length y, Length width, Length height, const Look& look) {
  element("rect", place("x", x) + place("y", y) + place("width", width) + place("height", height), look);
}

void Drawing::line(Length x1, Length y1, Length x2, Length y2, const Look& look) {
  element("line", place("x1", x1) + place("y1", y1) + place("x2", x2) + place("y2", y2), look);
}

void Drawing::arrow(double x1, double y1, double x2, double y2, const Look& look) {
  line(x1, y1, x2, y2, look);
  constexpr double kLength = 8, kHalf = 4;
  const double length = std::max(1e-9, std::sqrt((x2 - x1) * (x2 - x1) + (y2 - y1) * (y2 - y1)));
  const double along_x = (x2 - x1) / length, along_y = (y2 - y1) / length;
  const auto corner = [&](double side) {
    return number(x2 - kLength * along_x - side * along_y) + "," + number(y2 - kLength * along_y + side * along_x);
  };
  path("M" + number(x2) + "," + number(y2) + " L" + corner(kHalf) + " L" + corner(-kHalf) + " z", look);
}

void Drawing::circle(Length x, Length y, double radius, const Look& look) {
  element("circle", place("cx", x) + place("cy", y) + place("r", radius), look);
}

void Drawing::ellipse(Length x, Length y, double x_radius, double y_radius, const Look& look) {
  element("ellipse", place("cx", x) + place("cy", y) + place("rx", x_radius) + place("ry", y_radius), look);
}

void Drawing::path(std::string_view d, const Look& look) { element("path", fmt::format(" d=\"{}\"", d), look); }

void Drawing::polygon(std::string_view points, const Look& look) {
  element("polygon", fmt::format(" points=\"{}\"", points), look);
}

void Drawing::text(Length x, Length y, std::string_view words, const Look& look) {
  element("text", place("x", x) + place("y", y), look, html::escaped(words));
}

void Drawing::begin_group(const Look& look) {
  body_ += fmt::format("<g{}{}>{}", html::class_attribute(look.css), spaced(look.attributes), title_of(look.title));
}

void Drawing::end_group() { body_ += "</g>\n"; }

void Drawing::inset(Length x, Length y, Length width, Length height, const Drawing& inner, const Look& look) {
  const std::string content = inner.empty() ? " " : "\n" + inner.body_;
  element("svg", place("x", x) + place("y", y) + place("width", width) + place("height", height), look, content);
}

std::string Drawing::picture(const Picture& p) const {
  std::string size;
  if (p.sizing == Sizing::fluid) {
    size = fmt::format(" width=\"100%\" height=\"{}\"", number(p.height));
  } else {
    size = fmt::format(" viewBox=\"{} {} {} {}\"", number(p.left), number(p.top), number(p.width), number(p.height));
    if (p.sizing == Sizing::own) size += place("width", p.width) + place("height", p.height);
  }
  return fmt::format("<svg{} role=\"img\"{}{}>{}\n{}</svg>\n", html::class_attribute(p.css), size, spaced(p.attributes),
                     title_of(p.title), body_);
}

std::string Drawing::file(double width, double height, std::string_view title, std::string_view style) const {
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n"
      "{2}\n<style>.paper{{fill:#fff;stroke:none!important}} {3}</style>\n<rect class=\"paper\" width=\"100%\" "
      "height=\"100%\"/>\n{4}</svg>\n",
      number(width), number(height), title_of(title), style, body_);
}

}  // namespace mxcheck::svg
