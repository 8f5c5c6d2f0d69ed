#include "trainer/data/english.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <memory>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "goldens/io/byte_source.h"
#include "goldens/io/sha256.h"
#include "numerics/elementary/elementary.h"
#include "numerics/error.h"

namespace mxcheck {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLeastParagraph = 60;
constexpr std::size_t kPiece = 64 << 10;
constexpr std::uint64_t kMostText = std::uint64_t{1} << 28;  // of one part

constexpr std::array<EnglishPart, 24> kParts{{
    {"dict-gcide", "0.48.5+nmu2", "usr/share/dictd/gcide.dict.dz", 39952321,
     "802beb667e1fb666203e750f1faea60d5c202ac5430c2083c4180494609f10a7"},
    {"dict-wn", "1:3.0-37", "usr/share/dictd/wn.dict.dz", 30958182,
     "1a8b6fe11b6c845ea66246c54e3c33303b2243d3fb3f8d6402ef64e6400f675a"},
    {"dict-foldoc", "20230119-1", "usr/share/dictd/foldoc.dict.dz", 5578809,
     "c2dfea8326f0adb810f3624a8c0de234134c927434fb74737275719b0085a1be"},
    {"dict-jargon", "4.4.7-3.1", "usr/share/dictd/jargon.dict.dz", 1418350,
     "6c8118c277d0b00736d406d4941b77b69932d6ab125f7179ff88fe12939cc19e"},
    {"dict-devil", "1.0-13.1", "usr/share/dictd/devil.dict.dz", 383656,
     "703d1225d2fb927653bfd8b00e4e96938e0b630c6023edd26702ac6ed50383f8"},
    {"debian-handbook", "11.20220922", "usr/share/doc/debian-handbook/html/en-US", 1072759,
     "c25b1517be9c0c79b8a3127c70170fb97a421188665c56e282f6bb1f0a711b61"},
    {"developers-reference", "12.18", "usr/share/developers-reference", 265335,
     "998b62a4368d10e9741295982662e86fcb17fba80caf01f5137cc006cdc89f47"},
    {"debian-reference-en", "2.100", "usr/share/debian-reference", 373238,
     "e9bc3455d77665de6773328860b2b836bc7a8ba4d0160083e9687aa4dff603bb"},
    {"debian-policy", "4.6.2.0", "usr/share/doc/debian-policy", 558392,
     "a548bf7b99ef50a242530d481dcd34e3d03878f743da78c16844c84e56761312"},
    {"libboost1.74-doc", "1.74.0+ds1-21", "usr/share/doc/libboost1.74-doc", 6831514,
     "975b73d7c0bf4ecc31298435d5357b6abc875d9770577fa2344f404dace5e8c7"},
    {"cmake-doc", "3.25.1-1", "usr/share/doc/cmake-data", 2453606,
     "74036bbd43e3fb7453ac5c404f4d7caa7bfdfe8db55034db277d55f9d3291e1e"},
    {"exim4-doc-html", "4.96-1", "usr/share/doc/exim4-doc-html", 1639494,
     "ec5e176bc374dc82d85db2e4c1bee229f162f35c388797fbb35c2bd11c26310e"},
    {"maxima-doc", "5.46.0-11", "usr/share/doc/maxima-doc", 1579651,
     "de5dfe6ed088564db73fd2089f7793de8426e6009f9adb0bd67b5c4c2f3c8e6d"},
    {"octave-doc", "7.3.0-2", "usr/share/doc/octave", 1628495,
     "1df30087d3a2f4cef1a7542f6c20f016535185bd0195d981bc51f9864bfab384"},
    {"rust-doc", "1.63.0+dfsg1-2", "usr/share/doc/rust-doc/html/book", 1095001,
     "4ca65df7b6ee6ad94c0979889154fcc59ea38b6935d6ac17961976a35ad1e541"},
    {"rust-doc", "1.63.0+dfsg1-2", "usr/share/doc/rust-doc/html/reference", 444470,
     "d996ce3e0bf1b917d6df8e06b8c0551253e66e26bf779be31a30d37f6525d4cc"},
    {"rust-doc", "1.63.0+dfsg1-2", "usr/share/doc/rust-doc/html/nomicon", 261333,
     "77c3cb66bcc2ab1ef18ec62d35a1e5bc846b13845b9100cf163dd245c5c2097c"},
    {"rust-doc", "1.63.0+dfsg1-2", "usr/share/doc/rust-doc/html/rust-by-example", 281044,
     "e0104aab57334900e34ad018ac830d40cc3763c883ef4b482b24f82a4bd5a3f9"},
    {"rust-doc", "1.63.0+dfsg1-2", "usr/share/doc/rust-doc/html/rustc", 322433,
     "57279b5c00dd01c3b30965484f56a174510f854cd7ab4a085c7971eabcc60e86"},
    {"rust-doc", "1.63.0+dfsg1-2", "usr/share/doc/rust-doc/html/rustdoc", 77559,
     "f49a62d7ba46b5b65feec022b47b9c2868eaad6ba19d6adbec9fdb4505e4db44"},
    {"rust-doc", "1.63.0+dfsg1-2", "usr/share/doc/rust-doc/html/unstable-book", 114223,
     "da64985bcc609a2f265a4dddb3bfc43eebb325a8a4572082e3bb4fc4ab747d5a"},
    {"rust-doc", "1.63.0+dfsg1-2", "usr/share/doc/rust-doc/html/std", 2600821,
     "478a3febf491aaa2210da84bb8d243d807b014d23a80ff239d30bc85ffb0ba12"},
    {"sphinx-doc", "5.3.0-4", "usr/share/doc/sphinx-doc", 1344615,
     "098b4eefa76694abe3273c624dd3fb559a3aa2ed9cfadf170531050801a5558e"},
    {"zsh-doc", "5.9-4", "usr/share/doc/zsh-common", 1260198,
     "69e9ca3cb18aaa5cc7570d9d1a4421fb4f8de67bf68609f561889f5781c39771"},
}};

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::input, path + ": " + what);
}

// A file of gzip, or one that is not compressed.
std::string unpacked(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) refuse(path, "cannot be opened");
  std::string text;
  std::array<char, 1 << 16> room{};
  for (int read = 0; (read = gzread(file.get(), room.data(), static_cast<unsigned>(room.size()))) != 0;) {
    int error = 0;
    if (read < 0) refuse(path, std::string("cannot be unpacked: ") + gzerror(file.get(), &error));
    text.append(room.data(), static_cast<std::size_t>(read));
    if (text.size() > kMostText) refuse(path, "has more than 2^28 bytes of text");
  }
  return text;
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }
bool is_name(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }

void append_utf8(std::string& to, std::uint32_t code) {
  const auto byte = [&](std::uint32_t value) { to.push_back(static_cast<char>(value)); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | code >> 6), byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 0x3F)), byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | code >> 18), byte(0x80 | (code >> 12 & 0x3F)), byte(0x80 | (code >> 6 & 0x3F)),
        byte(0x80 | (code & 0x3F));
  }
}

constexpr std::array<std::pair<std::string_view, std::uint32_t>, 14> kEntities{{
    {"amp", '&'},
    {"lt", '<'},
    {"gt", '>'},
    {"quot", '"'},
    {"apos", '\''},
    {"nbsp", ' '},
    {"mdash", 0x2014},
    {"ndash", 0x2013},
    {"rsquo", 0x2019},
    {"lsquo", 0x2018},
    {"rdquo", 0x201D},
    {"ldquo", 0x201C},
    {"copy", 0xA9},
    {"para", 0xB6},
}};

// The character of an entity "&...;" at the beginning is appended, else "&"; returns how many bytes of `html` it took.
std::size_t append_entity(std::string& to, std::string_view html) {
  const std::size_t end = html.substr(0, 12).find(';');
  if (end != std::string_view::npos && end > 1) {
    const std::string_view name = html.substr(1, end - 1);
    if (name[0] == '#') {
      const bool hex = name.size() > 1 && lower(name[1]) == 'x';
      const std::string_view digits = name.substr(hex ? 2 : 1);
      std::uint32_t code = 0;
      const auto [at, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, hex ? 16 : 10);
      const bool whole = error == std::errc() && at == digits.data() + digits.size() && !digits.empty();
      if (whole && code != 0 && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF)) {
        append_utf8(to, code == 0xA0 ? ' ' : code);
        return end + 1;
      }
    }
    for (const auto& [known, code] : kEntities) {
      if (name != known) continue;
      append_utf8(to, code);
      return end + 1;
    }
  }
  to.push_back('&');
  return 1;
}

// Tags that end a paragraph; all others lie within one.
constexpr std::array<std::string_view, 38> kBlocks{
    "address", "article", "aside",    "blockquote", "body",   "br",     "caption", "center", "dd", "div",
    "dl",      "dt",      "fieldset", "figcaption", "figure", "footer", "form",    "h1",     "h2", "h3",
    "h4",      "h5",      "h6",       "header",     "hr",     "li",     "main",    "nav",    "ol", "p",
    "pre",     "section", "summary",  "table",      "td",     "th",     "tr",      "ul"};
// Tags whose content is no text.
constexpr std::array<std::string_view, 5> kSilent{"head", "script", "style", "svg", "template"};

// One pass over a page: tags are told from text, and text is collected.
class HtmlText {
 public:
  explicit HtmlText(std::string_view html) : html_(html) {}

  std::vector<std::string> paragraphs() {
    while (at_ < html_.size()) {
      if (html_[at_] == '<' && is_tag()) {
        skip_tag();
      } else if (html_[at_] == '&') {
        std::string meant;
        at_ += append_entity(meant, html_.substr(at_));
        for (const char c : meant) add(c);
      } else {
        add(html_[at_++]);
      }
    }
    end();
    return std::move(all_);
  }

 private:
  [[nodiscard]] bool is_tag() const {
    const char next = at_ + 1 < html_.size() ? html_[at_ + 1] : ' ';
    return next == '/' || next == '!' || next == '?' || is_letter(next);
  }

  // "<!-- ... -->", "<name ...>", "</name>"; of a silent one all up to its end.
  void skip_tag() {
    if (html_.substr(at_, 4) == "<!--") return skip_behind("-->", at_ + 4);
    std::size_t from = at_ + 1;
    const bool closes = from < html_.size() && html_[from] == '/';
    if (closes) ++from;
    std::string name;
    for (std::size_t i = from; i < html_.size() && is_name(html_[i]); ++i) name.push_back(lower(html_[i]));
    skip_behind(">", from);
    if (std::find(kBlocks.begin(), kBlocks.end(), name) != kBlocks.end()) end();
    if (!closes && std::find(kSilent.begin(), kSilent.end(), name) != kSilent.end()) skip_silent(name);
  }
  void skip_behind(std::string_view mark, std::size_t from) {
    const std::size_t found = html_.find(mark, from);
    at_ = found == std::string_view::npos ? html_.size() : found + mark.size();
  }
  void skip_silent(const std::string& name) {
    const auto equal = [](char a, char b) { return lower(a) == b; };
    const std::string mark = "</" + name;
    const auto found =
        std::search(html_.begin() + static_cast<std::ptrdiff_t>(at_), html_.end(), mark.begin(), mark.end(), equal);
    at_ = static_cast<std::size_t>(found - html_.begin());
    if (at_ < html_.size()) skip_behind(">", at_);
  }

  void add(char c) {
    if (!is_space(c)) {
      if (space_ && !now_.empty()) now_.push_back(' ');
      now_.push_back(c);
    }
    space_ = is_space(c);
  }
  void end() {
    if (now_.size() >= kLeastParagraph) all_.push_back(std::move(now_));
    now_.clear();
    space_ = false;
  }

  std::string_view html_;
  std::size_t at_ = 0;
  std::string now_;
  bool space_ = false;
  std::vector<std::string> all_;
};

// Paths of a folder's pages relative to it, in byte order. Links are not followed.
std::vector<std::string> pages_of(const std::string& folder) {
  std::vector<std::string> pages;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string extension = at->path().extension().string();
    if (at->is_regular_file(error) && !at->is_symlink(error) && (extension == ".html" || extension == ".htm"))
      pages.push_back(at->path().lexically_relative(folder).string());
  }
  if (error) refuse(folder, "cannot be read: " + error.message());
  std::sort(pages.begin(), pages.end());
  return pages;
}

using Seen = std::unordered_set<std::string>;  // SHA-256 of paragraphs

std::string text_of_folder(const std::string& folder, Seen& seen) {
  std::string text;
  for (const std::string& page : pages_of(folder)) {
    for (const std::string& paragraph : paragraphs_of_html(unpacked((fs::path(folder) / page).string()))) {
      if (seen.insert(sha256(std::as_bytes(std::span(paragraph)))).second) text += paragraph + "\n\n";
    }
    if (text.size() > kMostText) refuse(folder, "has more than 2^28 bytes of text");
  }
  return text;
}

// Pieces that end with a line, in an order that the words of a generator give.
std::string shuffled(const std::string& text) {
  std::vector<std::pair<std::uint64_t, std::string_view>> pieces;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t line = text.find('\n', std::min(at + kPiece, text.size() - 1));
    const std::size_t end = line == std::string::npos ? text.size() : line + 1;
    const auto i = static_cast<std::uint32_t>(pieces.size());
    pieces.emplace_back(std::uint64_t{philox_word(0, i, 0, 0, 0)} << 32 | i,
                        std::string_view(text).substr(at, end - at));
    at = end;
  }
  std::sort(pieces.begin(), pieces.end());
  std::string all;
  for (const auto& [order, piece] : pieces) all += piece;
  return all;
}

std::string hash_of(const std::string& text) { return sha256(std::as_bytes(std::span(text))); }

}  // namespace

std::span<const EnglishPart> all_english_parts() { return kParts; }

std::vector<std::string> paragraphs_of_html(std::string_view html) { return HtmlText(html).paragraphs(); }

EnglishText english_text(const std::string& root) {
  EnglishText all;
  Seen seen;
  std::string joined;
  for (const EnglishPart& part : kParts) {
    const std::string path = (fs::path(root) / part.path).string();
    if (!fs::exists(path))
      refuse(path, fmt::format("is not there; it is of the package {} {}", part.package, part.version));
    const std::string text = fs::is_directory(path) ? text_of_folder(path, seen) : unpacked(path);
    all.parts.push_back({&part, text.size(), hash_of(text)});
    joined += text;
  }
  all.text = shuffled(joined);
  all.sha256 = hash_of(all.text);
  return all;
}

void check_english(const EnglishText& text) {
  if (text.sha256 == kEnglishSha256) return;
  std::string wrong;
  for (const EnglishText::Part& part : text.parts) {
    if (part.sha256 == part.of->sha256) continue;
    wrong += fmt::format("; {} of {} {} has {} bytes with SHA-256 {}, not {} with {}", part.of->path, part.of->package,
                         part.of->version, part.bytes, part.sha256, part.of->bytes, part.of->sha256);
  }
  throw Error(ErrorKind::environment, "this is not the text that runs are recorded with" + wrong);
}

}  // namespace mxcheck
