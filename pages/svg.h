#pragma once
// SVG in a few calls: shapes whose looks are classes of a style sheet, as a picture inside a page or as a file of its
// own.
//
//   svg::Drawing d;
//   d.rect(0, 2, 120, 9, {.css = "bar", .title = "12 s"});
//   page += d.picture({.title = "time", .width = 240, .height = 12});
//
// Numbers have at most two decimals. Texts and titles are escaped; css and attributes are written as they are.
// Errors: none; numbers must be finite.

#include <concepts>
#include <string>
#include <string_view>

namespace mxcheck::svg {

std::string number(double value);  // "12", "0.5", "-3.14"

// A place or an extent: pixels, or a share of the picture's width or height.
struct Length {
  double value;
  const char* unit = "";
  template <class Number>
  requires std::integral<Number> || std::floating_point<Number> Length(Number pixels)
      : value(static_cast<double>(pixels)) {}
  Length(double number, const char* its_unit) : value(number), unit(its_unit) {}
};
inline Length percent(double value) { return {value, "%"}; }

struct Look {
  std::string css = "";          // classes
  std::string title = "";        // shown where the pointer rests
  std::string attributes = "";   // further ones: "rx=\"3\""
  std::string_view anchor = "";  // of a text: "middle", "end"
};

enum class Sizing {
  own,      // as wide as it is drawn, or narrower with the page
  of_page,  // the style sheet says how wide, or the page is
  fluid     // as wide as the page, of its own height: text stays as large; places are shares of the width
};

struct Picture {
  std::string title;
  double width = 0;
  double height = 0;
  double left = 0;  // where the picture begins
  double top = 0;
  Sizing sizing = Sizing::own;
  std::string css = "";
  std::string attributes = "";
};

class Drawing {
 public:
  void rect(Length x, Length y, Length width, Length height, const Look& look = {});
  void line(Length x1, Length y1, Length x2, Length y2, const Look& look = {});
  void arrow(double x1, double y1, double x2, double y2, const Look& look = {});  // a line, and its head, a path
  void circle(Length x, Length y, double radius, const Look& look = {});
  void ellipse(Length x, Length y, double x_radius, double y_radius, const Look& look = {});
  void path(std::string_view d, const Look& look = {});          // d: SVG's own letters
  void polygon(std::string_view points, const Look& look = {});  // "0,0 10,0 10,5"
  void text(Length x, Length y, std::string_view words, const Look& look = {});
  // Around what is drawn next.
  void begin_group(const Look& look = {});
  void end_group();
  // Another drawing, cut off outside of this place.
  void inset(Length x, Length y, Length width, Length height, const Drawing& inner, const Look& look = {});
  void add(const Drawing& other) { body_ += other.body_; }

  [[nodiscard]] bool empty() const { return body_.empty(); }
  [[nodiscard]] std::string picture(const Picture& p) const;  // for a page
  // A file; style: its style sheet. What is drawn on has the class "paper", and is white if the style leaves it so.
  [[nodiscard]] std::string file(double width, double height, std::string_view title, std::string_view style) const;

 private:
  void element(std::string_view tag, std::string_view places, const Look& look, std::string_view content = "");

  std::string body_;
};

}  // namespace mxcheck::svg
