#include "goldens/format/manifest.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

using test::expect_error;

const std::string kHash(64, 'a');
const std::string kFirst = "mxcheck manifest 1, schema 1, mxcheck 0.1.0\n";

TEST(Manifest, is_written_sorted_and_read_back) {
  const Manifest manifest{"mxcheck 0.1.0", {{kHash, 12, "b.h5"}, {std::string(64, '0'), 0, "a b.h5"}}};
  const std::string text = to_text(manifest);
  EXPECT_EQ(text, kFirst + std::string(64, '0') + "  0  a b.h5\n" + kHash + "  12  b.h5\n");
  const Manifest back = parse_manifest(text, "m");
  EXPECT_EQ(back.generator, "mxcheck 0.1.0");
  ASSERT_EQ(back.entries.size(), 2U);
  EXPECT_EQ(back.entries[1], manifest.entries[0]);
  EXPECT_EQ(back.find("b.h5"), &back.entries[1]);
  EXPECT_EQ(back.find("c.h5"), nullptr);
  EXPECT_TRUE(parse_manifest(kFirst, "m").entries.empty());
  EXPECT_EQ(parse_manifest(kFirst + kHash + "  9223372036854775807  x\n", "m").entries[0].size, UINT64_MAX >> 1);
}

TEST(Manifest, refuses_whatever_is_not_exactly_one) {
  const std::string good = kFirst + kHash + "  1  b\n";
  const std::string short_hash(63, 'a');
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "m:1: the line does not end"},
      {"\n", "m:1: the first line must begin with 'mxcheck manifest 1, schema 1, '"},
      {"mxcheck manifest 2, schema 1, x\n", "m:1: the first line must begin"},
      {"mxcheck manifest 1, schema 2, x\n", "m:1: the first line must begin"},
      {"mxcheck manifest 1, schema 1, \n", "m:1: the first line must name its generator"},
      {"mxcheck manifest 1, schema 1, a\tb\n", "m:1: the first line must name its generator"},
      {kFirst.substr(0, kFirst.size() - 1), "m:1: the line does not end"},
      {good.substr(0, good.size() - 1), "m:2: the line does not end"},
      {good + "\n", "m:3: a line begins with 64 lower-case hexadecimal digits"},
      {kFirst + std::string(64, 'A') + "  1  b\n", "64 lower-case hexadecimal digits"},
      {kFirst + std::string(64, 'g') + "  1  b\n", "64 lower-case hexadecimal digits"},
      {kFirst + short_hash + "  1  b\n", "64 lower-case hexadecimal digits"},
      {kFirst + kHash + "a  1  b\n", "two spaces"},
      {kFirst + kHash + " 1  b\n", "two spaces"},
      {kFirst + kHash + "\n", "two spaces"},
      {kFirst + kHash + "  1 b\n", "two spaces"},
      {kFirst + kHash + "  1\n", "two spaces"},
      {kFirst + kHash + "    1  b\n", "the size must be"},
      {kFirst + kHash + "  -1  b\n", "the size must be"},
      {kFirst + kHash + "  +1  b\n", "the size must be"},
      {kFirst + kHash + "  01  b\n", "the size must be"},
      {kFirst + kHash + "  0x1  b\n", "two spaces"},
      {kFirst + kHash + "  1.5  b\n", "two spaces"},
      {kFirst + kHash + "    b\n", "the size must be"},
      {kFirst + kHash + "  9223372036854775808  b\n", "the size must be"},
      {kFirst + kHash + "  99999999999999999999  b\n", "the size must be"},
      {kFirst + kHash + "  1  \n", "the name must be"},
      {kFirst + kHash + "  1   b\n", "the name must be"},
      {kFirst + kHash + "  1  b \n", "the name must be"},
      {kFirst + kHash + "  1  b\r\n", "the name must be"},
      {kFirst + kHash + "  1  ..\n", "the name must be"},
      {kFirst + kHash + "  1  .\n", "the name must be"},
      {kFirst + kHash + "  1  a/b\n", "the name must be"},
      {kFirst + kHash + "  1  /b\n", "the name must be"},
      {kFirst + kHash + "  1  a\x01\n", "the name must be"},
      {kFirst + kHash + "  1  " + std::string("a\0b", 3) + "\n", "the name must be"},
      {kFirst + kHash + "  1  " + std::string(256, 'b') + "\n", "the name must be"},
      {good + kHash + "  1  b\n", "m:3: 'b' is there twice or not in order"},
      {good + kHash + "  1  a\n", "m:3: 'a' is there twice or not in order"},
  };
  for (const auto& [text, message] : cases) {
    expect_error(ErrorKind::golden, message, [&, &t = text] { parse_manifest(t, "m"); });
  }
  expect_error(ErrorKind::golden, "over 16 MiB", [] { parse_manifest(std::string(17 << 20, '\n'), "m"); });
}

TEST(Manifest, refuses_every_prefix_that_ends_inside_a_line) {
  const std::string good = kFirst + kHash + "  1  b\n" + kHash + "  2  c\n";
  for (std::size_t n = 0; n < good.size(); ++n) {
    const std::string prefix = good.substr(0, n);
    if (prefix.ends_with('\n')) continue;
    expect_error(ErrorKind::golden, "m:", [&] { parse_manifest(prefix, "m"); });
  }
}

TEST(Manifest, does_not_write_what_it_would_not_read) {
  for (const ManifestEntry& entry : {ManifestEntry{"short", 1, "b"}, ManifestEntry{kHash, 1, "a/b"},
                                     ManifestEntry{kHash, 1, "a\nb"}, ManifestEntry{kHash, 1, "x"}}) {
    expect_error(ErrorKind::usage, "nobody could read", [&] { to_text({"g", {entry, {kHash, 1, "x"}}}); });
  }
  expect_error(ErrorKind::usage, "name its generator", [] { to_text({"", {}}); });
}

TEST(EntryBeside, is_looked_up_in_the_goldens_own_folder) {
  const test::TemporaryDirectory dir;
  expect_error(ErrorKind::golden, "no manifest: ", [&] { entry_beside(dir / "b"); });
  test::write_file(dir / kManifestName, kFirst + kHash + "  7  b\n");
  EXPECT_EQ(entry_beside(dir / "b"), (ManifestEntry{kHash, 7, "b"}));
  expect_error(ErrorKind::golden, "manifest.txt has no entry for it", [&] { entry_beside(dir / "c"); });
  test::write_file(dir / kManifestName, "x");
  expect_error(ErrorKind::golden, "manifest.txt:1: ", [&] { entry_beside(dir / "b"); });
  std::filesystem::remove(dir / kManifestName);
  std::filesystem::create_directory(dir / kManifestName);
  expect_error(ErrorKind::golden, "not a regular file but a directory", [&] { entry_beside(dir / "b"); });
}

}  // namespace
}  // namespace mxcheck
