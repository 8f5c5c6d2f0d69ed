#pragma once
// English text that anyone gets from Debian 12: dictionaries, manuals and documentation of packages whose versions stay
// as they are. docs/parity.md has the commands.
//
//   const EnglishText text = english_text("/");     // or the folder where the packages' files are
//   check_english(text);                            // that it is the text that runs are recorded with
//
// Each part is a file or a folder of a package. Dictionaries are taken as they are. Of HTML the text between tags
// counts, cut into paragraphs where a block ends, white space made one space; a paragraph of under 60 bytes is left
// out, and so is one that came before. The whole is cut into pieces of 64 KiB or a little more, at ends of lines, which
// are shuffled: the last twentieth, which is never trained on, has some of every part.
//
// Errors: Error{input} for a part that is not there, naming its package, and for one that cannot be read; of
// check_english Error{environment}, naming the parts that are not those of Debian 12.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mxcheck {

struct EnglishPart {
  std::string_view package;
  std::string_view version;
  std::string_view path;  // below the root: a file, or a folder of HTML
  std::uint64_t bytes;    // of its text
  std::string_view sha256;
};
std::span<const EnglishPart> all_english_parts();
inline constexpr const char* kEnglishSha256 = "9957e5a166ca68fc3d8676219364c876a72377092451039ebcba6706d07e88be";

struct EnglishText {
  struct Part {
    const EnglishPart* of = nullptr;
    std::uint64_t bytes = 0;
    std::string sha256;
  };
  std::vector<Part> parts;
  std::string text;
  std::string sha256;
};
EnglishText english_text(const std::string& root);
void check_english(const EnglishText& text);

// The text of an HTML page as paragraphs, as above; for tests.
std::vector<std::string> paragraphs_of_html(std::string_view html);

}  // namespace mxcheck
