#pragma once
// Says if a text is well-formed XML, as far as pages, pictures and reports use it, and how often it has a part. A
// parser that takes what is wrong, as pugixml takes a bare "&" and an attribute twice, would not do.

#include <cctype>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "goldens/json/json.h"

namespace mxcheck::test {

// One root, elements nest and close, attributes are quoted and unique, text holds no bare
// "<" or "&", all is UTF-8 without control characters. Empty if well-formed, else what is wrong.
class XmlChecker {
 public:
  explicit XmlChecker(std::string text) : text_(std::move(text)) {}

  std::string check() {
    if (valid_utf8(text_) != text_) return "no UTF-8";
    if (!eat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n") && !eat("<!DOCTYPE html>\n")) return "no declaration";
    std::vector<std::string> open;
    int roots = 0;
    while (at_ < text_.size()) {
      if (text_[at_] != '<') {
        if (!text_until('<') || (open.empty() && text_[at_ - 1] != '\n')) return wrong("text");
        continue;
      }
      if (eat("</")) {
        const std::string name = word();
        if (open.empty() || open.back() != name || !eat(">")) return wrong("closing " + name);
        open.pop_back();
        continue;
      }
      ++at_;
      const std::string name = word();
      if (name.empty()) return wrong("a tag");
      if (open.empty() && ++roots > 1) return wrong("a second root");
      elements.push_back(name);
      std::set<std::string> seen;
      while (eat(" ") || eat("\n")) {
        const std::string key = word();
        if (key.empty() || !seen.insert(key).second || !eat("=\"")) return wrong("attribute " + key);
        const std::size_t from = at_;
        if (!text_until('"')) return wrong("value of " + key);
        attributes[name + "." + key].push_back(text_.substr(from, at_ - from));
        ++at_;
      }
      if (eat("/>")) continue;
      if (!eat(">")) return wrong("end of tag " + name);
      open.push_back(name);
    }
    return open.empty() && roots == 1 ? "" : "elements left open";
  }

  std::vector<std::string> elements;
  std::map<std::string, std::vector<std::string>> attributes;

 private:
  static bool is_of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }
  bool eat(const std::string& what) {
    if (text_.compare(at_, what.size(), what) != 0) return false;
    at_ += what.size();
    return true;
  }
  std::string word() {
    const std::size_t from = at_;
    while (at_ < text_.size() && is_of_word(text_[at_])) ++at_;
    return text_.substr(from, at_ - from);
  }
  bool text_until(char end) {
    while (at_ < text_.size() && text_[at_] != end) {
      const char c = text_[at_];
      const bool is_control = (c >= 0 && c < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
      if (c == '<' || is_control) return false;
      if (c == '&') {
        bool entity = false;
        for (const char* name : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"})
          entity = entity || text_.compare(at_, std::strlen(name), name) == 0;
        if (!entity) return false;
      }
      ++at_;
    }
    return at_ < text_.size() || end == '<';
  }
  std::string wrong(const std::string& what) const {
    return what + " at " + std::to_string(at_) + ": " + text_.substr(at_, 60);
  }
  std::string text_;
  std::size_t at_ = 0;
};

// The text is a page, or a part of one.
inline std::string not_well_formed(const std::string& markup) {
  return XmlChecker(markup.starts_with("<!") || markup.starts_with("<?") ? markup : "<!DOCTYPE html>\n" + markup)
      .check();
}

inline std::size_t times(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

}  // namespace mxcheck::test
