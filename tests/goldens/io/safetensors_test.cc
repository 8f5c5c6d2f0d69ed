#include <sys/stat.h>
#include <sys/wait.h>

#include "goldens/data/embedded.h"
#include "goldens/io/byte_source.h"
#include "goldens/io/readers.h"
#include "goldens/io/routes_file.h"
#include "goldens/io/tensor_file.h"
#include "goldens/io/tensor_writers.h"
#include "numerics/bytes.h"
#include "tests/goldens/format/golden_samples.h"
#include "tests/goldens/hdf5/hdf5_writer.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

SafetensorsFile parsed_safetensors(const std::string& bytes) {
  return parse_safetensors(std::as_bytes(std::span(bytes)), "x.safetensors");
}

std::string with_header(const std::string& header, const std::string& data) {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return length + header + data;
}

Tensor tensor(const std::string& name, Format dtype, std::vector<std::int64_t> shape, const std::string& data) {
  const auto bytes = std::as_bytes(std::span(data));
  return {name, dtype, std::move(shape), {bytes.begin(), bytes.end()}};
}

SafetensorsFile sample() {
  return {{tensor("codes", Format::uint8, {3, 1}, "abc"), tensor("scales", Format::fp32, {1, 1}, "wxyz")},
          {{"format", "e4m3"}}};
}

// The sample as the reference writer writes it: widest elements first, header padded to 8 bytes with spaces.
std::string sample_bytes() {
  std::string header =
      R"({"__metadata__":{"format":"e4m3"},"scales":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},)"
      R"("codes":{"dtype":"U8","shape":[3,1],"data_offsets":[4,7]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  return with_header(header, "wxyzabc");
}

TEST(Safetensors, writes_these_very_bytes_whatever_order_the_tensors_came_in) {
  const TemporaryDirectory dir;
  SafetensorsFile file = sample();
  write_safetensors(dir / "a.safetensors", file);
  EXPECT_EQ(read_file(dir / "a.safetensors"), sample_bytes());
  std::reverse(file.tensors.begin(), file.tensors.end());
  write_safetensors(dir / "b.safetensors", file);
  EXPECT_EQ(read_file(dir / "b.safetensors"), sample_bytes());
}

TEST(Safetensors, codes_that_no_dtype_is_of_are_written_as_integers_alone) {
  const TemporaryDirectory dir;
  Tensor narrow = make_tensor(Format::e2m3, {2, 2}), codes = make_tensor(Format::e4m3, {2, 2});
  narrow.name = codes.name = "codes";
  expect_error(ErrorKind::internal, "tensors of e2m3 are not held in files as such", [&] {
    write_safetensors(dir / "x.safetensors", {{narrow}, {}});
  });
  expect_error(ErrorKind::internal, "npy holds no e4m3 as such", [&] { write_npy(dir / "x.npy", codes); });
}

TEST(Safetensors, reads_what_it_wrote) {
  const SafetensorsFile file = parsed_safetensors(sample_bytes());
  EXPECT_EQ(file.metadata, sample().metadata);
  ASSERT_EQ(file.tensors.size(), 2U);
  EXPECT_EQ(file.tensors[0].name, "scales");
  EXPECT_EQ(file.tensors[1].name, "codes");
  EXPECT_EQ(file.tensors[1].shape, (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(file.tensors[1].data, sample().tensors[0].data);
  EXPECT_EQ(file.tensors[0].data, sample().tensors[1].data);
}

TEST(Safetensors, round_trips_every_dtype_empty_and_scalar_tensors_and_awkward_names) {
  const TemporaryDirectory dir;
  SafetensorsFile file;
  std::vector<Format> dtypes(kFileFormats.begin(), kFileFormats.end());
  dtypes.insert(dtypes.end(), {Format::e4m3, Format::e5m2, Format::e8m0});  // F8_E4M3, F8_E5M2, F8_E8M0
  for (const Format dtype : dtypes) {
    file.tensors.push_back(tensor(std::string("three ") + safetensors_name(dtype), dtype, {3},
                                  std::string(3 * size_of(dtype), static_cast<char>('a' + file.tensors.size() / 3))));
    file.tensors.push_back(tensor(std::string("none \"\\\n:") + safetensors_name(dtype), dtype, {4, 0, 9}, ""));
    file.tensors.push_back(
        tensor(std::string("scalar \xC3\xA9 ") + safetensors_name(dtype), dtype, {}, std::string(size_of(dtype), 'q')));
  }
  write_safetensors(dir / "x.safetensors", file);
  const SafetensorsFile back = read_safetensors(dir / "x.safetensors");
  ASSERT_EQ(back.tensors.size(), file.tensors.size());
  for (const Tensor& t : file.tensors) {
    const auto found =
        std::find_if(back.tensors.begin(), back.tensors.end(), [&](const Tensor& b) { return b.name == t.name; });
    ASSERT_NE(found, back.tensors.end()) << t.name;
    EXPECT_EQ(found->format, t.format);
    EXPECT_EQ(found->shape, t.shape);
    EXPECT_EQ(found->data, t.data);
    EXPECT_EQ(read_tensor((dir / "x.safetensors") + ":" + t.name).data, t.data) << t.name;
  }
}

// 64 values are 32 bytes; the first is in the low nibble, as in PyTorch's float4_e2m1fn_x2.
TEST(Safetensors, holds_two_codes_of_e2m1_a_byte_and_shapes_that_count_codes) {
  const TemporaryDirectory dir;
  Tensor codes = make_tensor(Format::e2m1, {2, 32});
  codes.name = "c";
  for (std::size_t i = 0; i < 64; ++i) codes.data[i] = std::byte(i * 7 % 16);
  write_safetensors(dir / "x.safetensors", {{codes, tensor("b", Format::uint8, {3}, "xyz")}, {}});
  const std::string file = read_file(dir / "x.safetensors");
  EXPECT_NE(file.find(R"("c":{"dtype":"F4","shape":[2,32],"data_offsets":[3,35]})"), std::string::npos) << file;
  ASSERT_EQ(file.size() - file.find("xyz"), 35U);
  for (std::size_t i = 0; i < 32; ++i) {
    const auto byte = static_cast<unsigned char>(file[file.find("xyz") + 3 + i]);
    EXPECT_EQ(byte, 2 * i * 7 % 16 | (2 * i + 1) * 7 % 16 << 4) << i;
  }
  const Tensor back = read_tensor((dir / "x.safetensors") + ":c");
  EXPECT_EQ(back.format, Format::e2m1);
  EXPECT_EQ(back.shape, codes.shape);
  EXPECT_EQ(back.data, codes.data);
  const auto rows = open_rows((dir / "x.safetensors") + ":c");
  std::vector<std::byte> read(64);
  for (std::size_t at = 0, step = 1; at < 64; at += step, step = std::min<std::size_t>(step + 2, 64 - at))
    rows->read(std::span(read).subspan(at, step));
  EXPECT_EQ(read, codes.data);
  EXPECT_THROW(rows->read(std::span(read).first(1)), Error);
}

TEST(Safetensors, long_tensors_of_e2m1_are_written_and_read_in_pieces) {
  const TemporaryDirectory dir;
  std::vector<std::byte> codes(20'002);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = std::byte(i * i % 31 % 16);
  SafetensorsWriter writer(dir / "x.safetensors", {{"c", {Format::e2m1, {20'002}}}}, {});
  for (std::size_t at = 0, step = 1; at < codes.size(); at += step, step = std::min(step + 1, codes.size() - at))
    writer.append(0, std::span(codes).subspan(at, step));
  EXPECT_THROW(writer.append(0, std::span(codes).first(1)), Error);
  writer.commit();
  EXPECT_EQ(read_tensor(dir / "x.safetensors").data, codes);
  std::vector<std::byte> read(codes.size());
  const auto rows = open_rows(dir / "x.safetensors");
  rows->read(std::span(read).first(3));
  rows->read(std::span(read).subspan(3));
  EXPECT_EQ(read, codes);
}

TEST(Safetensors, e2m1_of_an_odd_number_of_codes_or_other_bytes_is_refused) {
  const TemporaryDirectory dir;
  const auto read = [&](const std::string& shape, const std::string& data) {
    const std::string header =
        R"({"c":{"dtype":"F4","shape":)" + shape + R"(,"data_offsets":[0,)" + std::to_string(data.size()) + "]}}";
    return parsed_safetensors(with_header(header, data)).tensors.front();
  };
  EXPECT_EQ(read("[2,1]", "\x2F").data, (std::vector{std::byte{0xF}, std::byte{2}}));
  EXPECT_EQ(read("[0,3]", "").data.size(), 0U);
  for (const char* shape : {"[1]", "[3]", "[3,5]", "[]"})
    expect_error(ErrorKind::input, "has an odd number of elements of F4", [&] { read(shape, "ab"); });
  for (const char* shape : {"[2]", "[6]", "[0]", "[2,4]"})
    expect_error(ErrorKind::input, "data_offsets that its shape and dtype do not call for", [&] { read(shape, "ab"); });
  expect_error(ErrorKind::input, "", [&] { read("[4294967296,4294967296,2]", "ab"); });
  Tensor odd = make_tensor(Format::e2m1, {3});
  odd.name = "c";
  expect_error(ErrorKind::usage, "two codes a byte, and the shape an odd number", [&] {
    write_safetensors(dir / "x.safetensors", {{odd}, {}});
  });
  Tensor wide = make_tensor(Format::e2m1, {2});
  wide.name = "c", wide.data[1] = std::byte{16};
  expect_error(ErrorKind::input, "", [&] { write_safetensors(dir / "x.safetensors", {{wide}, {}}); });
  SafetensorsWriter half(dir / "x.safetensors", {{"c", {Format::e2m1, {2}}}}, {});
  half.append(0, std::vector{std::byte{1}});
  EXPECT_THROW(half.commit(), Error);
}

TEST(Safetensors, refuses_every_shorter_and_longer_file) {
  const std::string whole = sample_bytes();
  for (std::size_t n = 0; n < whole.size(); ++n)
    expect_error(ErrorKind::input, "x.safetensors: ", [&] { parsed_safetensors(whole.substr(0, n)); });
  expect_error(ErrorKind::input, "1 bytes after the last tensor", [&] { parsed_safetensors(whole + "x"); });
}

TEST(Safetensors, survives_every_change_of_one_byte) {
  expect_bytes_or_refused(sample_bytes(), 7, 50, [](const std::string& file) {
    std::size_t bytes = 0;
    for (const Tensor& t : parsed_safetensors(file).tensors) bytes += t.data.size();
    return bytes;
  });
}

TEST(Safetensors, says_what_is_wrong) {
  const auto one = [](const std::string& entry) { return with_header("{\"t\":" + entry + "}", "abcd"); };
  const auto two = [](const std::string& a, const std::string& b) {
    return with_header(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[)" + a +
                           R"(]},"b":{"dtype":"U8","shape":[2],"data_offsets":[)" + b + "]}}",
                       "abcd");
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "at least 8 bytes"},
      {std::string(8, '\xFF'), "over 100 MB"},
      {with_header("{}", "").substr(0, 9), "header is cut short"},
      {with_header(" {}", ""), "must begin with '{'"},
      {with_header("", ""), "must begin with '{'"},
      {with_header("{\"t\":", ""), "not valid JSON"},
      {with_header("{} {}", ""), "not valid JSON"},
      {with_header("{\"\xFF\":1}", ""), "not valid JSON"},
      {with_header("{}", "abcd"), "4 bytes after the last tensor"},
      {one("[1]"), "nothing else"},
      {one(R"({"dtype":"U8","shape":[4]})"), "nothing else"},
      {one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4],"more":1})"), "nothing else"},
      {one(R"({"dtype":8,"shape":[4],"data_offsets":[0,4]})"), "dtype must be a string"},
      {one(R"({"dtype":"U8","shape":[-4],"data_offsets":[0,4]})"), "shape must be"},
      {one(R"({"dtype":"U8","shape":[4.0],"data_offsets":[0,4]})"), "shape must be"},
      {one(R"({"dtype":"U8","shape":4,"data_offsets":[0,4]})"), "shape must be"},
      {one(R"({"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,4]})"), "shape must be"},
      {one(R"({"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,4],"data_offsets":[0,4]})"),
       "at most 32"},
      {one(R"({"dtype":"U8","shape":[4],"data_offsets":[0]})"), "two positions"},
      {one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,-4]})"), "two positions"},
      {one(R"({"dtype":"U8","shape":[4],"data_offsets":[4,0]})"), "ends before it begins"},
      {one(R"({"dtype":"U8","shape":[5],"data_offsets":[0,5]})"), "truncated?"},
      {one(R"({"dtype":"U8","shape":[3],"data_offsets":[0,4]})"), "do not call for"},
      {one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})"), "overflows"},
      {one(R"({"dtype":"F6_E2M3","shape":[8],"data_offsets":[0,4]})"), "dtype F6_E2M3, which is not read"},
      {two("0,2", "1,3"), "overlaps"},
      {two("0,2", "0,2"), "overlaps"},
      {two("0,2", "3,5"), "hole"},
      {two("1,3", "3,5"), "hole"},
      {with_header(R"({"__metadata__":{"a":1}})", ""), "must be a string"},
      {with_header(R"({"__metadata__":[]})", ""), "object of strings"},
      {with_header(R"({"a":1,"a":2})", ""), "names 'a' twice"},
      {with_header(R"({"__metadata__":{"a":"1","a":"2"}})", ""), "names 'a' twice"},
      {with_header("{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}", ""), "nested too deeply"},
  };
  for (const auto& [bytes, text] : cases)
    expect_error(ErrorKind::input, text, [&, &b = bytes] { parsed_safetensors(b); });
}

TEST(Safetensors, reads_one_tensor_beside_others_of_types_it_does_not_know) {
  const TemporaryDirectory dir;
  write_file(
      dir / "m.safetensors",
      with_header(
          R"({"a":{"dtype":"F8_E4M3FNUZ","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
          "abcd"));
  EXPECT_EQ(read_tensor((dir / "m.safetensors") + ":b").data[0], std::byte{'c'});
  expect_error(ErrorKind::input, "F8_E4M3FNUZ", [&] { read_tensor((dir / "m.safetensors") + ":a"); });
  expect_error(ErrorKind::input, "which tensor?", [&] { read_tensor(dir / "m.safetensors"); });
  expect_error(ErrorKind::input, "has no tensor 'c'; it has a, b",
               [&] { read_tensor((dir / "m.safetensors") + ":c"); });
}

TEST(Safetensors, refuses_to_write_names_that_no_reader_could_tell_apart) {
  const TemporaryDirectory dir;
  const Tensor t = tensor("t", Format::uint8, {1}, "a");
  Tensor reserved = t;
  reserved.name = "__metadata__";
  Tensor not_text = t;
  not_text.name = "\xFF";
  const std::string path = dir / "x.safetensors";
  expect_error(ErrorKind::usage, "given twice", [&] { write_safetensors(path, {{t, t}, {}}); });
  expect_error(ErrorKind::usage, "reserved", [&] { write_safetensors(path, {{reserved}, {}}); });
  expect_error(ErrorKind::usage, "UTF-8", [&] { write_safetensors(path, {{not_text}, {}}); });
  EXPECT_TRUE(dir.names().empty());
}

TEST(RoutesFile, holds_the_rows_alone_and_every_number_they_depend_on) {
  const TemporaryDirectory dir;
  const Tensor& t = real_tensor("layer0.router_logits");
  const MatrixView logits{Format::bf16, t.data.data(), t.shape[0], t.shape[1], t.shape[1]};
  RoutesFile file;
  file.router.variant = &router_variant_named("sigmoid");
  file.router.top_k = 4;
  file.source = Format::bf16;
  file.token_rounding.tile = 128;
  for (const TokenRoundingRule rule : {TokenRoundingRule::none, TokenRoundingRule::up}) {
    file.token_rounding.rule = rule;
    file.routes = route(file.router, logits, 1);
    file.rounded = round_tokens(file.router, file.token_rounding, logits, 1);
    if (rule == TokenRoundingRule::none) file.metadata = route_metadata(file.routes.experts, 4, {}, logits.cols, 1);
    write_routes(dir / "r.safetensors", file);
    const SafetensorsFile written = read_safetensors(dir / "r.safetensors");
    EXPECT_EQ(written.tensors.size(), rule == TokenRoundingRule::none ? 10U : 6U);
    EXPECT_EQ(written.metadata.at("mxcheck_file"), "routes");
    EXPECT_EQ(written.metadata.at("rule"), to_text(rule));
    EXPECT_EQ(written.metadata.at("variant"), "sigmoid");
    EXPECT_EQ(written.metadata.at("row_weights"), rule == TokenRoundingRule::none ? "variant" : "renorm");
    const Tensor tokens = read_tensor(dir / "r.safetensors:row_token");
    EXPECT_EQ(tokens.shape, (std::vector<std::int64_t>{file.rounded.offsets.back()}));
    const auto rows = std::span(file.rounded.row_token).first(static_cast<std::size_t>(tokens.shape[0]));
    EXPECT_EQ(tokens.data, to_bytes(std::span<const std::int32_t>(rows)));
    write_routes(dir / "r.h5", file);
    EXPECT_EQ(read_tensor(dir / "r.h5:/row_token").data, tokens.data);
    EXPECT_EQ(read_tensor(dir / "r.h5:/row_weight").format, Format::fp32);
    EXPECT_EQ(read_tensor(dir / "r.h5:/offsets").data, to_bytes(file.rounded.offsets));
  }
}

const Tensor kNarrow{"narrow", Format::uint8, {2, 3}, to_bytes(std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6})};
const Tensor kWide{"wide", Format::fp32, {2}, to_bytes(std::vector<float>{1, 2})};
const std::map<std::string, std::string> kMetadata{{"kind", "pieces"}};

TEST(SafetensorsWriter, writes_pieces_in_any_order_as_the_whole_is_written) {
  const TemporaryDirectory dir;
  write_safetensors(dir / "whole.safetensors", {{kNarrow, kWide}, kMetadata});
  SafetensorsWriter writer(dir / "pieces.safetensors",
                           {{"narrow", {Format::uint8, {2, 3}}}, {"wide", {Format::fp32, {2}}}}, kMetadata);
  const std::span narrow(kNarrow.data);
  const std::span wide(kWide.data);
  writer.append(0, narrow.first(1));  // which lies behind the wider tensor
  writer.append(1, wide.first(5));
  writer.append(0, narrow.subspan(1));
  writer.append(0, {});
  writer.append(1, wide.subspan(5));
  EXPECT_EQ(dir.names(), (std::vector<std::string>{"whole.safetensors"})) << "nothing appears before commit";
  writer.commit();
  EXPECT_EQ(read_file(dir / "pieces.safetensors"), read_file(dir / "whole.safetensors"));
}

TEST(SafetensorsWriter, refuses_more_and_fewer_bytes_than_declared_and_names_that_cannot_be_written) {
  const TemporaryDirectory dir;
  const std::string path = dir / "x.safetensors";
  const std::vector<NamedHead> narrow{{"narrow", {Format::uint8, {2, 3}}}};
  {
    SafetensorsWriter writer(path, narrow, {});
    expect_error(ErrorKind::usage, "'narrow' lacks 6 bytes", [&] { writer.commit(); });
    writer.append(0, std::span(kNarrow.data).first(4));
    expect_error(ErrorKind::usage, "2 bytes more than its shape holds",
                 [&] { writer.append(0, std::span(kNarrow.data).first(4)); });
  }
  expect_error(ErrorKind::usage, "given twice", [&] { SafetensorsWriter(path, {narrow[0], narrow[0]}, {}); });
  expect_error(ErrorKind::usage, "UTF-8", [&] { SafetensorsWriter(path, {{"\xFF", {Format::uint8, {1}}}}, {}); });
  EXPECT_TRUE(dir.names().empty());
}

TEST(ReadTensor, finds_the_file_in_names_with_colons_and_extensions) {
  const TemporaryDirectory dir;
  const Tensor t{"x.npy:y", Format::uint8, {1}, {std::byte{7}}};
  std::filesystem::create_directory(dir / "a.safetensors:b");
  for (const std::string path : {"x.npy", "a:b.npy", "a.npy.npy", "a.safetensors:b/c.npy"}) {
    write_npy(dir / path, t);
    EXPECT_EQ(read_tensor(dir / path).data, t.data) << path;
  }
  write_safetensors(dir / "x:y.safetensors", {{t}, {}});
  EXPECT_EQ(read_tensor(dir / "x:y.safetensors").data, t.data);
  EXPECT_EQ(read_tensor((dir / "x:y.safetensors") + ":x.npy:y").data, t.data);
}

TEST(ReadTensor, says_what_it_can_read) {
  const TemporaryDirectory dir;
  write_file(dir / "x.h5", "");
  std::filesystem::create_directory(dir / "d.npy");
  ASSERT_EQ(::mkfifo((dir / "pipe.npy").c_str(), 0600), 0);
  const std::vector<std::pair<std::string, std::string>> cases{
      {"x.bin", "not a known kind of file"},
      {"", "not a known kind of file"},
      {"missing.npy", "cannot be opened"},
      {"missing.safetensors:t", "cannot be opened"},
      {"missing.h5:/t", "cannot be opened"},
      {"x.h5", "which dataset?"},
      {"d.npy", "not a regular file but a directory"},
      {"pipe.npy", "not a regular file"},
  };
  for (const auto& [name, text] : cases) expect_error(ErrorKind::input, text, [&, &n = name] { read_tensor(dir / n); });
  expect_error(ErrorKind::input, "FILE.npy, FILE.safetensors:TENSOR or FILE.h5:/DATASET", [] { read_tensor("x"); });
}

// HDF5 read by a child process: what reaches the parent. tests/goldens/hdf5/dataset_test.cc damages files byte by byte.

TEST(ChildReader, gives_head_and_bytes_in_pieces_and_ends) {
  const TemporaryDirectory dir;
  std::vector<std::byte> bytes;
  write_hdf5(dir / "f.h5", [&](hid_t file) {
    bytes = add_dataset(file, "/x", H5T_STD_U32LE, {{700, 1001}, {}, {}});  // several messages of 1 MiB
  });
  const auto rows = open_hdf5(dir / "f.h5", "/x");
  EXPECT_EQ(rows->head().dtype, Format::uint32);
  EXPECT_EQ(rows->head().shape, (std::vector<std::int64_t>{700, 1001}));
  std::vector<std::byte> got(bytes.size());
  for (std::size_t at = 0; at < got.size(); at += 300'001)
    rows->read(std::span(got).subspan(at, std::min<std::size_t>(300'001, got.size() - at)));
  EXPECT_EQ(got, bytes);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "the child is not waited for";
  std::byte more{};
  expect_error(ErrorKind::usage, "1 bytes are asked for, 0 are left", [&] { rows->read(std::span(&more, 1)); });
}

TEST(ChildReader, passes_the_refusal_on_as_it_is_without_the_child) {
  const TemporaryDirectory dir;
  write_hdf5(dir / "f.h5", [](hid_t file) { add_dataset(file, "/x", H5T_STD_U64LE); });
  write_file(dir / "noise.h5", "no HDF5");
  for (const auto& [file, dataset] : {std::pair{"f.h5", "/x"}, {"f.h5", "/y"}, {"f.h5", "x"}, {"noise.h5", "/x"}}) {
    std::string without;
    try {
      open_hdf5_in_this_process(dir / file, dataset);
    } catch (const Error& e) {
      without = e.what();
    }
    ASSERT_NE(without, "");
    expect_error(ErrorKind::input, without, [&, &f = file, &d = dataset] { open_hdf5(dir / f, d); });
  }
  expect_error(ErrorKind::input, "cannot be opened", [&] { open_hdf5(dir / "none.h5", "/x"); });
}

}  // namespace
}  // namespace mxcheck
