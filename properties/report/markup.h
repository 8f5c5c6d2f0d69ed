#pragma once
// Text of others inside XML and HTML: names of libraries, paths, messages.

#include <cstdint>
#include <string>
#include <string_view>

namespace mxcheck {

// The five characters of markup as entities; what is no UTF-8, control characters but tab and line feed, those that
// turn the direction of writing, and the two that XML 1.0 forbids as '?' or U+FFFD. Safe in text and in attributes.
std::string escaped_markup(std::string_view text);

// The same without entities: what is left where a text is shown as it is.
std::string plain_text(std::string_view text);

// At most so many bytes: whole lines where it can be, with a last one that says how many bytes were left out.
std::string shortened(const std::string& text, std::size_t most);

// A name with underscores, which may be broken after each of them.
std::string breakable(std::string_view name);

// "12,345".
std::string grouped(std::int64_t number);

}  // namespace mxcheck
