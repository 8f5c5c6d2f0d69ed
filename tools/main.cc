// mxcheck, and mxcheck-gate with three of its subcommands: reads the command line, runs one subcommand, turns errors
// into one line on standard error and an exit code (numerics/error.h has the table). Answers are 0, 1, 4 and 6.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>

#include "goldens/io/atomic_file.h"
#include "mxcheck_version.h"
#include "numerics/error.h"
#include "properties/process/worker.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

// One line whatever the text holds: file names may contain newlines and terminal codes.
int complain(std::string text, ErrorKind kind) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  std::fprintf(stderr, "mxcheck: error: %s\n", text.c_str());
  return spec(kind).exit_code;
}

int run_command_line(int argc, char** argv) {
  CommandLine line(
      "mxcheck",
      "Decides, bit for bit, whether MXFP8 quantization and mixture-of-experts kernels are numerically right.",
      std::string("mxcheck ") + kVersion + " (commit " + kCommit + (kDirty ? ", modified)" : ")"));
  Command app = line.top();
  app.exits({{0, "done; of a comparison: equal, every statement held"},
             {1, "a counterexample, a difference"},
             {2, "the command line, an input file, or a library that is no candidate"},
             {3, "the machine lacks something: no GPU, no memory, a full disk"},
             {4, "inconclusive, which includes that nothing was run"},
             {5, "a golden or a record that is missing or corrupt"},
             {6, "the candidate crashed or hung"}});
  add_commands(app);
  return line.run(argc, argv);
}

// If a standard descriptor is closed, the next file that is opened gets its number, and printed text would go into that
// file. A descriptor that cannot be written takes the place, so that printing fails.
void hold_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    (void)!open("/dev/null", O_RDONLY);  // the lowest that is free: this one
  }
}

int guarded_run(int argc, char** argv) {
  try {
    int code = run_command_line(argc, argv);
    // ferror: after a write that failed, fflush has nothing left to do and succeeds. --help and --version print that
    // way.
    const bool unwritten = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
    if (unwritten && code == 0) code = complain("standard output cannot be written", ErrorKind::environment);
    return code;
  } catch (const Error& e) {
    return complain(e.what(), e.kind());
  } catch (const std::bad_alloc&) {
    return complain("out of memory", ErrorKind::environment);
  } catch (const std::length_error&) {
    return complain("out of memory: a size beyond what this machine can address", ErrorKind::environment);
  } catch (const std::filesystem::filesystem_error& e) {  // a path that was asked for
    return complain(e.path1().string() + ": cannot be looked up: " + e.code().message() + "; choose another path",
                    ErrorKind::usage);
  } catch (const std::exception& e) {
    return complain(std::string("internal: ") + e.what(), ErrorKind::internal);
  }
}

}  // namespace
}  // namespace mxcheck

int main(int argc, char** argv) {
  if (argc >= 2 && std::strcmp(argv[1], "__worker") == 0) return mxcheck::run_worker(argc, argv);
  mxcheck::hold_standard_descriptors();
  mxcheck::remove_temporaries_on_signals();
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is then a failed write, and reported as one
  return mxcheck::guarded_run(argc, argv);
}
