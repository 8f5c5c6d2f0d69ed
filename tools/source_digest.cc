// mxcheck_source_digest ROOT PATH... prints "digest  path" for each source, paths relative to ROOT; with --c before
// them, as a C source that exports the text as mxcheck_candidate_sources (kernels/candidate.h).

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "properties/records/source_digest.h"

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool as_c = !arguments.empty() && arguments[0] == "--c";
  if (as_c) arguments.erase(arguments.begin());
  if (arguments.size() < 2) {
    std::fputs("usage: mxcheck_source_digest [--c] ROOT PATH...\n", stderr);
    return 2;
  }
  try {
    const std::string root = arguments[0];
    arguments.erase(arguments.begin());
    std::string text = mxcheck::source_manifest(root, arguments);
    if (as_c) {
      std::string lines;
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = text.find('\n', at);
        lines += "    \"" + text.substr(at, end - at) + "\\n\"\n";
        at = end + 1;
      }
      text = "__attribute__((visibility(\"default\"))) const char mxcheck_candidate_sources[] =\n" + lines + "    ;\n";
    }
    if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
    std::fputs("mxcheck_source_digest: error: standard output cannot be written\n", stderr);
    return 3;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "mxcheck_source_digest: error: %s\n", e.what());
    return 2;
  }
}
