// The bytes are the records of a journal, whose checksums are right. Byte 0 says whether a header that is right comes
// first. Then each record has its
// type (1 byte), the length of its payload (2 bytes, little-endian) and the payload; after a type of 255 come bytes as
// they are in the file. What the reader takes is appended to a new journal, which has the same bytes; its run agrees
// with itself, is written and reads back equal; cut short it is a shorter one, or none.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "fuzz/check.h"
#include "fuzz/hdf5_builder.h"
#include "goldens/format/schema.h"
#include "goldens/io/byte_source.h"
#include "tests/trainer/record/run_samples.h"
#include "trainer/record/journal.h"
#include "trainer/record/run_file.h"

namespace mxcheck::fuzz {
namespace {

using Bytes = std::span<const std::byte>;
constexpr std::string_view kStart = "mxcheck parity journal 1\n";
constexpr std::uint8_t kRaw = 255;
constexpr std::uint8_t kNoHeader = 1;  // bit of byte 0

std::uint8_t take_byte(Bytes& left) {
  if (left.empty()) return 0;
  const auto byte = std::to_integer<std::uint8_t>(left[0]);
  left = left.subspan(1);
  return byte;
}

std::vector<std::byte> journal_of(Bytes left) {
  std::vector<std::byte> file;
  const auto append = [&](Bytes bytes) { file.insert(file.end(), bytes.begin(), bytes.end()); };
  append(std::as_bytes(std::span(kStart)));
  if ((take_byte(left) & kNoHeader) == 0) append(frame_of(0, header_payload(test::sample_head())));
  while (!left.empty()) {
    const std::uint8_t type = take_byte(left);
    if (type == kRaw) {
      append(left);
      break;
    }
    const std::size_t low = take_byte(left);
    const std::size_t high = take_byte(left);
    const Bytes payload = left.first(std::min(left.size(), low | high << 8));
    append(frame_of(type, payload));
    left = left.subspan(payload.size());
  }
  return file;
}

void put(const std::string& path, Bytes bytes) {
  std::ofstream to(path, std::ios::binary | std::ios::trunc);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  to << text;
  require(to.flush().good(), "there is room for a journal");
}

std::vector<std::byte> bytes_at(const std::string& path) {
  const FileSource source(path);
  std::vector<std::byte> bytes(source.size());
  source.read(0, bytes);
  return bytes;
}

// The entries of a journal that was taken are written to a new one, and must give the same run and bytes.
void write_again(const std::vector<Frame>& frames, const RunRecord& run) {
  const std::string path = scratch() + "/again.journal";
  std::filesystem::remove(path);
  std::vector<std::byte> wanted;
  {
    Journal again = Journal::create(path, run);
    for (const Frame& frame : std::span(frames).subspan(1)) {
      const JournalEntry entry = entry_of(frame.type, frame.payload, "fuzz");
      require(type_of(entry) == frame.type, "an entry's type is its record's");
      again.append(entry);
      const auto bytes = frame_of(frame.type, frame.payload);
      wanted.insert(wanted.end(), bytes.begin(), bytes.end());
    }
    require(again.record() == run, "the same entries give the same run");
  }
  const std::vector<std::byte> written = bytes_at(path);
  require(written.size() >= wanted.size() && std::equal(wanted.rbegin(), wanted.rend(), written.rbegin()),
          "entries are written as they were read");
}

void cut_short(const std::string& path, Bytes whole) {
  put(path, whole.first(whole.size() - 1));
  JournalContents less;
  if (!accepted(ErrorKind::input, [&] { less = read_journal(path); })) return;
  require(less.whole_bytes < whole.size() && less.torn_bytes == whole.size() - 1 - less.whole_bytes, "a tail is torn");
  require(Journal::resume(path).record() == less.record && bytes_at(path).size() == less.whole_bytes,
          "a torn tail is dropped");
}

void write_run_of(const RunRecord& run) {
  require(objection(run).empty(), "the run agrees with itself");
  const UnverifiedGolden written = contents_of(run);
  require(objection(written.info, written.kind).empty(), "a file can hold the run");
  require(run_in(SealedReader("fuzz", kRunKind, written)) == run, "the run reads back equal");
}

void read(const std::vector<std::byte>& bytes) {
  const std::string path = scratch() + "/x.journal";
  put(path, bytes);
  JournalContents contents;
  if (!accepted(ErrorKind::input, [&] { contents = read_journal(path); })) return;
  require(contents.whole_bytes + contents.torn_bytes == bytes.size(), "every byte is whole or torn");
  write_again(frames_in(bytes, kStart.size(), "fuzz").frames, contents.record);
  require(Journal::resume(path).record() == contents.record, "a journal is resumed as it is read");
  cut_short(path, std::span(bytes).first(contents.whole_bytes));
  write_run_of(contents.record);
}

}  // namespace
}  // namespace mxcheck::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mxcheck::fuzz;
  read(journal_of(bytes_of(data, size)));
  return 0;
}
