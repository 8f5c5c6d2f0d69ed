#include <cstdio>

#include "goldens/format/reader.h"
#include "goldens/io/tensor_file.h"
#include "kernels/candidate.h"
#include "numerics/format/codec.h"

// Never called: the goldens need all of their libraries at the link.
mxcheck::Tensor golden(const std::string& path) { return mxcheck::GoldenReader(path).read("codes"); }

int main() {
  const double largest = mxcheck::decode(mxcheck::Format::e4m3, 0x7E);
  std::printf("%g %s %d\n", largest, mxcheck::safetensors_name(mxcheck::Dtype::bf16), MXCHECK_CANDIDATE_VERSION);
}
