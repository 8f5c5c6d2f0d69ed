// The subcommands of mxcheck.

#include "tools/subcommands.h"

namespace mxcheck {

void add_commands(Command& app) {
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
      "  mxcheck cost --model Qwen3-235B-A22B --tokens 32768   what a layer costs under each recipe: time, bytes, "
      "memory\n"
      "  mxcheck parity run --recipe mxfp8 -o run.h5     train, every step recorded; parity audit computes it again\n\n"
      "Every refusal is one line on standard error, and leaves no output file.");
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
  add_cost(app);
  add_golden(app);
  add_parallel(app);
  add_parity(app);
  add_terminal(app);
}

}  // namespace mxcheck
