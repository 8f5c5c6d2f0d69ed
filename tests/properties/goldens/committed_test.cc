// The committed goldens are what their specs give, to the byte.

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "goldens/format/reader.h"
#include "properties/goldens/suite.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::read_file;

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

// True if git has the golden's file. The larger goldens of two suites are not in git: the manifest has their hashes,
// and making them again gives the files.
bool is_in_git(const std::string& suite, const ManifestEntry& golden) {
  constexpr std::uint64_t kMost = 400'000;
  return (suite != "swiglu" && suite != "layer") || golden.size < kMost;
}

class CommittedGoldens : public testing::TestWithParam<std::string> {
 protected:
  const std::filesystem::path folder = std::filesystem::path(MXCHECK_GOLDENS_DATA) / GetParam();
};

TEST_P(CommittedGoldens, regenerate_from_their_spec_to_the_same_bytes) {
  const test::TemporaryDirectory dir;
  const Manifest made = make_suite(builtin_suite(GetParam()), dir.path(), {});
  EXPECT_TRUE(read_manifest(folder / kManifestName).entries == made.entries);
  std::set<std::string> names{kManifestName};
  for (const ManifestEntry& entry : made.entries) {
    if (!is_in_git(GetParam(), entry)) continue;
    names.insert(entry.name);
    EXPECT_TRUE(read_file(folder / entry.name) == read_file(dir / entry.name)) << entry.name;
  }
  EXPECT_EQ(names_in(folder), names);
}

TEST_P(CommittedGoldens, can_be_read_as_their_manifest_vouches) {
  for (const ManifestEntry& entry : read_manifest(folder / kManifestName).entries) {
    if (!is_in_git(GetParam(), entry)) continue;
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

TEST(CommittedGoldensTogether, stay_below_16_megabytes) {
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(MXCHECK_GOLDENS_DATA)) {
    if (entry.is_regular_file() && entry.path().extension() != ".safetensors") bytes += entry.file_size();
  }
  EXPECT_LT(bytes, 16'000'000U);
}

}  // namespace
}  // namespace mxcheck
