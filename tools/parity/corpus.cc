// mxcheck parity corpus: the English text that verdicts are trained on, made of Debian's packages.

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <system_error>

#include <fmt/format.h>

#include "goldens/io/atomic_file.h"
#include "numerics/error.h"
#include "tools/common/output.h"
#include "tools/parity/parity.h"
#include "trainer/data/english.h"

namespace mxcheck {
namespace {

struct CorpusCommand {
  std::string root = "/", output;
};

std::string packages_text() {
  std::set<std::string> packages;
  for (const EnglishPart& part : all_english_parts()) packages.insert(fmt::format("{}={}", part.package, part.version));
  return fmt::format("{}", fmt::join(packages, " "));
}

int make_corpus(const CorpusCommand& o) {
  const std::string path = o.output.empty() ? english_path() : o.output;
  std::optional<AtomicFile> file;
  if (!o.output.empty()) file.emplace(path);  // refused before packages are read
  const EnglishText text = english_text(o.root);
  check_english(text);
  if (!file) {
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
    if (error) throw Error(ErrorKind::environment, path + ": its folder cannot be made: " + error.message());
    file.emplace(path);
  }
  file->write(text.text);
  file->commit();
  std::string answer;
  for (const EnglishText::Part& part : text.parts)
    answer += fmt::format("{:>9} bytes  {} {}, {}\n", part.bytes, part.of->package, part.of->version, part.of->path);
  answer += fmt::format("{}: {} bytes, SHA-256 {}\n", path, text.text.size(), text.sha256);
  print(answer);
  return 0;
}

}  // namespace

void add_parity_corpus(Command& parity) {
  auto o = std::make_shared<CorpusCommand>();
  Command sub =
      parity.subcommand("corpus", "Make the English text that verdicts are trained on, of Debian 12's packages");
  sub.option("--root", o->root, "Where the packages' files are: / if they are installed").shows_default().not_empty();
  sub.option("-o,--output", o->output,
             "The text (default: where --preset verdict looks for it, " + english_path() + ")")
      .not_empty();
  sub.footer(
      fmt::format("Without installing them:\n"
                  "  apt-get download {}\n"
                  "  for package in *.deb; do dpkg -x $package root; done\n"
                  "  mxcheck parity corpus --root root",
                  packages_text()));
  sub.exits({{0, "the text is made"}, {3, "a package is another version, or the machine lacks something"}});
  sub.runs([o] { return make_corpus(*o); });
}

}  // namespace mxcheck
