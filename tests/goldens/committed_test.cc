// The committed goldens are what their specs give, to the byte.

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "goldens/format/reader.h"
#include "goldens/make/make.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::read_file;

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

class CommittedGoldens : public testing::TestWithParam<std::string> {
 protected:
  const std::filesystem::path folder = std::filesystem::path(MXCHECK_GOLDENS_DATA) / GetParam();
};

TEST_P(CommittedGoldens, regenerate_from_their_spec_to_the_same_bytes) {
  const test::TemporaryDirectory dir;
  const Manifest made = make_suite(builtin_suite(GetParam()), dir.path(), {});
  EXPECT_TRUE(read_manifest(folder / kManifestName).entries == made.entries);
  EXPECT_EQ(names_in(folder), names_in(dir.path()));
  for (const ManifestEntry& entry : made.entries) {
    EXPECT_TRUE(read_file(folder / entry.name) == read_file(dir / entry.name)) << entry.name;
  }
}

TEST_P(CommittedGoldens, can_be_read_as_their_manifest_vouches) {
  for (const ManifestEntry& entry : read_manifest(folder / kManifestName).entries) {
    const GoldenReader golden((folder / entry.name).string());
    EXPECT_EQ(attribute(golden.info().attributes, "name") + ".h5", entry.name);
    for (const DatasetInfo& set : golden.info().datasets) EXPECT_EQ(golden.read(set.name).shape, set.shape);
  }
}

std::vector<std::string> suite_names() {
  std::vector<std::string> names;
  for (const GoldenSuite& suite : builtin_suites()) names.push_back(suite.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, CommittedGoldens, testing::ValuesIn(suite_names()),
                         [](const auto& info) { return info.param; });

TEST(CommittedGoldensTogether, stay_below_15_megabytes) {
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(MXCHECK_GOLDENS_DATA)) {
    if (entry.is_regular_file() && entry.path().extension() != ".safetensors") bytes += entry.file_size();
  }
  EXPECT_LT(bytes, 15'000'000U);
}

}  // namespace
}  // namespace mxcheck
