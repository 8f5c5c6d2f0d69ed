// mxcheck: reads the command line, runs one subcommand, turns errors into one line on standard error and an exit code:
//   0 done   2 usage or input   3 environment   5 golden   70 internal   (the gate adds 1, 4 and 6)

#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "goldens/io/temporary_names.h"
#include "mxcheck_version.h"
#include "numerics/error.h"
#include "properties/process/worker.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

constexpr int kUsage = 2;
constexpr int kEnvironment = 3;
constexpr int kGolden = 5;
constexpr int kInternal = 70;

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
    case ErrorKind::input: return kUsage;
    case ErrorKind::environment: return kEnvironment;
    case ErrorKind::golden: return kGolden;
    case ErrorKind::internal: break;
  }
  return kInternal;
}

// One line whatever the text holds: file names may contain newlines and terminal codes.
int complain(std::string text, int code) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  std::fprintf(stderr, "mxcheck: error: %s\n", text.c_str());
  return code;
}

int run_command_line(int argc, char** argv) {
  CommandLine line(
      "mxcheck",
      "Decides, bit for bit, whether MXFP8 quantization and mixture-of-experts kernels are numerically right.",
      std::string("mxcheck ") + kVersion + " (commit " + kCommit + (kDirty ? ", modified)" : ")"));
  Command app = line.top();
  app.footer(
      "Examples:\n"
      "  mxcheck scale --rule rceil 448 0x43e00001       the scale byte of a block with this largest magnitude\n"
      "  mxcheck formats e4m3                            all 256 codes with their values\n"
      "  mxcheck quantize x.npy -o q.safetensors         1x32 blocks, E4M3, scales rounded up\n"
      "  mxcheck dequantize q.safetensors -o y.npy       and back\n"
      "  mxcheck gate --candidate ./libmine.so           is this kernel library right?\n"
      "  mxcheck merge 1.json 2.json                     and of its shards on two machines together?\n"
      "  mxcheck replay h200.h5                          is what a GPU returned still the right answer?\n"
      "  mxcheck golden verify mine.h5 --against g.h5    are these tensors right, and if not, why?\n"
      "  mxcheck recipes x.npy --html x.html             which recipe fits this tensor?\n"
      "  mxcheck route logits.npy --top-k 8              experts, weights, rows, loads, padding\n"
      "  mxcheck layer --list                            recipes of a mixture-of-experts layer; and the layer "
      "itself\n"
      "  mxcheck parity run --recipe mxfp8 -o run.h5     train, every step recorded; parity audit computes it again\n\n"
      "Exit codes: 0 done; 2 usage or input; 3 environment (no memory, disk full); 5 golden missing or corrupt;\n"
      "70 a defect of mxcheck. Every refusal is one line on standard error, and leaves no output file.");
  add_gate(app);
  add_merge(app);
  add_replay(app);
  add_quantize(app);
  add_dequantize(app);
  add_mma(app);
  add_matmul(app);
  add_identify(app);
  add_scale(app);
  add_formats(app);
  add_recipes(app);
  add_route(app);
  add_layer(app);
  add_golden(app);
  add_parity(app);
  return line.run(argc, argv);
}

int guarded_run(int argc, char** argv) {
  try {
    int code = run_command_line(argc, argv);
    // ferror: what failed to be written before leaves nothing to flush. --help and --version are printed that way.
    const bool unwritten = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
    if (unwritten && code == 0) code = complain("standard output cannot be written", kEnvironment);
    return code;
  } catch (const Error& e) {
    return complain(e.what(), exit_code(e.kind()));
  } catch (const std::bad_alloc&) {
    return complain("out of memory", kEnvironment);
  } catch (const std::length_error&) {
    return complain("out of memory: a size beyond what this machine can address", kEnvironment);
  } catch (const std::exception& e) {
    return complain(std::string("internal: ") + e.what(), kInternal);
  }
}

}  // namespace
}  // namespace mxcheck

int main(int argc, char** argv) {
  if (argc >= 2 && std::strcmp(argv[1], "__worker") == 0) return mxcheck::run_worker(argc, argv);
  mxcheck::remove_temporaries_on_signals();
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is then a failed write, and reported as one
  return mxcheck::guarded_run(argc, argv);
}
