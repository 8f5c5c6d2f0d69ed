#include <cstdio>

#include "tests/kernels/sm100/probe/program.h"

#ifdef MXCHECK_SM100_PROBE_CARD
  #include "tests/kernels/sm100/probe/program.h"
#endif

namespace {

// Flushed: a probe's lines are to be seen before the next begins, which may take minutes.
void print(std::FILE* to, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), to);
  std::fflush(to);
}

}  // namespace

int main(int argc, char** argv) {
  namespace probe = mxcheck::sm100::probe;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const probe::CardFunctions* card = nullptr;
#ifdef MXCHECK_SM100_PROBE_CARD
  const probe::CardFunctions functions{MXCHECK_SM100_PROBE_CARD, &probe::card_state, &probe::card_launcher,
                                       &probe::device_probes};
  card = &functions;
#endif
  return probe::run_program(
      arguments, card, [](std::string_view text) { print(stdout, text); },
      [](std::string_view text) { print(stderr, text); });
}
