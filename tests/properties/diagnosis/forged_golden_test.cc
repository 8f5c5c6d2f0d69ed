// Goldens whose seal is right and whose parts do not belong together: verifying against one ends in a verdict or in an
// error with a message, never in a read out of bounds.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>

#include "goldens/format/reader.h"
#include "numerics/error.h"
#include "properties/diagnosis/golden_verdict.h"

namespace mxcheck {
namespace {

// The smallest committed golden of each kind.
std::map<std::string, std::string> a_golden_of_each_kind() {
  std::map<std::string, std::pair<std::uintmax_t, std::string>> smallest;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(MXCHECK_GOLDENS_DATA)) {
    if (entry.path().extension() != ".h5") continue;
    const std::string kind = attribute(GoldenReader(entry.path().string()).info().attributes, "kind");
    if (kind == "parity") continue;
    const auto [at, is_new] = smallest.try_emplace(kind, entry.file_size(), entry.path().string());
    if (!is_new && entry.file_size() < at->second.first) at->second = {entry.file_size(), entry.path().string()};
  }
  std::map<std::string, std::string> paths;
  for (const auto& [kind, file] : smallest) paths[kind] = file.second;
  return paths;
}

GoldenTensors read(const std::string& path) {
  const GoldenReader reader(path);
  GoldenTensors golden{reader.info(), {}};
  for (const DatasetInfo& info : golden.info.datasets) golden.tensors[info.name] = reader.read(info.name);
  return golden;
}

// One way to forge a dataset; its bytes always are those of its shape and dtype, as a file's are.
struct Forgery {
  const char* name;
  std::function<void(DatasetInfo&, Tensor&)> apply;
};

void resize(DatasetInfo& info, Tensor& t, std::size_t dimension, std::int64_t extent) {
  if (dimension >= info.shape.size()) return;
  t.shape[dimension] = info.shape[dimension] = extent;
  std::size_t elements = 1;
  for (const std::int64_t n : t.shape) elements *= static_cast<std::size_t>(n);
  t.data.resize(elements * size_of(t.format));
}

const Forgery kForgeries[] = {
    {"half the rows", [](DatasetInfo& i, Tensor& t) { resize(i, t, 0, t.shape.empty() ? 0 : t.shape[0] / 2); }},
    {"twice the rows", [](DatasetInfo& i, Tensor& t) { resize(i, t, 0, t.shape.empty() ? 0 : 2 * t.shape[0]); }},
    {"no rows", [](DatasetInfo& i, Tensor& t) { resize(i, t, 0, 0); }},
    {"half the columns", [](DatasetInfo& i, Tensor& t) { resize(i, t, 1, t.shape.size() < 2 ? 0 : t.shape[1] / 2); }},
    {"one column more", [](DatasetInfo& i, Tensor& t) { resize(i, t, 1, t.shape.size() < 2 ? 0 : t.shape[1] + 1); }},
    {"one dimension",
     [](DatasetInfo& i, Tensor& t) {
       const auto elements = static_cast<std::int64_t>(t.data.size() / size_of(t.format));
       i.shape = t.shape = {elements};
     }},
    {"a third dimension", [](DatasetInfo& i, Tensor& t) { i.shape.push_back(1), t.shape = i.shape; }},
    {"bytes",
     [](DatasetInfo& i, Tensor& t) {
       i.dtype = t.format = Format::uint8, i.format = "float8_e8m0fnu";
       resize(i, t, 0, i.shape.empty() ? 0 : i.shape[0]);
     }},
    {"words of 64 bits",
     [](DatasetInfo& i, Tensor& t) {
       i.dtype = t.format = Format::int64;
       resize(i, t, 0, i.shape.empty() ? 0 : i.shape[0]);
     }},
    {"all bits set", [](DatasetInfo&, Tensor& t) { std::fill(t.data.begin(), t.data.end(), std::byte{0xFF}); }},
    {"another format's name",
     [](DatasetInfo& i, Tensor&) { i.format = i.dtype == Format::uint32 ? "float32" : "float8_e8m0fnu"; }},
};

// Every so many of the forgeries of one golden are tried: those of a layer take half a second each.
std::size_t stride_of(const std::string& kind, std::size_t all) {
  return std::max<std::size_t>(1, all / (kind == "layer" ? 8 : 32));
}

constexpr const char* kWords[] = {"", "-1", "0", "9223372036854775807", "float8_e5m2", "mxint8", "row"};

class ForgedGolden : public testing::Test {
 protected:
  // Verifies what is wrong in each output's last byte and in nothing else, unless a forgery changed it.
  static void verify(const GoldenTensors& golden) {
    std::map<std::string, Tensor> candidate = golden.tensors;
    for (auto& [name, t] : candidate) {
      if (!t.data.empty()) t.data.back() ^= std::byte{1};
      if (!t.data.empty()) t.data.front() ^= std::byte{1};
    }
    const CandidateTensor of = [&](const std::string& name) -> std::optional<Tensor> {
      const auto found = candidate.find(name);
      return found == candidate.end() ? std::nullopt : std::optional(found->second);
    };
    try {
      EXPECT_FALSE(judge(golden, of).results.empty());
    } catch (const Error& e) {
      EXPECT_NE(e.kind(), ErrorKind::internal) << e.what();
      EXPECT_STRNE(e.what(), "");
    }
  }
};

TEST_F(ForgedGolden, gets_a_verdict_or_an_error_whatever_its_datasets_are) {
  for (const auto& [kind, path] : a_golden_of_each_kind()) {
    const GoldenTensors right = read(path);
    verify(right);
    const std::size_t all = right.info.datasets.size() * std::size(kForgeries);
    for (std::size_t i = 0; i < all; i += stride_of(kind, all)) {
      GoldenTensors golden = right;
      DatasetInfo& info = golden.info.datasets[i / std::size(kForgeries)];
      const Forgery& forgery = kForgeries[i % std::size(kForgeries)];
      SCOPED_TRACE(kind + ", " + info.name + ": " + forgery.name);
      forgery.apply(info, golden.tensors.at(info.name));
      verify(golden);
    }
  }
}

TEST_F(ForgedGolden, gets_a_verdict_or_an_error_whatever_its_attributes_are) {
  for (const auto& [kind, path] : a_golden_of_each_kind()) {
    const GoldenTensors right = read(path);
    const std::size_t all = right.info.attributes.size() * std::size(kWords);
    for (std::size_t i = 0; i < all; i += stride_of(kind, all)) {
      GoldenTensors golden = right;
      auto& [key, value] = golden.info.attributes[i / std::size(kWords)];
      value = kWords[i % std::size(kWords)];
      SCOPED_TRACE(kind + ", attribute " + key + " = '" + value + "'");
      verify(golden);
    }
  }
}

}  // namespace
}  // namespace mxcheck
