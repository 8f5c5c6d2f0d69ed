#include "tools/golden/file.h"

#include <gtest/gtest.h>

#include "tests/goldens/format/golden_samples.h"

namespace mxcheck {
namespace {

using test::expect_error;

class TrustedEntry : public testing::Test {
 protected:
  TrustedEntry() : entry(test::write_golden(golden, test::small_info())) {}
  test::TemporaryDirectory dir;
  const std::string golden = dir / "g.h5";
  const ManifestEntry entry;
};

TEST_F(TrustedEntry, comes_from_the_manifest_beside_another_one_or_a_hash) {
  expect_error(ErrorKind::golden, "no manifest", [&] { trusted_entry(golden, {}); });
  test::write_file(dir / "manifest.txt", to_text(Manifest{"mxcheck", {entry}}));
  test::write_file(dir / "other.txt", to_text(Manifest{"mxcheck", {entry}}));
  EXPECT_EQ(trusted_entry(golden, {}), entry);
  EXPECT_EQ(trusted_entry(golden, {dir / "other.txt", ""}), entry);
  EXPECT_EQ(trusted_entry(golden, {"", entry.sha256}), entry);
}

TEST_F(TrustedEntry, is_not_there_for_other_files_and_malformed_hashes) {
  test::write_file(dir / "empty.txt", to_text(Manifest{"mxcheck", {}}));
  expect_error(ErrorKind::golden, "empty.txt has no entry for g.h5", [&] {
    trusted_entry(golden, {dir / "empty.txt", ""});
  });
  expect_error(ErrorKind::golden, "none.h5", [&] { trusted_entry(dir / "none.h5", {"", entry.sha256}); });
  for (const std::string& hash : {std::string("12"), std::string(64, 'A'), entry.sha256 + "0"}) {
    expect_error(ErrorKind::usage, "--sha256 takes 64 lower-case", [&] { trusted_entry(golden, {"", hash}); });
  }
}

}  // namespace
}  // namespace mxcheck
