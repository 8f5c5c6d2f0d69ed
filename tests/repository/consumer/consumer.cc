#include <mxcheck/kernels/candidate.h>
#include <mxcheck/mxcheck.h>

#include <cstdio>
#include <string>

#if __has_include("numerics/error.h") || __has_include("kernels/candidate.h") || __has_include("candidate.h")
  #error "a header of ours is found without mxcheck/ in front"
#endif
#if __has_include(<mxcheck/reference/matmul/operand.h>) || __has_include(<mxcheck/goldens/hdf5/handle.h>)
  #error "an internal header is installed"
#endif

// Never called: the goldens need all of their libraries at the link.
mxcheck::Tensor golden(const std::string& path) { return mxcheck::GoldenReader(path).read("codes"); }

int main() {
  const double largest = mxcheck::decode(mxcheck::Format::e4m3, 0x7E);
  std::printf("%g %s %d\n", largest, mxcheck::safetensors_name(mxcheck::Format::bf16), MXCHECK_CANDIDATE_VERSION);
}
