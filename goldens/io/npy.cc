// NumPy's .npy, format versions 1.0 to 3.0: magic, version, header length, a Python dict literal, the data.
// Source: numpy.lib.format's documentation (NEP 1).

#include "goldens/io/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "goldens/io/readers.h"
#include "goldens/io/row_reader.h"
#include "goldens/io/tensor_writers.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/format/packing.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

// NumPy itself refuses headers over 10000 characters unless told to trust the file; a plain dtype never comes near.
constexpr std::uint64_t kMaxHeader = 65536;

struct Descr {
  std::string_view text;
  Format dtype;
};

// '|' and '<' say the same for one byte; V2 is how NumPy stores ml_dtypes.bfloat16.
constexpr std::array kDescrs{Descr{"|u1", Format::uint8}, Descr{"<u1", Format::uint8},  Descr{"|i1", Format::int8},
                             Descr{"<i1", Format::int8},  Descr{"<u2", Format::uint16}, Descr{"<u4", Format::uint32},
                             Descr{"<i4", Format::int32}, Descr{"<i8", Format::int64},  Descr{"<f2", Format::fp16},
                             Descr{"<V2", Format::bf16},  Descr{"|V2", Format::bf16},   Descr{"<f4", Format::fp32},
                             Descr{"<f8", Format::fp64}};

// The subset of Python literals that a header may hold: a dict of strings to a string, a bool or a tuple of integers.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  struct Header {
    std::optional<std::string> descr;
    std::optional<bool> fortran_order;
    std::optional<std::vector<std::int64_t>> shape;
  };

  Header parse() {
    Header header;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      value(key, header);
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) refuse("text follows the dictionary");
    if (!header.descr || !header.fortran_order || !header.shape) {
      refuse("it must give descr, fortran_order and shape");
    }
    return header;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::input,
                file_ + ": bad npy header at character " + std::to_string(at_) + ": " + one_line(what));
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) refuse(std::string("expected '") + c + "'");
  }
  bool accept_word(std::string_view word) {
    skip_space();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  std::string string() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote != '\'' && quote != '"') refuse("expected a quoted string");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) refuse("a string has no end");
    std::string s(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return s;
  }
  std::int64_t integer() {
    skip_space();
    const std::string_view rest = text_.substr(at_);
    const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    const auto extent = parse_number<std::int64_t>(rest.substr(0, digits));
    if (!extent) refuse("expected a dimension between 0 and 2^63 - 1");
    at_ += digits;
    accept('L');  // Python 2 wrote long integers so
    return *extent;
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> items;
    expect('(');
    while (!accept(')')) {
      if (items.size() == kMaxRank) refuse("more than 32 dimensions");
      items.push_back(integer());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return items;
  }
  void value(const std::string& key, Header& header) {
    if (key == "descr" && !header.descr) {
      skip_space();
      if (at_ < text_.size() && text_[at_] == '[') refuse("structured dtypes are not read; save one plain array");
      header.descr = string();
    } else if (key == "fortran_order" && !header.fortran_order) {
      const bool yes = accept_word("True");
      if (!yes && !accept_word("False")) refuse("expected True or False");
      header.fortran_order = yes;
    } else if (key == "shape" && !header.shape) {
      header.shape = tuple();
    } else {
      refuse("unknown or repeated key '" + key + "'");
    }
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
};

Format dtype_of(const std::string& descr, const std::string& file) {
  for (const Descr& d : kDescrs) {
    if (d.text == descr) return d.dtype;
  }
  std::string why = "is not read";
  if (!descr.empty() && descr[0] == '>') why = "is big-endian; save with a little-endian dtype";
  if (descr == "|O") why = "holds Python objects, which are never unpickled; save a plain array";
  throw Error(ErrorKind::input, file + ": npy dtype '" + one_line(descr) + "' " + why +
                                    " (read are u1 i1 u2 u4 i4 i8 f2 f4 f8 and bfloat16 as V2)");
}

}  // namespace

TensorRegion find_npy(const ByteSource& source) {
  const std::string& file = source.name();
  constexpr std::string_view kMagic = "\x93NUMPY";
  std::array<std::byte, 12> start{};
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(start[i]); };
  source.read(0, std::span(start).first(std::min<std::uint64_t>(start.size(), source.size())));
  const bool magic = std::equal(kMagic.begin(), kMagic.end(), start.begin(),
                                [](char c, std::byte b) { return static_cast<std::byte>(c) == b; });
  if (source.size() < 10 || !magic) throw Error(ErrorKind::input, file + ": not an npy file: the magic is missing");
  if (byte(6) < 1 || byte(6) > 3 || byte(7) != 0) {
    throw Error(ErrorKind::input, file + ": npy version " + std::to_string(byte(6)) + "." + std::to_string(byte(7)) +
                                      " is not known; 1.0, 2.0 and 3.0 are read");
  }
  const std::uint64_t prefix = byte(6) == 1 ? 10 : 12;
  std::uint64_t length = byte(8) | byte(9) << 8;
  if (prefix == 12) length |= byte(10) << 16 | byte(11) << 24;
  if (length > kMaxHeader) throw Error(ErrorKind::input, file + ": npy header of over 64 KiB");
  std::string text(length, ' ');
  source.read(prefix, std::as_writable_bytes(std::span(text)));

  const HeaderParser::Header header = HeaderParser(text, file).parse();
  const TensorHead head{dtype_of(*header.descr, file), *header.shape};
  if (*header.fortran_order && head.shape.size() > 1) {
    throw Error(ErrorKind::input, file + ": Fortran order is not read; save numpy.ascontiguousarray(x)");
  }
  const std::uint64_t bytes = checked_bytes(head.shape, size_of(head.dtype), file);
  const std::uint64_t there = source.size() - prefix - length;
  if (bytes != there) {
    throw Error(ErrorKind::input, file + ": " + (there < bytes ? "truncated" : "too long") + ": the header calls for " +
                                      std::to_string(bytes) + " bytes of data, there are " + std::to_string(there));
  }
  return {"", head, prefix + length, bytes};
}

Tensor parse_npy(std::span<const std::byte> bytes, const std::string& name_in_errors) {
  const SpanSource source(bytes, name_in_errors);
  return load(source, find_npy(source));
}

NpyWriter::NpyWriter(const std::string& path, const TensorHead& head)
    : path_(path), left_(checked_bytes(head.shape, size_of(head.dtype), path)), file_(path) {
  const auto descr =
      std::find_if(kDescrs.begin(), kDescrs.end(), [&](const Descr& d) { return d.dtype == head.dtype; });
  if (descr == kDescrs.end()) {
    throw Error(ErrorKind::internal, path + ": npy holds no " + std::string(spec(head.dtype).name) + " as such");
  }
  std::string dict = "{'descr': '" + std::string(descr->text) + "', 'fortran_order': False, 'shape': (";
  dict += join(head.shape, ", ", [](std::int64_t extent) { return std::to_string(extent); });
  dict += head.shape.size() == 1 ? ",), }" : "), }";
  constexpr std::size_t kPrefix = 10;
  constexpr std::size_t kAlign = 64;  // NumPy aligns the data so that it can be mapped
  dict.append(kAlign - (kPrefix + dict.size() + 1) % kAlign, ' ');
  dict += '\n';
  std::string start("\x93NUMPY\x01\x00", 8);
  start += static_cast<char>(dict.size() & 0xFF);
  start += static_cast<char>(dict.size() >> 8);
  file_.write(start + dict);
}

void NpyWriter::append(std::span<const std::byte> bytes) {
  if (bytes.size() > left_) {
    throw Error(ErrorKind::usage,
                path_ + ": is given " + std::to_string(bytes.size() - left_) + " bytes more than its shape holds");
  }
  file_.write(bytes);
  left_ -= bytes.size();
}

void NpyWriter::commit(const std::function<void()>& before_it_appears) {
  if (left_ != 0) throw Error(ErrorKind::usage, path_ + ": lacks " + std::to_string(left_) + " bytes of its shape");
  file_.commit(before_it_appears);
}

void write_npy(const std::string& path, const Tensor& tensor, const std::function<void()>& before_it_appears) {
  check_tensor(tensor, path);
  NpyWriter writer(path, {tensor.format, tensor.shape});
  writer.append(tensor.data);
  writer.commit(before_it_appears);
}

namespace {

class RegionRows final : public RowReader {
 public:
  RegionRows(std::unique_ptr<ByteSource> source, const TensorRegion& region)
      : source_(std::move(source)),
        head_(region.head),
        begin_(region.begin),
        position_(is_packed() ? region.bytes * 2 : region.bytes) {}
  [[nodiscard]] const TensorHead& head() const override { return head_; }
  void read(std::span<std::byte> to) override {
    const std::uint64_t at = position_.advance(to.size(), source_->name());
    if (!is_packed()) return source_->read(begin_ + at, to);
    std::array<std::byte, 4096> bytes{};
    for (std::size_t done = 0; done < to.size();) {
      const std::uint64_t from = at + done;
      const std::size_t odd = from % 2, count = std::min(2 * bytes.size() - odd, to.size() - done);
      const auto part = std::span(bytes).first((odd + count + 1) / 2);
      source_->read(begin_ + from / 2, part);
      for (std::size_t i = 0; i < count; ++i)
        to[done + i] = part[(odd + i) / 2] >> ((odd + i) % 2 == 0 ? 0 : 4) & std::byte{0xF};
      done += count;
    }
  }

 private:
  [[nodiscard]] bool is_packed() const { return head_.dtype == Format::e2m1; }

  std::unique_ptr<ByteSource> source_;
  TensorHead head_;
  std::uint64_t begin_;
  ReadPosition position_;
};

}  // namespace

std::uint64_t ReadPosition::advance(std::uint64_t count, const std::string& where) {
  if (count > left_) {
    throw Error(ErrorKind::usage,
                where + ": " + std::to_string(count) + " bytes are asked for, " + std::to_string(left_) + " are left");
  }
  left_ -= count;
  return std::exchange(at_, at_ + count);
}

Tensor load(const ByteSource& source, const TensorRegion& region) {
  Tensor tensor{region.name, region.head.dtype, region.head.shape, room_for(region.bytes, source.name())};
  source.read(region.begin, tensor.data);
  if (tensor.format != Format::e2m1) return tensor;
  const auto packed = values_in<std::uint8_t>(tensor.data);
  tensor.data = room_for(2 * region.bytes, source.name());
  const std::vector<std::uint8_t> codes = unpack_e2m1(packed, tensor.data.size());
  std::memcpy(tensor.data.data(), codes.data(), codes.size());
  return tensor;
}

std::unique_ptr<RowReader> open_region(std::unique_ptr<ByteSource> source, const TensorRegion& region) {
  return std::make_unique<RegionRows>(std::move(source), region);
}

Tensor read_whole(RowReader& rows, const std::string& where) {
  const TensorHead& head = rows.head();
  Tensor tensor{"", head.dtype, head.shape, room_for(checked_bytes(head.shape, size_of(head.dtype), where), where)};
  rows.read(tensor.data);
  return tensor;
}

namespace {

void check_range(const ByteSource& source, std::uint64_t offset, std::size_t count) {
  if (offset > source.size() || count > source.size() - offset) {
    refuse_input(source.name() + ": truncated: bytes " + std::to_string(offset) + " to " +
                 std::to_string(offset + count) + " are needed, the file has " + std::to_string(source.size()));
  }
}

}  // namespace

const char* kind_of_file(unsigned mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return "a regular file";
    case S_IFDIR: return "a directory";
    case S_IFIFO: return "a FIFO";
    case S_IFCHR: return "a character device";
    case S_IFBLK: return "a block device";
    case S_IFSOCK: return "a socket";
    default: return "no file of a known kind";
  }
}

std::string ByteSource::text() const {
  std::string text(size(), ' ');
  read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void SpanSource::read(std::uint64_t offset, std::span<std::byte> to) const {
  check_range(*this, offset, to.size());
  std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
}

FileSource::FileSource(const std::string& path) : ByteSource(path) {
  // O_NONBLOCK: opening a pipe must fail below, not wait for a writer.
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) refuse_input(path + ": cannot be opened: " + std::strerror(errno));
  struct stat status {};
  if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd_);
    refuse_input(path + ": not a regular file but " + kind_of_file(status.st_mode));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

FileSource::~FileSource() { ::close(fd_); }

void FileSource::read(std::uint64_t offset, std::span<std::byte> to) const {
  check_range(*this, offset, to.size());
  while (!to.empty()) {
    const ssize_t got = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse_input(name() + ": cannot be read: " + std::strerror(errno));
    if (got == 0) refuse_input(name() + ": truncated while it was being read");
    offset += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

bool checked_multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& product) {
  constexpr auto kLimit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (a != 0 && b > kLimit / a) return false;
  product = a * b;
  return product <= kLimit;
}

std::vector<std::byte> room_for(std::uint64_t bytes, const std::string& where) {
  try {
    return std::vector<std::byte>(bytes);
  } catch (const std::exception&) {  // std::bad_alloc, or std::length_error beyond the vector's own limit
    throw Error(ErrorKind::environment, where + ": out of memory: " + std::to_string(bytes) + " bytes are needed");
  }
}

std::uint64_t checked_bytes(std::span<const std::int64_t> shape, std::size_t element_bytes, const std::string& where) {
  std::uint64_t bytes = element_bytes;
  // Zeros first: a shape of 0 x huge is empty, whatever the order of its factors.
  for (const std::int64_t extent : shape) {
    if (extent == 0) bytes = 0;
  }
  for (const std::int64_t extent : shape) {
    if (extent < 0) refuse_input(where + ": a dimension is negative");
    if (!checked_multiply(bytes, static_cast<std::uint64_t>(extent), bytes)) {
      refuse_input(where + ": the shape's size overflows 63 bits");
    }
  }
  return bytes;
}

}  // namespace mxcheck
