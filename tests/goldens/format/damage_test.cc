// Goldens that are cut short or changed, at every place. Against the manifest each is Error{golden}. With a manifest
// that agrees, only the HDF5 library stands between the damage and us: that happens in a child process here.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "goldens/format/reader.h"
#include "tests/goldens/format/golden_samples.h"

namespace mxcheck {
namespace {

using test::expect_error;

// Two chunked datasets beside small ones, 60 KiB in all.
GoldenInfo sample_info() {
  GoldenInfo info = test::small_info();
  info.datasets.push_back({"more", Role::output, "float8_e4m3fn", Format::uint8, {300, 100}, {}});
  info.datasets.push_back({"wide", Role::output, "bfloat16", Format::uint16, {10, 1000}, {}});
  return info;
}

// The n-th place of a sequence that looks random and is the same on every machine.
std::size_t place(std::size_t n, std::size_t size) {
  std::uint64_t x = (n + 1) * 0x9E3779B97F4A7C15U;
  x ^= x >> 31;
  x *= 0xBF58476D1CE4E5B9U;
  return static_cast<std::size_t>((x ^ x >> 29) % size);
}

struct Damage {
  std::size_t length;  // the file is cut to this
  std::size_t at;      // and this byte is changed, if it is inside
  int flip;
};

std::vector<Damage> all_damage(std::size_t size) {
  std::vector<Damage> all;
  for (std::size_t n = 0; n < size; n += n < 4096 ? 1 : 512) all.push_back({n, size, 0});
  for (std::size_t at = 0; at < 4096; ++at) all.push_back({size, at, at % 2 == 0 ? 0xFF : 1});
  for (std::size_t n = 0; n < 1000; ++n) all.push_back({size, place(n, size), 1 << n % 8});
  return all;
}

// A file that is damaged in place: thousands of new ones would take the file system a minute.
class Patient {
 public:
  explicit Patient(const std::string& path) : whole_(test::read_file(path)), fd_(::open(path.c_str(), O_RDWR)) {}
  ~Patient() { ::close(fd_); }
  Patient(const Patient&) = delete;
  Patient& operator=(const Patient&) = delete;
  [[nodiscard]] std::size_t size() const { return whole_.size(); }

  void heal() const { write(0, whole_); }
  // Heals the last damage, too.
  void damage(const Damage& next) {
    write(last_, whole_.substr(last_, cut_ ? std::string::npos : 1));
    if (next.length < whole_.size()) {
      EXPECT_EQ(::ftruncate(fd_, static_cast<off_t>(next.length)), 0);
      last_ = next.length;
      cut_ = true;
    } else {
      write(next.at, std::string(1, static_cast<char>(whole_[next.at] ^ next.flip)));
      last_ = next.at;
      cut_ = false;
    }
  }

 private:
  void write(std::size_t at, const std::string& bytes) const {
    EXPECT_EQ(::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at)), static_cast<ssize_t>(bytes.size()));
  }

  std::string whole_;
  int fd_;
  std::size_t last_ = 0;
  bool cut_ = false;
};

class GoldenDamageTest : public testing::Test {
 protected:
  GoldenDamageTest() : entry(test::write_golden(path, sample_info())), patient(path) {}
  test::TemporaryDirectory dir;
  std::string path = dir / "x.h5";
  ManifestEntry entry;
  Patient patient;
};

TEST_F(GoldenDamageTest, is_noticed_wherever_it_is) {
  ASSERT_GT(patient.size(), 50000U);
  for (const Damage& damage : all_damage(patient.size())) {
    patient.damage(damage);
    expect_error(ErrorKind::golden, "in the manifest", [&] { GoldenReader(path, entry); });
  }
  patient.heal();
  EXPECT_EQ(GoldenReader(path, entry).info().datasets.size(), sample_info().datasets.size());
  test::write_file(path, test::read_file(path) + " ");
  expect_error(ErrorKind::golden, "in the manifest", [&] { GoldenReader(path, entry); });
}

// Reads everything as if the manifest agreed. True when that gave a result rather than an Error.
bool read_all(const std::string& path) {
  try {
    const GoldenReader reader(path, test::entry_of(path));
    for (const DatasetInfo& set : reader.info().datasets) static_cast<void>(reader.read(set.name));
    return true;
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::golden) throw;
    return false;
  }
}

struct Progress {
  std::size_t next;
  std::size_t read;
  std::size_t refused;
};

// Goes on from progress.next until the end or until the library brings the process down.
[[noreturn]] void go_on(const std::string& path, Patient& patient, Progress& progress) {
  const rlimit seconds{60, 60};
  ::setrlimit(RLIMIT_CPU, &seconds);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
#if !defined(__SANITIZE_ADDRESS__)
  const rlimit memory{rlim_t{2} << 30, rlim_t{2} << 30};
  ::setrlimit(RLIMIT_AS, &memory);
#endif
  try {
    const std::vector<Damage> all = all_damage(patient.size());
    patient.heal();
    while (progress.next < all.size()) {
      patient.damage(all[progress.next++]);
      ++(read_all(path) ? progress.read : progress.refused);
    }
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

TEST_F(GoldenDamageTest, that_the_manifest_knows_is_an_error_or_a_result_and_never_reaches_this_process) {
  void* shared = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& progress = *new (shared) Progress{};
  const std::size_t cases = all_damage(patient.size()).size();
  std::string crashes;
  while (progress.next < cases) {
    const pid_t id = ::fork();
    if (id == 0) go_on(path, patient, progress);
    int status = 0;
    ASSERT_EQ(::waitpid(id, &status, 0), id);
    ASSERT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << "an error of another kind at " << progress.next;
    if (WIFSIGNALED(status)) {
      crashes += " " + std::to_string(progress.next - 1) + " (signal " + std::to_string(WTERMSIG(status)) + ")";
    }
  }
  EXPECT_GT(progress.refused, 4500U);
  EXPECT_GT(progress.read, 100U) << "no damage in the slack of the file?";
  EXPECT_EQ(crashes, "") << "the HDF5 library does not survive these; docs/goldens.md says that only hashes protect";
  RecordProperty("read", static_cast<int>(progress.read));
  RecordProperty("refused", static_cast<int>(progress.refused));
  ::munmap(shared, sizeof(Progress));
}

}  // namespace
}  // namespace mxcheck
