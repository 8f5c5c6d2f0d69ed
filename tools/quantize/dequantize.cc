// mxcheck dequantize: a file of mxcheck quantize back to values.

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "goldens/format/described_file.h"
#include "goldens/format/quantized_stream.h"
#include "numerics/error.h"
#include "tools/common/json.h"
#include "tools/common/output.h"
#include "tools/common/progress.h"
#include "tools/common/text.h"
#include "tools/quantize/dequantize_stream.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

struct Options {
  std::string input, output;
  std::string dtype = "f32";
  bool json = false;
};

int run(const Options& o) {
  check_output(o.output, OutputKinds::npy_or_safetensors, {o.input});
  if (is_hdf5_path(o.input)) {
    throw Error(ErrorKind::usage, o.input + ": dequantize takes the safetensors file that quantize writes");
  }
  std::optional<Progress> progress(std::in_place, "reading " + o.input);
  QuantizedReader reader(o.input);
  const Quantized& q = reader.file().matrix;
  in_place_of_input(o.input, o.output, [&] {  // a code that its format does not have
    dequantize_stream(reader, o.dtype == "f32" ? Format::fp32 : Format::bf16, o.output, *progress, [&] {
      progress.reset();
      const Json json{{"input", o.input}, {"output", o.output}, {"dtype", o.dtype}, {"rows", q.rows}, {"cols", q.cols}};
      print_at_once(o.json ? to_text(json) + "\n" : fmt::format("{}: {} x {} {}\n", o.output, q.rows, q.cols, o.dtype));
    });
  });
  return 0;
}

}  // namespace

void add_dequantize(Command& app) {
  auto o = std::make_shared<Options>();
  Command sub = app.subcommand("dequantize", "Values from the codes and scales that quantize wrote");
  sub.option("IN", o->input, "A safetensors file of mxcheck quantize; its metadata says how to read it").required();
  sub.option("-o,--output", o->output, "OUT.npy, or OUT.safetensors with the tensor values").required();
  sub.option("--dtype", o->dtype, "Type of the values").one_of({"f32", "bf16"}).shows_default();
  sub.flag("--json", o->json, "Print what was done as JSON");
  sub.footer(
      "Each value is code times scale, exact, then rounded once to the type (nearest even). A block whose scale is "
      "NaN\n"
      "is NaN. NumPy has no bfloat16: in OUT.npy it has dtype V2, as ml_dtypes stores it.\n\n"
      "Examples:\n"
      "  mxcheck dequantize q.safetensors -o y.npy\n"
      "  mxcheck dequantize q.safetensors -o y.safetensors --dtype bf16");
  sub.runs([o] { return run(*o); });
}

}  // namespace mxcheck
