#include "pages/html.h"

#include <array>

#include <fmt/format.h>

#include "goldens/json/json.h"

namespace mxcheck::html {
namespace {

// U+FFFE and U+FFFF are no characters of XML; U+202A to U+202E and U+2066 to U+2069 show a name as another one.
bool is_left_out(std::string_view three) {
  constexpr std::array<std::string_view, 11> kAll{"\xEF\xBF\xBE", "\xEF\xBF\xBF", "\xE2\x80\xAA", "\xE2\x80\xAB",
                                                  "\xE2\x80\xAC", "\xE2\x80\xAD", "\xE2\x80\xAE", "\xE2\x81\xA6",
                                                  "\xE2\x81\xA7", "\xE2\x81\xA8", "\xE2\x81\xA9"};
  for (const std::string_view one : kAll) {
    if (three == one) return true;
  }
  return false;
}

std::string cell(const Cell& c, bool of_head) {
  const char* const tag = of_head || c.is_head ? "th" : "td";
  const char* const scope = of_head ? " scope=\"col\"" : c.is_head ? " scope=\"row\"" : "";
  return fmt::format("<{0}{1}{2}>{3}</{0}>", tag, scope, class_attribute(c.css), c.markup);
}

std::string row(const Row& r, bool of_head) {
  std::string out = fmt::format("<tr{}>", class_attribute(r.css));
  for (const Cell& c : r.cells) out += cell(c, of_head);
  return out + "</tr>";
}

}  // namespace

const std::string_view kBaseStyle = R"(
:root { color-scheme: light dark; --page: #fcfcfb; --card: #ffffff; --ink: #17171a; --soft: #5d5f66; --rule: #dcdce0;
  --good: #1a7f37; --bad: #b3261e; --doubt: #8a5a00; --bar: #5b97d6; }
@media (prefers-color-scheme: dark) { :root { --page: #17181b; --card: #1e2024; --ink: #ececef; --soft: #a5a7ae;
  --rule: #36383e; --good: #5fd07d; --bad: #ff8a80; --doubt: #f2b84b; --bar: #3b82c4; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px 20px 60px; max-width: 1120px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, "Liberation Sans", sans-serif; overflow-wrap: break-word; }
@media (max-width: 480px) { body { padding: 12px 10px 40px; } }
h1 { font-size: 24px; margin: 0 0 12px; overflow-wrap: anywhere; } h2 { font-size: 18px; margin: 36px 0 8px;
  overflow-wrap: anywhere; }
h3 { font-size: 15px; margin: 20px 0 6px; overflow-wrap: anywhere; } p { margin: 6px 0; max-width: 90ch; }
.soft { color: var(--soft); } .note { font-size: 13px; color: var(--soft); }
.good { color: var(--good); } .bad { color: var(--bad); } .doubt { color: var(--doubt); }
.verdict { border-left: 6px solid var(--doubt); background: var(--card); padding: 10px 16px; margin: 0 0 16px;
  font-size: 18px; overflow-wrap: anywhere; } .verdict > strong { margin-right: 10px; }
.verdict p, .verdict ul { font-size: 15px; } .verdict p.note { font-size: 13px; }
.verdict.good { color: inherit; border-color: var(--good); } .verdict.bad { color: inherit; border-color: var(--bad); }
.verdict.doubt { color: inherit; }
.wide { overflow-x: auto; } svg { max-width: 100%; height: auto; } figure { margin: 0; } figcaption { font-size: 13px;
  color: var(--soft); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13.5px; }
caption { text-align: left; color: var(--soft); padding: 4px 0; max-width: min(90ch, 94vw); }
th, td { text-align: left; vertical-align: top; padding: 4px 10px 4px 0; border-bottom: 1px solid var(--rule); }
th { font-weight: 600; } thead th { color: var(--soft); } .n { text-align: right; white-space: nowrap; }
@media (max-width: 640px) { .fold thead { display: none; } .fold tr { display: flex; flex-wrap: wrap; padding: 6px 0;
  border-bottom: 1px solid var(--rule); } .fold td, .fold th { border: 0; padding: 1px 10px 1px 0; min-width: 0; } }
.bars { display: grid; grid-template-columns: fit-content(22em) minmax(60px, 420px) fit-content(20em); gap: 4px 10px;
  align-items: center; margin: 8px 0; font-size: 13px; line-height: 1.35; } .bars > * { min-width: 0; }
.bars svg { display: block; width: 100%; overflow: visible; } .bar { fill: var(--bar); } .bar.doubt { fill: var(--doubt); }
.bars > b { font-weight: 400; text-align: right; overflow-wrap: anywhere; } .bars .ticks { grid-column: 2; }
@media (max-width: 640px) { .bars { grid-template-columns: minmax(60px, 1fr) fit-content(45%); } .bars > b {
  grid-column: 1 / -1; text-align: left; margin-top: 4px; } .bars .ticks { grid-column: 1; } }
ul { padding-left: 22px; margin: 8px 0; } details { margin: 8px 0; } summary { cursor: pointer; color: var(--soft); }
code, pre, .mono { font-family: ui-monospace, "Liberation Mono", "DejaVu Sans Mono", monospace; font-size: 13px; }
pre { background: var(--card); border: 1px solid var(--rule); border-radius: 6px; padding: 10px 14px; overflow-x: auto;
  line-height: 1.45; margin: 8px 0; }
.key { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 8px 0; }
)";

std::string plain_text(std::string_view raw) {
  const std::string text = valid_utf8(std::string(raw));
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (is_left_out(std::string_view(text).substr(i, 3))) {
      out += '?', i += 2;
    } else {
      out += (byte < 0x20 && text[i] != '\n' && text[i] != '\t') || byte == 0x7F ? '?' : text[i];
    }
  }
  return out;
}

std::string escaped(std::string_view raw) {
  std::string out;
  for (const char c : plain_text(raw)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  constexpr std::size_t kRoomForNote = 60;
  std::size_t end = most > kRoomForNote ? most - kRoomForNote : 0;
  if (const std::size_t line = text.rfind('\n', end); line != std::string::npos && line > end / 2) end = line;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // no character is cut in two
  return text.substr(0, end) + "\n... " + std::to_string(text.size() - end) + " bytes more\n";
}

std::string breakable(std::string_view name) {
  std::string out;
  for (const char c : escaped(name)) out += c == '_' ? "_<wbr/>" : std::string(1, c);
  return out;
}

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  const std::size_t sign = number < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > sign + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string class_attribute(std::string_view css) { return css.empty() ? "" : fmt::format(" class=\"{}\"", css); }

std::string page(std::string_view title, std::string_view style, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"/><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"/>\n<title>{0}</title>\n<style>{1}{2}</style></head>\n<body>\n"
      "<main><h1>{0}</h1>\n{3}</main></body>\n</html>\n",
      escaped(title), kBaseStyle, style, body);
}

std::string section(std::string_view heading, std::string_view note, std::string_view body) {
  if (body.empty()) return "";
  return fmt::format("<section><h2>{}</h2>\n{}{}</section>\n", escaped(heading),
                     note.empty() ? "" : "<p class=\"soft\">" + escaped(note) + "</p>\n", body);
}

std::string verdict(std::string_view css, std::string_view word, std::string_view explanation, std::string_view more) {
  return fmt::format("<div class=\"verdict {0}\"><strong class=\"{0}\">{1}</strong>{2}{3}</div>\n", css, escaped(word),
                     escaped(explanation), more);
}

std::string list(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += "<li>" + escaped(line) + "</li>\n";
  return out.empty() ? "" : "<ul>\n" + out + "</ul>\n";
}

std::string note(std::string_view text) { return "<p class=\"note\">" + escaped(text) + "</p>\n"; }

std::string details(std::string_view summary_markup, std::string_view body, bool is_open) {
  return fmt::format("<details{}><summary>{}</summary>\n{}</details>\n", is_open ? " open=\"open\"" : "",
                     summary_markup, body);
}

std::string wide(std::string_view body, std::string_view label) {
  const std::string region =
      label.empty() ? "" : fmt::format(" role=\"region\" tabindex=\"0\" aria-label=\"{}\"", escaped(label));
  return fmt::format("<div class=\"wide\"{}>{}</div>\n", region, body);
}

Cell text(std::string_view text, std::string_view css) { return {escaped(text), std::string(css)}; }
Cell name(std::string_view text, std::string_view css) { return {escaped(text), std::string(css), true}; }

std::string table(const Table& t) {
  std::string out = fmt::format("<table{}>", class_attribute(t.css));
  if (!t.caption.empty()) out += "<caption>" + escaped(t.caption) + "</caption>";
  if (!t.head.empty()) out += "\n<thead>" + row({t.head, ""}, true) + "</thead>";
  out += "\n<tbody>\n";
  for (const Row& r : t.rows) out += row(r, false) + "\n";
  return out + "</tbody></table>";
}

}  // namespace mxcheck::html
