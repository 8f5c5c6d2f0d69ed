#include "goldens/io/atomic_file.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <future>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "goldens/format/schema.h"
#include "goldens/hdf5/storage.h"
#include "goldens/io/byte_source.h"
#include "goldens/io/chunk_writer.h"
#include "goldens/io/sha256.h"
#include "numerics/error.h"

namespace mxcheck {
namespace {

namespace fs = std::filesystem;

constexpr int kNameAttempts = 100;

[[noreturn]] void fail(const std::string& path, const char* what, int error) {
  constexpr std::array kMachine{ENOSPC, EDQUOT, EFBIG, EIO, ENOMEM, EMFILE, ENFILE};
  const bool machine = std::find(kMachine.begin(), kMachine.end(), error) != kMachine.end();
  throw Error(
      machine ? ErrorKind::environment : ErrorKind::usage,
      path + ": " + what + ": " + std::strerror(error) + (machine ? "" : "; choose a path that can be written"));
}

// A name that no other process or thread of this one tries first; exclusive creation settles the rest. Of a long name
// the beginning: what a file may be called, its temporary must be, too.
std::string temporary_name(const std::string& path, int attempt) {
  const fs::path target(path);
  const std::string end = ".mxcheck-" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
  return (target.parent_path() / ("." + target.filename().string().substr(0, NAME_MAX - 1 - end.size()) + end))
      .string();
}

// Where the file is to be: links are followed to their end, where there may be nothing yet.
std::string end_of_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // as many as the kernel follows
  fs::path at(path);
  for (int links = 0; links <= kMostLinks; ++links) {
    std::error_code no_link;
    const fs::path target = fs::read_symlink(at, no_link);
    if (no_link) return at.string();
    at = at.parent_path() / target;  // an absolute target stands alone
  }
  fail(path, "cannot be written", ELOOP);
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path, Naming naming) : path_(end_of_links(path)) {
  struct stat status {};
  const bool is_there = ::stat(path_.c_str(), &status) == 0;
  if (!is_there && errno != ENOENT) fail(path_, "cannot be written", errno);
  if (temporary_name(path_, kNameAttempts).size() >= PATH_MAX) fail(path_, "cannot be written", ENAMETOOLONG);
  if (is_there && !S_ISREG(status.st_mode)) {
    throw Error(ErrorKind::usage,
                path + ": cannot be written: it is " + kind_of_file(status.st_mode) + "; choose a file name");
  }
  directory_ = fs::path(path_).parent_path().string();
  if (directory_.empty()) directory_ = ".";
  if (path_.empty() || fs::path(path_).filename().empty()) fail(path_, "cannot be written", ENOENT);
  if (naming == Naming::late) fd_ = ::open(directory_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (fd_ >= 0 && ::access(("/proc/self/fd/" + std::to_string(fd_)).c_str(), F_OK) != 0) {  // link_unnamed needs it
    ::close(fd_);
    fd_ = -1;
  }
  if (fd_ < 0) create_named();
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (temporary_.empty()) return;
  ::unlink(temporary_.c_str());
  forget_temporary(temporary_);
}

void AtomicFile::create_named() {
  for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
    const std::string name = temporary_name(path_, attempt);
    const SignalBlocker now;
    fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ >= 0) {
      temporary_ = name;
      remember_temporary(name);
      return;
    }
    if (errno != EEXIST) break;
  }
  fail(path_, "cannot be written", errno);
}

void AtomicFile::link_unnamed() {
  const std::string self = "/proc/self/fd/" + std::to_string(fd_);
  for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
    const std::string name = temporary_name(path_, attempt);
    const SignalBlocker now;
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = name;
      remember_temporary(name);
      return;
    }
    if (errno != EEXIST) break;
  }
  fail(path_, "cannot be written", errno);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "writing failed", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "writing failed", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

void AtomicFile::write(const std::string& text) { write(std::as_bytes(std::span(text))); }

void AtomicFile::sync() {
  if (::fsync(fd_) != 0) fail(path_, "writing failed", errno);
}

void AtomicFile::complete() {
  if (fd_ < 0) return;
  sync();
  if (temporary_.empty()) link_unnamed();
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) fail(path_, "writing failed", errno);
}

void AtomicFile::commit(const std::function<void()>& before_it_appears) {
  if (before_it_appears) {
    if (fd_ >= 0) sync();
    before_it_appears();  // before link_unnamed: a file without a name vanishes even where a signal ends the process
  }
  complete();
  {
    const SignalBlocker now;
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "cannot be written", errno);
    forget_temporary(temporary_);
    temporary_.clear();
  }
  const int directory = ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    ::fsync(directory);  // some file systems refuse this; the content is on disk either way
    ::close(directory);
  }
}

namespace {

constexpr std::array kEnding{SIGINT, SIGTERM, SIGHUP};

std::atomic_flag lock = ATOMIC_FLAG_INIT;
thread_local int depth = 0;
pid_t owner = 0;

std::vector<std::string>& names() {
  static auto* const all = new std::vector<std::string>;  // never gone: a signal may come after the end of main
  return *all;
}

void take_lock() {
  while (lock.test_and_set(std::memory_order_acquire)) {
  }
}

extern "C" void on_ending_signal(int signal) {
  if (::getpid() == owner) {
    take_lock();  // for good: nothing is created or renamed any more
    for (const std::string& name : names()) ::unlink(name.c_str());
    for (const std::string& name : names()) ::rmdir(name.c_str());  // of those that are directories
  }
  struct sigaction as_ever {};
  as_ever.sa_handler = SIG_DFL;
  ::sigaction(signal, &as_ever, nullptr);
  ::raise(signal);  // when this handler returns
}

}  // namespace

SignalBlocker::SignalBlocker() {
  if (depth++ != 0) return;
  sigset_t ending;
  sigemptyset(&ending);
  for (const int signal : kEnding) sigaddset(&ending, signal);
  pthread_sigmask(SIG_BLOCK, &ending, &before_);
  take_lock();
}

SignalBlocker::~SignalBlocker() {
  if (--depth != 0) return;
  lock.clear(std::memory_order_release);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

// Absolute: a handler must not depend on the folder that the process is in by then.
void remember_temporary(const std::string& name) {
  const SignalBlocker now;
  names().push_back(std::filesystem::absolute(name).string());
}

void forget_temporary(const std::string& name) {
  const SignalBlocker now;
  std::erase(names(), std::filesystem::absolute(name).string());
}

void remove_temporaries_on_signals() {
  names();  // made before a handler may ask for it
  owner = ::getpid();
  for (const int signal : kEnding) {
    struct sigaction is {};
    if (::sigaction(signal, nullptr, &is) != 0 || is.sa_handler != SIG_DFL) continue;
    struct sigaction remove {};
    remove.sa_handler = on_ending_signal;
    for (const int other : kEnding) sigaddset(&remove.sa_mask, other);  // a second one must not wait for the first
    ::sigaction(signal, &remove, nullptr);
  }
}

namespace {

constexpr std::uint64_t kChunk = 1 << 20;  // bytes, about

Hdf5Handle file_type(Format dtype) {
  const hid_t type = dtype == Format::uint8    ? H5T_STD_U8LE
                     : dtype == Format::uint16 ? H5T_STD_U16LE
                     : dtype == Format::uint32 ? H5T_STD_U32LE
                     : dtype == Format::int32  ? H5T_STD_I32LE
                                               : H5T_STD_I64LE;
  return {H5Tcopy(type), H5Tclose};
}

// The smallest length that cuts `extent` into as few parts as `most` does: the last part then wastes little.
std::uint64_t even_part(std::uint64_t extent, std::uint64_t most) {
  const std::uint64_t parts = (extent - 1) / most + 1;
  return (extent - 1) / parts + 1;
}

}  // namespace

ChunkWriter::ChunkWriter(hid_t file, const DatasetInfo& info, int compression, Hdf5Place place)
    : place_(std::move(place)),
      type_(file_type(info.dtype)),
      element_(size_of(info.dtype)),
      rows_(static_cast<std::uint64_t>(info.shape[0])),
      rank_(static_cast<int>(info.shape.size())) {
  if (rank_ == 2) cols_ = static_cast<std::uint64_t>(info.shape[1]);
  const Hdf5Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  const Hdf5Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  H5Pset_obj_track_times(creation.id(), 0);
  H5Pset_attr_creation_order(creation.id(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  if (rows_ != 0 && cols_ != 0) {
    chunk_cols_ = even_part(cols_, kChunk / element_);
    chunk_rows_ = even_part(rows_, std::max<std::uint64_t>(1, kChunk / (cols_ * element_)));
    const std::array<hsize_t, 2> chunk{chunk_rows_, chunk_cols_};
    H5Pset_chunk(creation.id(), rank_, chunk.data());
    H5Pset_fill_time(creation.id(), H5D_FILL_TIME_ALLOC);  // zeros, not memory, beyond the edges
    if (compression > 0) H5Pset_deflate(creation.id(), static_cast<unsigned>(compression));
    H5Pset_fletcher32(creation.id());
    H5Pset_chunk_cache(access.id(), 1, 0, 1.0);  // every chunk is written once, whole: straight to the file
  }
  const std::array<hsize_t, 2> extents{rows_, cols_};
  const Hdf5Handle space(H5Screate_simple(rank_, extents.data(), nullptr), H5Sclose);
  set_ = Hdf5Handle(
      H5Dcreate2(file, info.name.c_str(), type_.id(), space.id(), H5P_DEFAULT, creation.id(), access.id()), H5Dclose);
  if (!set_) place_.refuse("could not be created" + hdf5_says());
  write_attribute(set_.id(), kRoleKey, to_text(info.role), place_);
  write_attribute(set_.id(), kFormatKey, info.format, place_);
  for (const auto& [key, value] : info.attributes) write_attribute(set_.id(), key, value, place_);
}

std::size_t ChunkWriter::chunk_bytes() const {
  return std::min(chunk_rows_, rows_ - row_) * std::min(chunk_cols_, cols_ - col_) * element_;
}

void ChunkWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t wanted = chunk_bytes();
    if (pending_.empty() && bytes.size() >= wanted) {
      write_chunk(bytes.first(wanted));
      bytes = bytes.subspan(wanted);
      continue;
    }
    const std::size_t part = std::min(bytes.size(), wanted - pending_.size());
    pending_.reserve(wanted);
    pending_.insert(pending_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(part));
    bytes = bytes.subspan(part);
    if (pending_.size() == wanted) {
      write_chunk(pending_);
      pending_.clear();
    }
  }
}

// A chunk holds whole rows, or a part of one row: in both cases its bytes are consecutive in the tensor.
void ChunkWriter::write_chunk(std::span<const std::byte> bytes) {
  const std::array<hsize_t, 2> start{row_, col_};
  const std::array<hsize_t, 2> count{std::min(chunk_rows_, rows_ - row_), std::min(chunk_cols_, cols_ - col_)};
  const Hdf5Handle into(H5Dget_space(set_.id()), H5Sclose);
  const Hdf5Handle from(H5Screate_simple(rank_, count.data(), nullptr), H5Sclose);
  if (H5Sselect_hyperslab(into.id(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) < 0 ||
      H5Dwrite(set_.id(), type_.id(), from.id(), into.id(), H5P_DEFAULT, bytes.data()) < 0) {
    place_.refuse("could not be written" + hdf5_says());
  }
  col_ += count[1];
  if (col_ == cols_) {
    col_ = 0;
    row_ += count[0];
  }
}

void ChunkWriter::close() {
  pending_ = {};
  if (!set_.close()) place_.refuse("could not be written" + hdf5_says());
}

namespace {

constexpr std::size_t kInMemory = 1 << 20;

}  // namespace

SpillBuffer::~SpillBuffer() {
  if (fd_ >= 0) ::close(fd_);
}

void SpillBuffer::fail(const char* what) const {
  throw Error(ErrorKind::environment, directory_ + ": temporary file: " + what + ": " + std::strerror(errno));
}

void SpillBuffer::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t part = std::min(bytes.size(), kInMemory - recent_.size());
    recent_.insert(recent_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(part));
    bytes = bytes.subspan(part);
    if (recent_.size() == kInMemory) write_out();
  }
}

void SpillBuffer::write_out() {
  if (fd_ < 0) fd_ = ::open(directory_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd_ < 0) {  // a file system without unnamed files
    std::string name = directory_ + "/.mxcheck-spill-XXXXXX";
    fd_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd_ < 0) fail("cannot be created");
    ::unlink(name.c_str());
  }
  for (std::span<const std::byte> rest = recent_; !rest.empty();) {
    const ssize_t done = ::pwrite(fd_, rest.data(), rest.size(), static_cast<off_t>(written_));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("writing failed");
    written_ += static_cast<std::uint64_t>(done);
    rest = rest.subspan(static_cast<std::size_t>(done));
  }
  recent_.clear();
}

void SpillBuffer::drain(const std::function<void(std::span<const std::byte>)>& take) {
  std::vector<std::byte> piece(std::min<std::uint64_t>(written_, kInMemory));
  for (std::uint64_t at = 0; at < written_;) {
    const ssize_t got = ::pread(fd_, piece.data(), piece.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("reading failed");
    take(std::span(piece).first(static_cast<std::size_t>(got)));
    at += static_cast<std::uint64_t>(got);
  }
  take(recent_);
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  written_ = 0;
  recent_ = {};
}

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

namespace {

void require(bool succeeded) {
  if (!succeeded)
    throw Error(ErrorKind::environment, "OpenSSL cannot compute SHA-256; is its default provider missing?");
}

}  // namespace

Sha256::Sha256() : state_(std::make_unique<State>()) {
  // A hash must not depend on the openssl.cnf of the machine, which may call for modules that are not there.
  static const int without_configuration = OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  require(without_configuration == 1);
  require(state_->context != nullptr && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  unsigned size = 0;
  require(EVP_DigestFinal_ex(state_->context, digest.data(), &size) == 1 && size == digest.size());
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

namespace {

constexpr std::uint64_t kPiece = 4 << 20;

// room(at, bytes): where the bytes from `at` on go; those of the piece before are still being hashed.
template <class Room>
std::string hash_while_reading(const ByteSource& source, const Room& room, std::atomic<std::uint64_t>* done) {
  Sha256 hash;
  const auto read = [&](std::uint64_t at) {
    const std::span<std::byte> piece = room(at, std::min(kPiece, source.size() - at));
    source.read(at, piece);
    return piece;
  };
  std::span<const std::byte> piece = read(0);
  for (std::uint64_t next = piece.size(); !piece.empty(); next += piece.size()) {
    std::future<std::span<std::byte>> ahead = std::async(std::launch::async, read, next);
    hash.update(piece);
    if (done != nullptr) *done += piece.size();
    piece = ahead.get();
  }
  return hash.hex();
}

}  // namespace

std::string sha256(const ByteSource& source, std::atomic<std::uint64_t>* done) {
  std::array<std::vector<std::byte>, 2> rooms;
  for (auto& room : rooms) room.resize(std::min(kPiece, source.size()));
  const auto room = [&](std::uint64_t at, std::uint64_t bytes) {
    return std::span(rooms[at / kPiece % 2]).first(bytes);
  };
  return hash_while_reading(source, room, done);
}

std::string sha256(const ByteSource& source, std::span<std::byte> into, std::atomic<std::uint64_t>* done) {
  const auto room = [&](std::uint64_t at, std::uint64_t bytes) { return into.subspan(at, bytes); };
  return hash_while_reading(source, room, done);
}

namespace {

fs::file_status looked_up(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error && status.type() != fs::file_type::not_found)
    throw Error(ErrorKind::usage, path + ": cannot be looked up: " + error.message() + "; choose another path");
  return status;
}

}  // namespace

bool path_exists(const std::string& path) { return fs::exists(looked_up(path)); }
bool is_folder(const std::string& path) { return fs::is_directory(looked_up(path)); }

}  // namespace mxcheck
