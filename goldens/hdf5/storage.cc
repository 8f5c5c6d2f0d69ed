#include "goldens/hdf5/storage.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "goldens/hdf5/child.h"
#include "goldens/io/byte_source.h"
#include "numerics/error.h"

namespace mxcheck {
namespace {

using Extents = std::array<hsize_t, kMaxRank>;

void check_filters(hid_t creation, const Hdf5Place& place) {
  const int filters = H5Pget_nfilters(creation);
  if (filters < 0) place.refuse("damaged filters" + hdf5_says());
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    size_t values = 0;
    const H5Z_filter_t id =
        H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, nullptr);
    if (id != H5Z_FILTER_DEFLATE && id != H5Z_FILTER_SHUFFLE && id != H5Z_FILTER_FLETCHER32) {
      place.refuse("uses filter " + std::to_string(id) + "; read are deflate (gzip), shuffle and Fletcher-32");
    }
  }
}

// Chunks that were never written read as fill values, which are no data. (H5Dget_space_status cannot tell:
// it compares bytes, which filters change.)
void check_chunks(hid_t set, hid_t creation, const Hdf5Place& place) {
  const Hdf5Handle space(H5Dget_space(set), H5Sclose);
  Extents extents{};
  Extents chunk{};
  const int rank = H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr);
  hsize_t there = 0;
  if (H5Pget_chunk(creation, static_cast<int>(kMaxRank), chunk.data()) != rank ||
      H5Dget_num_chunks(set, space.id(), &there) < 0) {
    place.refuse("damaged chunks" + hdf5_says());
  }
  std::uint64_t wanted = 1;  // at most the elements, whose bytes fit
  for (std::size_t i = 0; i < static_cast<std::size_t>(rank); ++i) {
    if (chunk[i] == 0) place.refuse("a chunk without elements");
    wanted *= extents[i] / chunk[i] + (extents[i] % chunk[i] != 0 ? 1 : 0);
  }
  if (there != wanted) place.refuse("not every chunk was written");
}

// Bytes of the chunks that one row of the tensor touches, but no more than kMost unless a single chunk is larger.
std::size_t cache_bytes(hid_t set) {
  constexpr std::uint64_t kLeast = 1 << 20;
  constexpr std::uint64_t kMost = 256 << 20;
  const Hdf5Handle creation(H5Dget_create_plist(set), H5Pclose);
  const Hdf5Handle space(H5Dget_space(set), H5Sclose);
  const Hdf5Handle type(H5Dget_type(set), H5Tclose);
  Extents extents{};
  Extents chunk{};
  const int rank = H5Sget_simple_extent_ndims(space.id());
  if (rank < 1 || rank > static_cast<int>(kMaxRank) || H5Pget_layout(creation.id()) != H5D_CHUNKED) return kLeast;
  H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr);
  if (H5Pget_chunk(creation.id(), rank, chunk.data()) != rank) return kLeast;
  std::uint64_t one = H5Tget_size(type.id());
  for (std::size_t i = 0; i < static_cast<std::size_t>(rank); ++i) {
    if (chunk[i] == 0 || !checked_multiply(one, chunk[i], one)) return kLeast;
  }
  std::uint64_t band = one;
  for (std::size_t i = 1; i < static_cast<std::size_t>(rank); ++i) {
    if (!checked_multiply(band, (extents[i] - 1) / chunk[i] + 1, band)) band = kMost;
  }
  return std::max({kLeast, one, std::min(band, kMost)});
}

}  // namespace

std::vector<std::int64_t> shape_of(hid_t set, const Hdf5Place& place) {
  const Hdf5Handle space(H5Dget_space(set), H5Sclose);
  const H5S_class_t kind = H5Sget_simple_extent_type(space.id());
  if (kind == H5S_SCALAR) return {};
  const int rank = kind == H5S_SIMPLE ? H5Sget_simple_extent_ndims(space.id()) : -1;
  if (rank < 0 || rank > static_cast<int>(kMaxRank)) place.refuse("has no shape" + hdf5_says());
  Extents extents{};
  H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr);
  std::vector<std::int64_t> shape;
  for (int i = 0; i < rank; ++i) {
    const hsize_t extent = extents[static_cast<std::size_t>(i)];
    if (extent >> 63 != 0) place.refuse("a dimension overflows 63 bits");
    shape.push_back(static_cast<std::int64_t>(extent));
  }
  return shape;
}

void check_storage(hid_t set, std::uint64_t bytes, const Hdf5Place& place) {
  const Hdf5Handle creation(H5Dget_create_plist(set), H5Pclose);
  if (!creation) place.refuse("damaged header" + hdf5_says());
  const H5D_layout_t layout = H5Pget_layout(creation.id());
  if (layout == H5D_VIRTUAL) place.refuse("a virtual dataset, whose data is in other files");
  if (layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED && layout != H5D_COMPACT) place.refuse("unknown layout");
  if (H5Pget_external_count(creation.id()) != 0) place.refuse("external storage: its data is in other files");
  check_filters(creation.id(), place);
  if (bytes == 0) return;
  const std::uint64_t file = place.file_bytes;
  const std::uint64_t limit = file > UINT64_MAX / kMaxExpansion ? UINT64_MAX : file * kMaxExpansion;
  if (layout == H5D_CHUNKED) {
    if (bytes > limit) place.refuse("calls for more data than the file can hold (truncated?)");
    check_chunks(set, creation.id(), place);
    return;
  }
  if (H5Dget_storage_size(set) != bytes || bytes > file) {
    place.refuse("calls for more data than was written (truncated?)");
  }
  if (layout == H5D_CONTIGUOUS) {
    const haddr_t at = H5Dget_offset(set);
    if (at == HADDR_UNDEF || at > file - bytes) place.refuse("its data lies beyond the end of the file");
  }
}

Hdf5Handle open_dataset(hid_t file, const std::string& name, const Hdf5Place& place) {
  Hdf5Handle set(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!set) place.refuse("cannot be opened" + hdf5_says());
  const Hdf5Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  constexpr std::size_t kSlots = 12421;  // a prime, some hundred times the chunks of a usual band
  H5Pset_chunk_cache(access.id(), kSlots, cache_bytes(set.id()), 1.0);  // 1: what was read whole goes first
  set.close();
  set = Hdf5Handle(H5Dopen2(file, name.c_str(), access.id()), H5Dclose);
  if (!set) place.refuse("cannot be opened" + hdf5_says());
  return set;
}

namespace {

// The library would copy the image into its property list and again into its file; these callbacks hand it the bytes
// instead. It opens the file read-only, so that it neither writes to them nor asks for more room.
H5FD_file_image_callbacks_t lend(void* bytes) {
  H5FD_file_image_callbacks_t callbacks{};
  callbacks.image_malloc = [](size_t, H5FD_file_image_op_t, void* data) { return data; };
  callbacks.image_memcpy = [](void* to, const void* from, size_t, H5FD_file_image_op_t, void*) -> void* {
    return to == from ? to : nullptr;
  };
  callbacks.image_realloc = [](void*, size_t, H5FD_file_image_op_t, void*) -> void* { return nullptr; };
  callbacks.image_free = [](void*, H5FD_file_image_op_t, void*) -> herr_t { return 0; };
  callbacks.udata_copy = [](void* data) { return data; };
  callbacks.udata_free = [](void*) -> herr_t { return 0; };
  callbacks.udata = bytes;
  return callbacks;
}

}  // namespace

Hdf5Handle open_image(std::span<const std::byte> bytes, const Hdf5Place& place) {
  if (bytes.empty()) place.refuse("empty, not an HDF5 file");
  // The library takes files in memory of one name for one file.
  static std::atomic<std::uint64_t> opened = 0;
  const std::string name = "image-" + std::to_string(++opened);
  const Hdf5Handle access = hdf5_access(Hdf5Locks::none);
  constexpr std::size_t kIncrement = 1 << 16;
  void* data = const_cast<std::byte*>(bytes.data());
  H5FD_file_image_callbacks_t callbacks = lend(data);
  H5Pset_fapl_core(access.id(), kIncrement, 0);
  H5Pset_file_image_callbacks(access.id(), &callbacks);
  H5Pset_file_image(access.id(), data, bytes.size());
  Hdf5Handle file(H5Fopen(name.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose);
  if (!file) place.refuse("not an HDF5 file" + hdf5_says());
  return file;
}

}  // namespace mxcheck

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  #define MXCHECK_SANITIZED
#elif defined(__has_feature)
  #if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
    #define MXCHECK_SANITIZED
  #endif
#endif

namespace mxcheck {
namespace {

constexpr char kRefused = 'R';
constexpr char kNoMemory = 'M';
constexpr std::uint32_t kMaxRefusal = 4096;
constexpr rlim_t kBaseSeconds = 30;                  // of processor time, and one more for every
constexpr std::uint64_t kBytesPerSecond = 10 << 20;  // bytes of the file

std::array<int, 2> pipe_ends() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(ErrorKind::environment, std::string("no pipe for the HDF5 reader: ") + std::strerror(errno));
  }
  constexpr int kRoom = 1 << 20;  // fewer switches between the two; the default stays where the system allows no more
  ::fcntl(ends[1], F_SETPIPE_SZ, kRoom);
  return ends;
}

bool send(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

// Fills `to` from the child until it closes its end; returns the number of bytes filled.
std::size_t receive(int fd, std::span<std::byte> to) {
  std::size_t have = 0;
  while (have < to.size()) {
    const ssize_t got = ::read(fd, to.data() + have, to.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  return have;
}

void limit(decltype(RLIMIT_AS) what, rlim_t value) {
  rlimit old{};
  if (::getrlimit(what, &old) != 0) return;
  if (old.rlim_max != RLIM_INFINITY && value > old.rlim_max) value = old.rlim_max;
  const rlimit now{value, old.rlim_max};
  ::setrlimit(what, &now);
}

[[maybe_unused]] rlim_t address_space() {  // not by a build with sanitizers
  unsigned long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  if (std::fscanf(file, "%lu", &pages) != 1) pages = 0;
  std::fclose(file);
  return static_cast<rlim_t>(pages) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

void limit_child(std::uint64_t file_bytes) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) ::signal(signal, SIG_DFL);
  ::signal(SIGPIPE, SIG_IGN);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, kBaseSeconds + file_bytes / kBytesPerSecond);
#if !defined(MXCHECK_SANITIZED)                    // a sanitizer's shadow memory alone is terabytes
  constexpr rlim_t kBaseMemory = rlim_t{1} << 30;  // for the library's own structures
  const std::uint64_t most =
      file_bytes > (RLIM_INFINITY >> 12) / kMaxExpansion ? RLIM_INFINITY >> 12 : file_bytes * kMaxExpansion;
  if (const rlim_t now = address_space(); now != 0) limit(RLIMIT_AS, now + kBaseMemory + most);
#endif
  const int null = ::open("/dev/null", O_WRONLY);  // the C library's own last words
  if (null >= 0) ::dup2(null, STDERR_FILENO);
}

[[noreturn]] void run_child(int fd, const std::function<bool(int)>& work, std::uint64_t file_bytes) {
  bool sent = false;
  try {
    limit_child(file_bytes);
    sent = work(fd);
  } catch (const std::bad_alloc&) {
    sent = send_message(fd, kNoMemory, {});
  } catch (const std::exception& e) {
    const std::string text = std::string(e.what()).substr(0, kMaxRefusal);
    sent = send_message(fd, kRefused, std::as_bytes(std::span(text)));
  } catch (...) {
  }
  ::_exit(sent ? 0 : 1);  // no destructors, no handlers: they are the parent's
}

}  // namespace

bool send_message(int fd, char status, std::span<const std::byte> content) {
  const auto length = static_cast<std::uint32_t>(content.size());
  return send(fd, std::as_bytes(std::span(&status, 1))) && send(fd, std::as_bytes(std::span(&length, 1))) &&
         send(fd, content);
}

Hdf5Child::Hdf5Child(const std::string& path, const std::function<bool(int fd)>& work)
    : path_(path), file_bytes_(FileSource(path).size()) {
  const std::array<int, 2> ends = pipe_ends();
  id_ = ::fork();
  if (id_ == 0) {
    ::close(ends[0]);  // so that the child notices when its reader is gone
    run_child(ends[1], work, file_bytes_);
  }
  const int error = errno;
  ::close(ends[1]);
  read_end_ = ends[0];
  if (id_ < 0) {
    ::close(read_end_);
    throw Error(ErrorKind::environment, std::string("no process for the HDF5 reader: ") + std::strerror(error));
  }
}

Hdf5Child::~Hdf5Child() {
  stop();
  if (read_end_ >= 0) ::close(read_end_);
}

std::uint32_t Hdf5Child::next_message(char wanted, std::uint32_t longest) {
  char status = 0;
  std::uint32_t length = 0;
  if (receive(read_end_, std::as_writable_bytes(std::span(&status, 1))) == 0 ||
      receive(read_end_, std::as_writable_bytes(std::span(&length, 1))) != sizeof(length)) {
    damaged("the reader ended early");
  }
  if (status == kNoMemory) throw std::bad_alloc();
  if (status == kRefused && length <= kMaxRefusal) {
    std::string message(length, '\0');
    message.resize(receive(read_end_, std::as_writable_bytes(std::span(message))));
    throw Error(ErrorKind::input, message);
  }
  if (status != wanted || length == 0 || length > longest) damaged("the reader lost its way");
  return length;
}

void Hdf5Child::read(std::span<std::byte> to) {
  if (receive(read_end_, to) != to.size()) damaged("the reader ended early");
}

void Hdf5Child::stop() {
  if (id_ <= 0) return;
  ::kill(id_, SIGKILL);
  wait();
}

int Hdf5Child::wait() {
  int status = 0;
  while (id_ > 0 && ::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
  }
  id_ = -1;
  return status;
}

void Hdf5Child::damaged(const char* what) {
  std::string why = what;
  ::close(std::exchange(read_end_, -1));  // a child that still writes ends
  const int ended = wait();
  if (WIFSIGNALED(ended)) {
    const int signal = WTERMSIG(ended);
    why = signal == SIGXCPU || signal == SIGKILL ? "it took too long"
                                                 : "the library crashed, signal " + std::to_string(signal);
  }
  throw Error(ErrorKind::input, path_ + ": damaged: HDF5 could not read it: " + why);
}

}  // namespace mxcheck
