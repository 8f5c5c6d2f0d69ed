// Goldens next to plain HDF5: the same bytes read and written by the library alone, contiguous, without checksums,
// hashes, reading back or quantizing. Both sync what they write.

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <hdf5.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/host/benchmarks.h"
#include "goldens/format/reader.h"
#include "goldens/io/row_reader.h"
#include "goldens/io/tensor_file.h"
#include "properties/goldens/suite.h"

namespace mxcheck::bench {
namespace {

constexpr std::int64_t kRows = 4096;
constexpr std::int64_t kCols = 16384;
constexpr std::int64_t kElements = kRows * kCols;
constexpr std::int64_t kScales = kElements / 32;

// A folder of files that are made once and removed at the end.
struct Files {
  Files() {
    std::string pattern = (std::filesystem::temp_directory_path() / "mxcheck-bench-XXXXXX").string();
    folder = ::mkdtemp(pattern.data());
    Tensor x{"x", Format::bf16, {kRows, kCols}, std::vector<std::byte>(kElements * 2)};
    for (std::size_t i = 0; i < x.data.size(); ++i)
      x.data[i] = static_cast<std::byte>(i % 2 == 0 ? i * 40503 >> 8 : 0x3C);
    write_npy(folder / "x.npy", x);
    make_suite(suite(), folder.string(), options());
    write_candidate(folder / "candidate.h5");
  }
  ~Files() { std::filesystem::remove_all(folder); }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  static GoldenSuite suite() {
    return parse_suite(R"({"suite": "s", "goldens": [{"name": "golden", "kind": "quantize", "input": {"file": "x.npy"},
                           "format": "e4m3", "block": "1x32", "recipe": "rceil"}]})",
                       "benchmark");
  }
  [[nodiscard]] MakeOptions options() const {
    MakeOptions o;
    o.input_directory = folder.string();
    return o;
  }

  void write_candidate(const std::string& path) const {
    const Tensor x = read_tensor(folder / "x.npy");
    const GoldenReader golden(folder / "golden.h5");
    plain_write(path, x.data, golden.read("codes").data, golden.read("scales").data);
  }
  static void plain_write(const std::string& path, const std::vector<std::byte>& x, const std::vector<std::byte>& codes,
                          const std::vector<std::byte>& scales) {
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const auto write = [&](const char* name, hid_t type, hsize_t cols, const std::vector<std::byte>& data) {
      const hsize_t shape[] = {kRows, cols};
      const hid_t space = H5Screate_simple(2, shape, nullptr);
      const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
      H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data());
      H5Dclose(set), H5Sclose(space);
    };
    write("x", H5T_STD_U16LE, kCols, x);
    write("codes", H5T_STD_U8LE, kCols, codes);
    write("scales", H5T_STD_U8LE, kCols / 32, scales);
    H5Fclose(file);
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    ::fsync(fd);
    ::close(fd);
  }
  static void plain_read(const std::string& path, const char* name, hid_t type, std::vector<std::byte>& into) {
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
    H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, into.data());
    H5Dclose(set), H5Fclose(file);
  }

  std::filesystem::path folder;
};

void plain_make(benchmark::State& state, const Files& files) {
  std::vector<std::byte> x(kElements * 2), codes(kElements), scales(kScales);
  for (auto _ : state) {
    Files::plain_read(files.folder / "candidate.h5", "x", H5T_STD_U16LE, x);
    Files::plain_write(files.folder / "plain.h5", x, codes, scales);
  }
  state.SetBytesProcessed(state.iterations() * (kElements * 5 + kScales));
}

void golden_make(benchmark::State& state, const Files& files) {
  const GoldenSuite suite = Files::suite();
  const MakeOptions options = files.options();
  for (auto _ : state) make_suite(suite, files.folder / "made", options);
  state.SetBytesProcessed(state.iterations() * (kElements * 5 + kScales));
}

// All of the golden, whose hash covers it, and the candidate's codes and scales.
constexpr std::int64_t kVerified = kElements * 4 + 2 * kScales;

void plain_verify(benchmark::State& state, const Files& files) {
  std::vector<std::byte> x(kElements * 2), codes(kElements), scales(kScales);
  for (auto _ : state) {
    Files::plain_read(files.folder / "candidate.h5", "x", H5T_STD_U16LE, x);
    for (int both = 0; both < 2; ++both) {
      Files::plain_read(files.folder / "candidate.h5", "codes", H5T_STD_U8LE, codes);
      Files::plain_read(files.folder / "candidate.h5", "scales", H5T_STD_U8LE, scales);
    }
  }
  state.SetBytesProcessed(state.iterations() * kVerified);
}

void golden_verify(benchmark::State& state, const Files& files, const std::string& tool) {
  const std::string command = tool + " golden verify " + (files.folder / "candidate.h5").string() + " --against " +
                              (files.folder / "golden.h5").string() + " > /dev/null";
  for (auto _ : state) {
    if (std::system(command.c_str()) != 0) state.SkipWithError("golden verify found a difference");
  }
  state.SetBytesProcessed(state.iterations() * kVerified);
}

}  // namespace

void register_golden_benchmarks(const std::string& tool) {
  const auto files = std::make_shared<std::unique_ptr<Files>>();
  const auto add = [&](const char* name, auto run) {
    benchmark::RegisterBenchmark(name,
                                 [=](benchmark::State& state) {
                                   if (!*files) *files = std::make_unique<Files>();  // only if anybody asks
                                   run(state, **files);
                                 })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  };
  add("plain_hdf5_make", plain_make);
  add("golden_make", golden_make);
  add("plain_hdf5_verify", plain_verify);
  add("golden_verify", [tool](benchmark::State& state, const Files& f) { golden_verify(state, f, tool); });
}

}  // namespace mxcheck::bench
