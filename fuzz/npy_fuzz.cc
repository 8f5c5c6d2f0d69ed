// The bytes are an npy file.

#include "fuzz/check.h"
#include "goldens/io/readers.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mxcheck;
  const SpanSource source(fuzz::bytes_of(data, size), "input.npy");
  fuzz::accepted(ErrorKind::input, [&] {
    const TensorRegion region = find_npy(source);
    fuzz::require(region.begin + region.bytes == size, "the data reaches the end of the file");
    const Tensor tensor = load(source, region);
    fuzz::require(tensor.data.size() == checked_bytes(tensor.shape, size_of(tensor.format), "tensor"),
                  "the data has the bytes that shape and dtype call for");
  });
  return 0;
}
