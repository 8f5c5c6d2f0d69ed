#pragma once
// HTML in a few calls: a page that needs nothing else (no network, no script), its sections, tables and lists. Every
// page is well-formed XML too, and follows the reader's light or dark setting.
//
//   html::Table t{.head = {html::text("step"), html::text("loss", "n")}};
//   t.rows.push_back({{html::text("100"), html::text("2.31", "n")}});
//   write(html::page("Losses", "", html::section("By step", html::table(t))));
//
// Arguments called `markup`, `body` or `css` are written as they are; all others are text of anyone's, and escaped.
// Errors: none.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mxcheck::html {

// Text inside XML and HTML, in attributes too: the five characters of markup as entities; what is no UTF-8, control
// characters but tab and line feed, those that turn the direction of writing, and the two that XML 1.0 forbids as '?'
// or U+FFFD.
std::string escaped(std::string_view text);

// The same without entities: what is left where a text is shown as it is.
std::string plain_text(std::string_view text);

// At most so many bytes: whole lines where it can be, with a last one that says how many bytes were left out.
std::string shortened(const std::string& text, std::size_t most);

// A name with underscores, which may be broken after each of them.
std::string breakable(std::string_view name);

// "12,345".
std::string grouped(std::int64_t number);

// " class="..."", or nothing.
std::string class_attribute(std::string_view css);

// The rules that every page has: colours, type, tables, bars. Text has 11 px or more and a contrast of 4.5 or more.
// Each colour has one meaning: --good what held, --bad what failed (no other red), --doubt what is undecided or must be
// looked at, --bar an amount; --page, --card, --ink, --soft and --rule are of the paper and the text.
extern const std::string_view kBaseStyle;

// style: further rules.
std::string page(std::string_view title, std::string_view style, std::string_view body);

// Empty where the body is. note: a sentence below the heading, or empty.
std::string section(std::string_view heading, std::string_view note, std::string_view body);
inline std::string section(std::string_view heading, std::string_view body) { return section(heading, "", body); }

// The verdict of the page in large letters; css: "good", "bad" or "doubt". more_markup: below it, smaller.
std::string verdict(std::string_view css, std::string_view word, std::string_view explanation,
                    std::string_view more_markup = "");

std::string list(const std::vector<std::string>& lines);  // empty where there are none
std::string note(std::string_view text);
std::string details(std::string_view summary_markup, std::string_view body, bool is_open = false);

// Content that may be wider than the page, and then scrolls; label: for readers of screens, or empty.
std::string wide(std::string_view body, std::string_view label = "");

struct Cell {
  std::string markup;
  std::string css;       // "n": a number, to the right
  bool is_head = false;  // it names its row
};
Cell text(std::string_view text, std::string_view css = "");
Cell name(std::string_view text, std::string_view css = "");  // of a row

struct Row {
  std::vector<Cell> cells;
  std::string css;
};
struct Table {
  std::vector<Cell> head;  // may be empty
  std::vector<Row> rows;
  std::string css;  // "fold": on a narrow page each row is a block of its cells
  std::string caption;
};
std::string table(const Table& t);  // nothing around it

}  // namespace mxcheck::html
