#include "trainer/record/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "goldens/io/byte_source.h"
#include "numerics/error.h"
#include "trainer/record/journal_frames.h"
#include "trainer/record/run_check.h"

namespace mxcheck {
namespace {

constexpr std::string_view kStart = "mxcheck parity journal 1\n";
constexpr std::string_view kStartOfAny = "mxcheck parity journal ";
constexpr std::uint32_t kHeaderType = 0;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

[[noreturn]] void fail(const std::string& path, const char* what, int error) {
  constexpr std::array kMachine{ENOSPC, EDQUOT, EFBIG, EIO, ENOMEM, EMFILE, ENFILE};
  const bool machine = std::find(kMachine.begin(), kMachine.end(), error) != kMachine.end();
  throw Error(machine ? ErrorKind::environment : ErrorKind::usage, path + ": " + what + ": " + std::strerror(error));
}

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::input, path + ": " + what);
}

bool begins_with(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

JournalContents contents_of(std::span<const std::byte> bytes, const std::string& path) {
  if (!begins_with(bytes, kStart)) {
    refuse(path, begins_with(bytes, kStartOfAny) ? "a journal of another version; this build reads version 1"
                                                 : "no journal of a run; one begins with 'mxcheck parity journal 1'");
  }
  const Frames all = frames_in(bytes, kStart.size(), path);
  if (all.frames.empty()) refuse(path, "holds no whole record, so nothing of a run: remove it");
  const auto where = [&](const Frame& frame) { return path + ": record at byte " + std::to_string(frame.at); };
  if (all.frames[0].type != kHeaderType) refuse(where(all.frames[0]), "no header; a journal begins with one");
  JournalContents contents{run_of_header(all.frames[0].payload, where(all.frames[0])), all.whole_bytes,
                           bytes.size() - all.whole_bytes};
  for (const Frame& frame : std::span(all.frames).subspan(1)) {
    add(contents.record, entry_of(frame.type, frame.payload, where(frame)), where(frame));
  }
  return contents;
}

}  // namespace

std::filesystem::path journal_path(const std::filesystem::path& run) {
  std::filesystem::path path = run;
  return path += ".journal";
}

JournalContents read_journal(const std::filesystem::path& path) {
  const FileSource source(path.string());
  std::vector<std::byte> bytes = room_for(source.size(), path.string());
  source.read(0, bytes);
  return contents_of(bytes, path.string());
}

Journal::Journal(const std::filesystem::path& path, int flags) : path_(path.string()) {
  constexpr mode_t kMode = 0666;
  fd_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | flags, kMode);  // O_NONBLOCK: a FIFO does not hold us
  if (fd_ < 0 && errno == EEXIST) {
    throw Error(ErrorKind::usage, path_ + ": there is a journal already: resume that run, or remove it");
  }
  if (fd_ < 0) fail(path_, "cannot be opened", errno);
  struct stat status {};
  if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd_);
    throw Error(ErrorKind::usage, path_ + ": is " + kind_of_file(status.st_mode) + ", no file");
  }
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  ::close(fd_);
  if (error != EWOULDBLOCK) fail(path_, "cannot be locked", error);
  throw Error(ErrorKind::usage, path_ + ": another process writes this run; wait for its end");
}

Journal::Journal(Journal&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), contents_(std::move(other.contents_)) {}

Journal::~Journal() {
  if (fd_ >= 0) ::close(fd_);
}

Journal Journal::create(const std::filesystem::path& path, const RunRecord& about) {
  if (const std::string wrong = objection_to_head(about); !wrong.empty()) {
    throw Error(ErrorKind::usage, path.string() + ": " + wrong);
  }
  Journal journal(path, O_CREAT | O_EXCL);
  const std::vector<std::byte> header = frame_of(kHeaderType, header_payload(about));
  try {
    journal.write(bytes_of(kStart));
    journal.write(header);
    journal.sync();
  } catch (const Error&) {
    ::unlink(journal.path_.c_str());  // it was made above
    throw;
  }
  journal.contents_.record = run_of_header(std::span(header).subspan(kFrameHead), journal.path_);
  return journal;
}

Journal Journal::resume(const std::filesystem::path& path) {
  Journal journal(path, 0);
  journal.contents_ = read_journal(path);
  if (journal.contents_.torn_bytes > 0 &&
      ::ftruncate(journal.fd_, static_cast<off_t>(journal.contents_.whole_bytes)) != 0) {
    fail(journal.path_, "its torn tail cannot be dropped", errno);
  }
  return journal;
}

void Journal::append(const JournalEntry& entry) {
  const std::vector<std::byte> frame = frame_of(type_of(entry), payload_of(entry));
  add(contents_.record, entry, path_);
  write(frame);
}

void Journal::write(std::span<const std::byte> bytes) {
  std::uint64_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written =
        ::pwrite(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(contents_.whole_bytes + done));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      // What was written is a torn tail, which readers drop; where this fails too, they still do.
      static_cast<void>(::ftruncate(fd_, static_cast<off_t>(contents_.whole_bytes)));
      fail(path_, "writing failed", error);
    }
    done += static_cast<std::uint64_t>(written);
  }
  contents_.whole_bytes += done;
}

void Journal::sync() {
  if (::fsync(fd_) != 0) fail(path_, "writing failed", errno);
}

}  // namespace mxcheck
