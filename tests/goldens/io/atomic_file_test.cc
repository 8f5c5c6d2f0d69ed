#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <chrono>
#include <thread>

#include "goldens/io/atomic_file.h"
#include "goldens/io/chunk_writer.h"
#include "goldens/io/sha256.h"
#include "tests/goldens/format/golden_samples.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;
using Naming = AtomicFile::Naming;

class AtomicFileTest : public testing::TestWithParam<Naming> {
 protected:
  TemporaryDirectory dir;
};

INSTANTIATE_TEST_SUITE_P(BothWays, AtomicFileTest, testing::Values(Naming::late, Naming::early),
                         [](const auto& info) { return info.param == Naming::late ? "unnamed" : "named"; });

TEST_P(AtomicFileTest, appears_with_all_its_bytes_at_commit_and_not_before) {
  {
    AtomicFile file(dir / "x", GetParam());
    file.write(std::string(100000, 'a'));
    file.write("b");
    EXPECT_FALSE(std::filesystem::exists(dir / "x"));
    file.commit();
  }
  EXPECT_EQ(read_file(dir / "x"), std::string(100000, 'a') + "b");
  EXPECT_EQ(dir.names(), std::vector<std::string>{"x"});
}

TEST_P(AtomicFileTest, leaves_nothing_without_commit_and_keeps_what_was_there) {
  write_file(dir / "x", "old");
  { AtomicFile(dir / "x", GetParam()).write("new"); }
  EXPECT_EQ(read_file(dir / "x"), "old");
  EXPECT_EQ(dir.names(), std::vector<std::string>{"x"});
}

TEST_P(AtomicFileTest, replaces_a_file_with_the_permissions_of_a_new_one) {
  write_file(dir / "x", "old");
  const mode_t mask = ::umask(027);
  AtomicFile file(dir / "x", GetParam());
  ::umask(mask);
  file.write("new");
  file.commit();
  struct stat status {};
  ASSERT_EQ(::stat((dir / "x").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640U);
  EXPECT_EQ(read_file(dir / "x"), "new");
}

TEST_P(AtomicFileTest, follows_a_symbolic_link_rather_than_replacing_it) {
  write_file(dir / "target", "old");
  std::filesystem::create_symlink("target", dir / "link");
  AtomicFile file(dir / "link", GetParam());
  file.write("new");
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link"));
  EXPECT_EQ(read_file(dir / "target"), "new");
}

TEST_P(AtomicFileTest, makes_the_file_that_a_dangling_link_names) {
  std::filesystem::create_directory(dir / "there");
  std::filesystem::create_symlink("there/target", dir / "near");
  std::filesystem::create_symlink("near", dir / "link");
  AtomicFile file(dir / "link", GetParam());
  file.write("new");
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link"));
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "near"));
  EXPECT_EQ(read_file(dir / "there/target"), "new");

  std::filesystem::create_symlink("nowhere/target", dir / "lost");
  std::filesystem::create_symlink("loop", dir / "loop");
  for (const char* name : {"lost", "loop"}) {
    expect_error(ErrorKind::usage, "cannot be written", [&] { AtomicFile(dir / name, GetParam()); });
    EXPECT_TRUE(std::filesystem::is_symlink(dir / name));
  }
}

TEST_P(AtomicFileTest, what_is_done_before_the_file_appears_can_prevent_it) {
  AtomicFile file(dir / "x", GetParam());
  file.write("new");
  expect_error(ErrorKind::environment, "nobody listens", [&] {
    file.commit([&] {
      EXPECT_FALSE(std::filesystem::exists(dir / "x"));
      throw Error(ErrorKind::environment, "nobody listens");
    });
  });
  EXPECT_FALSE(std::filesystem::exists(dir / "x"));
}

TEST_P(AtomicFileTest, reports_a_failed_write_as_the_machines_fault_and_leaves_nothing) {
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{4096, old.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  expect_error(ErrorKind::environment, "writing failed: File too large", [&] {
    AtomicFile file(dir / "x", GetParam());
    file.write(std::string(10000, 'a'));
  });
  ::setrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, handler);
  EXPECT_TRUE(dir.names().empty());
}

TEST_P(AtomicFileTest, refuses_paths_that_cannot_be_written) {
  std::filesystem::create_directory(dir / "d");
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  const std::vector<std::pair<std::string, std::string>> cases{{"missing/x", "No such file or directory"},
                                                               {"d", "it is a directory"},
                                                               {"d/", "it is a directory"},
                                                               {"pipe", "it is a FIFO"},
                                                               {"pipe/x", "Not a directory"}};
  for (const auto& [name, text] : cases)
    expect_error(ErrorKind::usage, text, [&, &n = name] { AtomicFile(dir / n, GetParam()); });
  expect_error(ErrorKind::usage, "cannot be written", [] { AtomicFile("", GetParam()); });
  EXPECT_EQ(dir.names().size(), 2U);
}

// Before anything is written: what would be refused at commit has taken its time by then.
TEST_P(AtomicFileTest, refuses_at_once_names_that_no_file_can_have) {
  std::filesystem::create_symlink("loop", dir / "loop");
  expect_error(ErrorKind::usage, "cannot be written: Too many levels of symbolic links",
               [&] { AtomicFile(dir / "loop", GetParam()); });
  expect_error(ErrorKind::usage, "cannot be written: File name too long",
               [&] { AtomicFile(dir / std::string(256, 'a'), GetParam()); });
  std::string path = dir.path();
  while (path.size() < 4090) path += "/.";
  expect_error(ErrorKind::usage, "cannot be written: File name too long", [&] { AtomicFile(path + "/x", GetParam()); });
  const std::string longest(255, 'a');  // whose temporary is no longer than it
  AtomicFile file(dir / longest, GetParam());
  file.write("x");
  file.commit();
  EXPECT_EQ(read_file(dir / longest), "x");
}

TEST(Paths, that_cannot_be_looked_up_are_errors_and_others_there_or_not) {
  const TemporaryDirectory dir;
  write_file(dir / "x", "");
  std::filesystem::create_symlink("loop", dir / "loop");
  std::filesystem::create_symlink("nothing", dir / "dangling");
  EXPECT_TRUE(path_exists(dir / "x") && path_exists(dir.path()));
  EXPECT_FALSE(path_exists(dir / "none") || path_exists(dir / "x/y") || path_exists(dir / "dangling"));
  EXPECT_TRUE(is_folder(dir.path()));
  EXPECT_FALSE(is_folder(dir / "x") || is_folder(dir / "none"));
  for (const std::string& path : {dir / "loop", dir / "loop/x", dir / std::string(256, 'a'), std::string(5000, 'a')}) {
    expect_error(ErrorKind::usage, path + ": cannot be looked up: ", [&] { path_exists(path); });
    expect_error(ErrorKind::usage, path + ": cannot be looked up: ", [&] { is_folder(path); });
  }
}

TEST(AtomicFile, leaves_nothing_when_the_process_is_killed) {
  const TemporaryDirectory dir;
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(dir / "x");
    file.write("half");
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(dir.names().empty());
}

TEST(AtomicFile, two_writers_of_one_path_do_not_meet) {
  const TemporaryDirectory dir;
  AtomicFile a(dir / "x", Naming::early);
  AtomicFile b(dir / "x", Naming::early);
  a.write("a");
  b.write("b");
  a.commit();
  b.commit();
  EXPECT_EQ(read_file(dir / "x"), "b");
  EXPECT_EQ(dir.names(), std::vector<std::string>{"x"});
}

// The bytes that the file holds after the pattern was written in pieces of `piece` bytes; the chunk's extents.
std::pair<std::vector<std::byte>, std::vector<hsize_t>> written(const std::string& path, const DatasetInfo& info,
                                                                std::size_t piece) {
  quiet_hdf5();
  const Hdf5Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  ChunkWriter writer(file.id(), info, 0, {path, ErrorKind::environment, 0});
  const std::vector<std::byte> data = pattern(bytes_of(info));
  for (std::size_t at = 0; at < data.size(); at += piece)
    writer.write(std::span(data).subspan(at, std::min(piece, data.size() - at)));
  writer.close();
  const Hdf5Handle set(H5Dopen2(file.id(), info.name.c_str(), H5P_DEFAULT), H5Dclose);
  const Hdf5Handle type(H5Dget_type(set.id()), H5Tclose);
  std::vector<std::byte> back(data.size());
  H5Dread(set.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, back.data());
  const Hdf5Handle creation(H5Dget_create_plist(set.id()), H5Pclose);
  std::vector<hsize_t> chunk(info.shape.size());
  H5Pget_chunk(creation.id(), static_cast<int>(chunk.size()), chunk.data());
  EXPECT_EQ(back, data);
  return {back, chunk};
}

TEST(ChunkWriter, puts_every_byte_in_its_place_however_the_bytes_are_cut) {
  const TemporaryDirectory dir;
  const DatasetInfo wide{"x", Role::output, "float32", Format::uint32, {3, 300'001}, {}};  // chunks narrower than a row
  const DatasetInfo tall{"x", Role::output, "bfloat16", Format::uint16, {9'000, 129}, {}};
  const DatasetInfo list{"x", Role::output, "int64", Format::int64, {140'000}, {}};
  for (const DatasetInfo& info : {wide, tall, list}) {
    for (const std::size_t piece : {bytes_of(info), row_bytes_of(info), std::size_t{1'000'003}}) {
      if (piece < 64) continue;  // a write an element would take long
      written(dir / "f.h5", info, piece);
    }
  }
}

TEST(ChunkWriter, cuts_about_a_mebibyte_into_even_parts) {
  const TemporaryDirectory dir;
  // 1025 rows of 1 KiB: two chunks of 513 rows rather than one of 1024 and an almost empty one.
  EXPECT_EQ(
      written(dir / "f.h5", {"x", Role::output, "float8_e4m3fn", Format::uint8, {1025, 1024}, {}}, 1 << 20).second,
      (std::vector<hsize_t>{513, 1024}));
  EXPECT_EQ(written(dir / "f.h5", {"x", Role::output, "float8_e4m3fn", Format::uint8, {2, (1 << 20) + 2}, {}}, 1 << 20)
                .second,
            (std::vector<hsize_t>{1, (1 << 19) + 1}));
}

std::string of(std::string_view text) { return sha256(std::as_bytes(std::span(text))); }

TEST(Sha256, gives_the_digests_of_the_standards_examples) {
  EXPECT_EQ(of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(of(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, does_not_depend_on_how_the_bytes_are_cut) {
  std::vector<std::byte> bytes(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  for (const std::size_t step : std::vector<std::size_t>{1, 3, 64, 999}) {
    Sha256 hash;
    for (std::size_t at = 0; at < bytes.size(); at += step)
      hash.update(std::span(bytes).subspan(at, std::min(step, bytes.size() - at)));
    EXPECT_EQ(hash.hex(), sha256(bytes)) << step;
  }
}

TEST(Sha256, of_a_source_is_that_of_its_bytes_at_every_size_around_a_piece) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4 << 20} - 1, std::size_t{4 << 20},
                                 std::size_t{8 << 20}, std::size_t{12 << 20} + 5}) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + (i >> 20));
    const SpanSource source(bytes, "bytes");
    std::vector<std::byte> into(size);
    EXPECT_EQ(sha256(source), sha256(bytes)) << size;
    EXPECT_EQ(sha256(source, into), sha256(bytes)) << size;
    EXPECT_EQ(into, bytes) << size;
  }
}

std::vector<std::byte> drained(SpillBuffer& spill) {
  std::vector<std::byte> all;
  spill.drain([&](std::span<const std::byte> bytes) { all.insert(all.end(), bytes.begin(), bytes.end()); });
  return all;
}

TEST(SpillBuffer, gives_bytes_back_in_order_from_memory_and_from_disk) {
  const TemporaryDirectory dir;
  SpillBuffer spill(dir.path());
  for (const std::size_t bytes : std::vector<std::size_t>{0, 1, 1000, 1 << 20, (1 << 20) + 1, 5'000'000}) {
    const std::vector<std::byte> data = pattern(bytes);
    for (std::size_t at = 0; at < bytes; at += 300'000)
      spill.append(std::span(data).subspan(at, std::min<std::size_t>(300'000, bytes - at)));
    EXPECT_TRUE(dir.names().empty()) << "the file has a name";
    EXPECT_EQ(drained(spill), data) << bytes;
  }
  EXPECT_TRUE(drained(spill).empty());
}

TEST(SpillBuffer, reports_a_full_disk_and_a_folder_that_is_gone) {
  const TemporaryDirectory dir;
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{1'500'000, old.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  expect_error(ErrorKind::environment, "temporary file: writing failed: File too large", [&] {
    SpillBuffer spill(dir.path());
    spill.append(pattern(5'000'000));
  });
  ::setrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, handler);
  expect_error(ErrorKind::environment, "temporary file: cannot be created: No such file or directory", [&] {
    SpillBuffer spill(dir / "gone");
    spill.append(pattern(5'000'000));
  });
}

// Runs work in a child that removes its temporaries on signals, sends it the signal after `delay`; how it ended.
int signalled(int signal, std::chrono::microseconds delay, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int s : {SIGINT, SIGTERM, SIGHUP}) ::signal(s, SIG_DFL);
    remove_temporaries_on_signals();
    work();
    ::pause();
    ::_exit(0);
  }
  std::this_thread::sleep_for(delay);
  ::kill(child, signal);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(TemporaryNames, a_signal_leaves_neither_complete_files_nor_begun_ones_nor_made_directories) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const TemporaryDirectory dir;
    const int status = signalled(signal, std::chrono::milliseconds(300), [&] {
      std::filesystem::create_directory(dir / "made");
      remember_temporary(dir / "made");
      AtomicFile complete(dir / "made/complete");
      complete.write("all of it");
      complete.complete();
      AtomicFile named(dir / "made/named", AtomicFile::Naming::early);
      AtomicFile unnamed(dir / "unnamed");
      ::pause();
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_TRUE(dir.names().empty()) << dir.names().front();
  }
}

TEST(TemporaryNames, a_signal_at_any_moment_of_threads_that_write_leaves_whole_files_alone) {
  for (int moment = 0; moment < 40; ++moment) {
    const TemporaryDirectory dir;
    const int status = signalled(SIGTERM, std::chrono::microseconds(2000 + 371 * moment), [&] {
      std::vector<std::thread> threads;
      for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&dir, t] {
          const auto naming = t == 0 ? AtomicFile::Naming::late : AtomicFile::Naming::early;
          for (int i = 0;; ++i) {
            AtomicFile file(dir / (std::to_string(t) + "-" + std::to_string(i)), naming);
            file.write("whole");
            if (i % 2 == 0) file.commit();
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
    for (const std::string& name : dir.names()) {
      EXPECT_NE(name[0], '.') << name;
      EXPECT_EQ(read_file(dir / name), "whole") << name;
    }
  }
}

TEST(TemporaryNames, what_has_its_name_stays_and_an_ignored_signal_ends_nothing) {
  const TemporaryDirectory dir;
  int status = signalled(SIGTERM, std::chrono::milliseconds(200), [&] {
    AtomicFile file(dir / "x");
    file.write("new");
    file.commit();
  });
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  EXPECT_EQ(dir.names(), std::vector<std::string>{"x"});
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGHUP, SIG_IGN);  // as nohup does
    remove_temporaries_on_signals();
    ::raise(SIGHUP);
    ::_exit(7);
  }
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

}  // namespace
}  // namespace mxcheck
