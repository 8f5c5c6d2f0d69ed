// verify_golden FILE.h5: does quantize make of the golden's input what the golden says? Put your own function in its
// place. For goldens with E8M0 scales and without experts. Exit code 0: yes; 1: no; 5: it is not what its manifest.txt
// lists; others as the program's.

#include <mxcheck/goldens/format/reader.h>
#include <mxcheck/numerics/bytes.h>
#include <mxcheck/numerics/error.h>
#include <mxcheck/reference/quantize/quantize.h>

#include <cstdint>
#include <cstdio>

int main(int argc, char** argv) try {
  const mxcheck::GoldenReader golden(argc > 1 ? argv[1] : "layer0_x_1x32.h5");  // size and SHA-256 are checked first
  const auto text = [&](const char* key) { return mxcheck::attribute(golden.info().attributes, key); };
  std::printf("%s: %s, block %s, recipe %s\n", text("name").c_str(), text("kind").c_str(), text("block").c_str(),
              text("recipe").c_str());

  const mxcheck::Tensor x = golden.read("x");
  const mxcheck::MatrixView view{mxcheck::format_of_attribute(text("source_dtype")), x.data.data(), x.shape.at(0),
                                 x.shape.at(1), x.shape.at(1)};
  const mxcheck::Format element = *mxcheck::find_format(text("format"));
  const mxcheck::QuantizedTensor mine = mxcheck::quantize(view, element, mxcheck::block_shape_named(text("block")),
                                                          mxcheck::recipe_named(text("recipe")));

  const bool codes = golden.read("codes").data == mxcheck::to_bytes(mine.codes);
  const bool scales = golden.read("scales").data == mxcheck::to_bytes(mine.scales);
  std::printf("%zu codes: %s\n%zu scales: %s\n", mine.codes.size(), codes ? "equal" : "different", mine.scales.size(),
              scales ? "equal" : "different");
  return codes && scales ? 0 : 1;
} catch (const mxcheck::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return mxcheck::spec(error.kind()).exit_code;
}
