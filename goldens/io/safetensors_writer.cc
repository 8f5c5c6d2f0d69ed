#include "goldens/io/safetensors_writer.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "goldens/io/byte_source.h"
#include "goldens/json/json.h"
#include "numerics/error.h"

namespace mxcheck {
namespace {

constexpr std::size_t kMaxHeader = 100'000'000;  // the reference reader's own limit

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::usage, text); }

std::uint64_t bytes_of(const TensorHead& head, const std::string& what) {
  return checked_bytes(head.shape, size_of(head.dtype), what);
}

// Widest elements first, then by name, as the reference writer does: every tensor is aligned to its own elements, and
// the bytes do not depend on the order in which tensors were given.
std::vector<std::size_t> file_order(const std::vector<NamedHead>& tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(size_of(tensors[b].head.dtype), std::string_view(tensors[a].name)) <
           std::pair(size_of(tensors[a].head.dtype), std::string_view(tensors[b].name));
  });
  return order;
}

// The length of the header in 8 bytes, and the header, padded with spaces to whole words.
std::string start_of(const std::vector<NamedHead>& tensors, const std::map<std::string, std::string>& metadata,
                     const std::string& path) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::set<std::string_view> names{"", "__metadata__"};
  std::uint64_t at = 0;
  for (const std::size_t i : file_order(tensors)) {
    const auto& [name, head] = tensors[i];
    if (!names.insert(name).second) refuse(path + ": tensor name '" + name + "' is empty, reserved or given twice");
    const std::vector<std::uint64_t> offsets{at, at + bytes_of(head, path + ": tensor '" + name + "'")};
    header.append(name, {{"dtype", safetensors_name(head.dtype)}, {"shape", head.shape}, {"data_offsets", offsets}});
    at = offsets[1];
  }
  std::string text;
  try {
    text = to_text(header, {-1, JsonOrder::given, NotUtf8::refused});
  } catch (const Error&) {
    refuse(path + ": tensor names and metadata must be UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kMaxHeader) refuse(path + ": safetensors header of over 100 MB");
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 0xFF);
  return length + text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::string& path, const std::vector<NamedHead>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(path), regions_(tensors.size()), file_(path) {
  const std::string start = start_of(tensors, metadata, path);
  file_.write(start);
  std::uint64_t at = start.size();
  for (const std::size_t i : file_order(tensors)) {
    const std::uint64_t bytes = bytes_of(tensors[i].head, path);
    regions_[i] = {tensors[i].name, at, at + bytes};
    at += bytes;
  }
}

void SafetensorsWriter::append(std::size_t tensor, std::span<const std::byte> bytes) {
  Region& region = regions_[tensor];
  if (bytes.size() > region.end - region.at) {
    refuse(path_ + ": tensor '" + region.name + "' is given " +
           std::to_string(bytes.size() - (region.end - region.at)) + " bytes more than its shape holds");
  }
  file_.write_at(region.at, bytes);
  region.at += bytes.size();
}

void SafetensorsWriter::commit(const std::function<void()>& before_it_appears) {
  for (const Region& region : regions_) {
    if (region.at != region.end) {
      refuse(path_ + ": tensor '" + region.name + "' lacks " + std::to_string(region.end - region.at) + " bytes");
    }
  }
  file_.commit(before_it_appears);
}

}  // namespace mxcheck
