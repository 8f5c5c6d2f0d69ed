#include "properties/records/record.h"

#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sstream>
#include <string_view>

#include "goldens/format/reader.h"
#include "goldens/format/writer.h"
#include "goldens/io/byte_source.h"
#include "goldens/io/sha256.h"
#include "kernels/candidate.h"
#include "numerics/error.h"
#include "properties/core/operation.h"

namespace mxcheck {
namespace {

constexpr const char* kDevicePrefix = "device.";
constexpr std::size_t kMostFileBytes = std::size_t{256} << 20;

using Words = std::vector<std::uint32_t>;

std::vector<std::byte> bytes_of(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

// The contents of a record: texts, words in rows, and attributes.
class Contents {
 public:
  void add_bytes(const std::string& name, std::vector<std::byte> bytes) {
    info_.datasets.push_back(
        {name, Role::output, "uint8", Format::uint8, {static_cast<std::int64_t>(bytes.size())}, {}});
    data_.push_back(std::move(bytes));
  }
  void add_words(const std::string& name, const Words& words, std::int64_t row) {
    info_.datasets.push_back(
        {name, Role::output, "uint32", Format::uint32, {static_cast<std::int64_t>(words.size()) / row, row}, {}});
    std::vector<std::byte> bytes(words.size() * 4);
    if (!bytes.empty()) std::memcpy(bytes.data(), words.data(), bytes.size());
    data_.push_back(std::move(bytes));
  }
  void attribute(const std::string& key, const std::string& value) { info_.attributes.emplace_back(key, value); }
  void write(const std::string& path) const {
    GoldenWriter writer(path, info_, {.compression = 6, .file_kind = "record"});
    for (std::size_t i = 0; i < data_.size(); ++i) {
      if (!data_[i].empty()) writer.append(i, data_[i]);
    }
    writer.commit();
  }

 private:
  GoldenInfo info_;
  std::vector<std::vector<std::byte>> data_;
};

std::string operations_text(const CandidateInfo& info) {
  std::ostringstream out;
  for (const OperationInfo& o : info.operations) {
    out << o.name << ' ' << o.max_rows << ' ' << o.max_cols << ' ' << o.rows_multiple << ' ' << o.cols_multiple << ' '
        << o.contract << '\n';
  }
  return out.str();
}

class RecordReader {
 public:
  explicit RecordReader(const std::string& path) : path_(path), reader_(path, own_entry(path), kMostFileBytes) {
    if (reader_.file_kind() != "record") fail("is a " + reader_.file_kind() + ", not a record");
  }

  [[noreturn]] void fail(const std::string& what) const { throw Error(ErrorKind::golden, path_ + ": " + what); }

  [[nodiscard]] std::string attribute(const std::string& key) const {
    const std::string value = mxcheck::attribute(reader_.info().attributes, key);
    if (value.empty()) fail("has no attribute '" + key + "'");
    return value;
  }
  [[nodiscard]] const Attributes& attributes() const { return reader_.info().attributes; }

  [[nodiscard]] std::vector<std::byte> bytes(const std::string& name) const {
    const Tensor t = reader_.read(name);
    if (t.format != Format::uint8 || t.shape.size() != 1) fail(name + " is no list of bytes");
    return t.data;
  }
  [[nodiscard]] std::vector<std::string> lines(const std::string& name) const {
    const std::vector<std::byte> data = bytes(name);
    std::istringstream text(std::string(reinterpret_cast<const char*>(data.data()), data.size()));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(std::move(line));
    return lines;
  }
  [[nodiscard]] Words words(const std::string& name, std::int64_t row) const {
    const Tensor t = reader_.read(name);
    if (t.format != Format::uint32 || t.shape.size() != 2 || t.shape[1] != row) {
      fail(name + " has no rows of " + std::to_string(row) + " words");
    }
    Words words(t.data.size() / 4);
    if (!words.empty()) std::memcpy(words.data(), t.data.data(), t.data.size());
    return words;
  }

 private:
  // A record has no manifest: what it is worth is found out by replaying it.
  static ManifestEntry own_entry(const std::string& path) {
    const FileSource source(path);
    if (source.size() > kMostFileBytes) throw Error(ErrorKind::golden, path + ": over 256 MiB, more than any record");
    std::vector<std::byte> bytes(source.size());
    source.read(0, bytes);
    return {sha256(bytes), source.size(), path};
  }

  std::string path_;
  GoldenReader reader_;
};

std::uint64_t number_of(const RecordReader& from, const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) from.fail("'" + text + "' is no number");
  return value;
}

std::vector<OperationInfo> operations_of(const RecordReader& from) {
  std::vector<OperationInfo> operations;
  for (const std::string& line : from.lines("operations")) {
    OperationInfo o;
    std::istringstream in(line);
    in >> o.name >> o.max_rows >> o.max_cols >> o.rows_multiple >> o.cols_multiple;
    if (!in || o.rows_multiple < 1 || o.cols_multiple < 1) from.fail("an operation that makes no sense: " + line);
    std::getline(in >> std::ws, o.contract);
    const bool twice =
        std::any_of(operations.begin(), operations.end(), [&](const auto& p) { return p.name == o.name; });
    if (twice) from.fail("operation " + o.name + " is a duplicate");
    operations.push_back(o);
  }
  return operations;
}

template <class Parse>
auto parsed(const RecordReader& from, const Parse& parse) {
  try {
    return parse();
  } catch (const Error& e) {
    from.fail(e.what());
  }
}

}  // namespace

OutputDigest digest_of(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {static_cast<std::uint32_t>(hash.high64 >> 32), static_cast<std::uint32_t>(hash.high64),
          static_cast<std::uint32_t>(hash.low64 >> 32), static_cast<std::uint32_t>(hash.low64)};
}

bool nans_are_equal(const std::string& operation) { return operation_named(operation).any_nan_is_equal(operation); }

void make_nans_equal(std::vector<std::byte>& values, const CallTensor& tensor) {
  if (!tensor.is_index && !tensor.is_offsets) make_nans_equal(values, tensor.dtype);
}

void write_record(const std::string& path, const Record& record) {
  Contents contents;
  contents.attribute("mxcheck", record.mxcheck);
  contents.attribute("suite", record.suite);
  contents.attribute("seed", std::to_string(record.seed));
  contents.attribute("candidate", record.candidate.name);
  contents.attribute("version", record.candidate.version);
  contents.attribute("digest", record.candidate.digest);
  for (const auto& [key, value] : record.candidate.device) {
    std::string name = kDevicePrefix + key;
    for (char& c : name) c = c == ' ' ? '_' : c;
    contents.attribute(name, value);
  }
  std::string statements;
  std::string variants;
  std::string cases;
  for (const std::string& s : record.statements) statements += s + "\n";
  for (const Variant& v : record.variants) variants += to_text(v) + "\n";
  Words of_case;
  Words calls;
  Words digests;
  for (const RecordedCase& c : record.cases) {
    cases += to_text(c.c) + "\n";
    of_case.insert(of_case.end(), {c.statement, static_cast<std::uint32_t>(c.calls.size())});
    for (const RecordedCall& call : c.calls) {
      calls.insert(calls.end(),
                   {static_cast<std::uint32_t>(call.status), static_cast<std::uint32_t>(call.outputs.size())});
      for (const OutputDigest& d : call.outputs) digests.insert(digests.end(), d.begin(), d.end());
    }
  }
  Words kept;
  std::vector<std::byte> kept_bytes;
  for (const KeptOutput& k : record.kept) {
    kept.insert(kept.end(), {k.number, static_cast<std::uint32_t>(k.bytes.size())});
    kept_bytes.insert(kept_bytes.end(), k.bytes.begin(), k.bytes.end());
  }
  contents.add_bytes("statements", bytes_of(statements));
  contents.add_bytes("variants", bytes_of(variants));
  contents.add_bytes("operations", bytes_of(operations_text(record.candidate)));
  contents.add_bytes("sources", bytes_of(record.candidate.sources));
  contents.add_bytes("cases", bytes_of(cases));
  contents.add_words("case_statement_calls", of_case, 2);
  contents.add_words("call_status_outputs", calls, 2);
  contents.add_words("digests", digests, 4);
  contents.add_words("kept_output_bytes", kept, 2);
  contents.add_bytes("kept", kept_bytes);
  contents.write(path);
}

namespace {

// Appends the cases with their calls; gives the number of their outputs.
std::size_t read_cases(const RecordReader& from, Record& record) {
  const std::vector<std::string> cases = from.lines("cases");
  const Words of_case = from.words("case_statement_calls", 2);
  const Words calls = from.words("call_status_outputs", 2);
  const Words digests = from.words("digests", 4);
  if (of_case.size() != 2 * cases.size()) from.fail("has not as many cases as rows of case_statement_calls");
  std::size_t call = 0;
  std::size_t output = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    RecordedCase c;
    c.statement = of_case[2 * i];
    if (c.statement >= record.statements.size()) from.fail("case " + std::to_string(i) + " is of no statement");
    c.c = parsed(from, [&] { return parse_case(cases[i]); });
    if (std::find(record.variants.begin(), record.variants.end(), c.c.variant) == record.variants.end()) {
      from.fail("case " + std::to_string(i) + " is of a variant that the candidate did not offer");
    }
    for (std::uint32_t n = 0; n < of_case[2 * i + 1]; ++n, ++call) {
      if (2 * call + 1 >= calls.size()) from.fail("has fewer calls than its cases");
      RecordedCall r;
      r.status = static_cast<int>(calls[2 * call]);
      for (std::uint32_t o = 0; o < calls[2 * call + 1]; ++o, ++output) {
        if (4 * output + 3 >= digests.size()) from.fail("has fewer digests than its calls have outputs");
        r.outputs.push_back(
            {digests[4 * output], digests[4 * output + 1], digests[4 * output + 2], digests[4 * output + 3]});
      }
      c.calls.push_back(std::move(r));
    }
    record.cases.push_back(std::move(c));
  }
  if (2 * call != calls.size() || 4 * output != digests.size())
    from.fail("has calls or digests that belong to no case");
  return output;
}

void read_kept_outputs(const RecordReader& from, std::size_t outputs, Record& record) {
  const Words kept = from.words("kept_output_bytes", 2);
  const std::vector<std::byte> bytes = from.bytes("kept");
  std::size_t at = 0;
  for (std::size_t i = 0; i < kept.size(); i += 2) {
    if (kept[i] >= outputs || kept[i + 1] > bytes.size() - at) from.fail("keeps an output that does not exist");
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    record.kept.push_back({kept[i], {begin, begin + kept[i + 1]}});
    at += kept[i + 1];
  }
}

}  // namespace

Record read_record(const std::string& path) {
  const RecordReader from(path);
  Record record;
  record.mxcheck = from.attribute("mxcheck");
  record.suite = from.attribute("suite");
  record.seed = number_of(from, from.attribute("seed"));
  record.candidate.name = from.attribute("candidate"), record.candidate.version = from.attribute("version");
  record.candidate.digest = from.attribute("digest");
  for (const auto& [key, value] : from.attributes()) {
    if (!key.starts_with(kDevicePrefix)) continue;
    record.candidate.cuda = true;
    record.candidate.device.emplace_back(key.substr(std::strlen(kDevicePrefix)), value);
  }
  record.candidate.operations = operations_of(from);
  for (const std::string& line : from.lines("sources")) record.candidate.sources += line + "\n";
  record.statements = from.lines("statements");
  for (const std::string& line : from.lines("variants")) {
    record.variants.push_back(parsed(from, [&] { return parse_variant(line); }));
    const std::string& name = record.variants.back().operation;
    const auto& all = record.candidate.operations;
    if (std::none_of(all.begin(), all.end(), [&](const OperationInfo& o) { return o.name == name; })) {
      from.fail("a variant of operation " + name + ", which is not listed");
    }
  }
  read_kept_outputs(from, read_cases(from, record), record);
  return record;
}

namespace {

constexpr std::size_t kMostOfStatement = 24;  // outputs that are kept whole
constexpr std::size_t kMostBytesOfOne = 2048;

}  // namespace

Outcome RecordingRunner::run(const Call& call) {
  Call with_outputs = call;
  with_outputs.brings_other_outputs_only = false;
  Outcome outcome = candidate_.run(with_outputs);
  RecordedCall recorded;
  recorded.status = outcome.status;
  if (outcome.kind == OutcomeKind::returned && outcome.status == MXCHECK_OK) {
    for (std::size_t i = 0; i < outcome.outputs.size(); ++i) {
      std::vector<std::byte> bytes = outcome.outputs[i];
      if (nans_are_equal(call.operation)) make_nans_equal(bytes, call.outputs[i]);
      std::size_t number = recorded.outputs.size();
      for (const RecordedCall& earlier : calls_) number += earlier.outputs.size();
      recorded.outputs.push_back(digest_of(bytes));
      if (!bytes.empty() && bytes.size() <= kMostBytesOfOne) small_.emplace_back(number, std::move(bytes));
    }
  }
  calls_.push_back(std::move(recorded));
  return outcome;
}

void RecordingRunner::keep_case(const std::string& statement, const Case& c) {
  if (record_.statements.empty() || record_.statements.back() != statement) {
    record_.statements.push_back(statement);
    kept_of_statement_ = 0;
  }
  record_.cases.push_back({static_cast<std::uint32_t>(record_.statements.size() - 1), c, calls_});
  for (auto& [at, bytes] : small_) {
    if (kept_of_statement_ == kMostOfStatement) break;
    ++kept_of_statement_;
    record_.kept.push_back({outputs_ + static_cast<std::uint32_t>(at), std::move(bytes)});
  }
  for (const RecordedCall& call : calls_) outputs_ += static_cast<std::uint32_t>(call.outputs.size());
  begin_case();
}

Record RecordingRunner::take() {
  record_.candidate = candidate_.info();
  return std::move(record_);
}

}  // namespace mxcheck
