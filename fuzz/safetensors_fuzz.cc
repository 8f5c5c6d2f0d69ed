// The bytes are a safetensors file.

#include "fuzz/check.h"
#include "goldens/io/readers.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mxcheck;
  const SpanSource source(fuzz::bytes_of(data, size), "input.safetensors");
  SafetensorsFile file;
  if (!fuzz::accepted(ErrorKind::input, [&] { file = read_safetensors(source); })) return 0;
  std::uint64_t bytes = 0;
  for (const Tensor& tensor : file.tensors) {
    fuzz::require(tensor.data.size() == checked_bytes(tensor.shape, size_of(tensor.format), "tensor"),
                  "the data has the bytes that shape and dtype call for");
    bytes += tensor.data.size();
    if (tensor.name.empty()) continue;  // asks for the only tensor
    const Tensor alone = load(source, find_safetensors(source, tensor.name));
    fuzz::require(alone.data == tensor.data && alone.shape == tensor.shape, "a tensor is found by its name");
  }
  fuzz::require(bytes < size, "no byte is in two tensors");
  return 0;
}
