#pragma once
// Runs the built tool as a user would, through a shell, and collects its output.

#include <sys/wait.h>
#include <cstdlib>
#include <initializer_list>

#include "goldens/data/embedded.h"
#include "goldens/io/tensor_file.h"
#include "tests/testing.h"

namespace mxcheck::test {

struct Answer {
  int code = -1;  // exit status, or 1000 + signal
  std::string out;
  std::string err;
};

// Every test has a directory of its own, in which the commands run.
class ToolTest : public testing::Test {
 protected:
  TemporaryDirectory dir;

  // `arguments` go to the shell as they are; `before` may set limits ("ulimit -f 8; ").
  Answer mxcheck(const std::string& arguments, const std::string& before = "") {
    const TemporaryDirectory streams;  // not in dir: tests check what is left there
    const std::string command = "cd " + dir.path() + " && ( " + before + "exec '" MXCHECK_TOOL "' " + arguments +
                                " ) > " + (streams / "out") + " 2> " + (streams / "err");
    const int status = std::system(command.c_str());
    Answer answer;
    answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    answer.out = read_file(streams / "out");
    answer.err = read_file(streams / "err");
    return answer;
  }

  // Ends with this code, and standard output holds these texts.
  Answer expect_output(const std::string& arguments, int code, std::initializer_list<std::string_view> parts = {},
                       const std::string& before = "") {
    const Answer answer = mxcheck(arguments, before);
    EXPECT_EQ(answer.code, code) << arguments << "\n" << answer.out << answer.err;
    expect_contains(answer.out, parts);
    return answer;
  }

  // x in BF16, 160 MiB of zeros, which need no disk.
  void write_large_zeros(const std::string& file) const {
    constexpr std::uint64_t kBytes = std::uint64_t{10240} * 8192 * 2;
    std::string start =
        R"({"x":{"dtype":"BF16","shape":[10240,8192],"data_offsets":[0,)" + std::to_string(kBytes) + "]}}";
    start = std::string(1, static_cast<char>(start.size())) + std::string(7, '\0') + start;
    write_file(dir / file, start);
    std::filesystem::resize_file(dir / file, start.size() + kBytes);
  }

  // Refused with this code, with one line that holds the text, with nothing on standard output and no new file.
  void expect_refused(int code, const std::string& text, const std::string& arguments, const std::string& before = "") {
    std::vector<std::string> files = dir.names();
    const Answer a = mxcheck(arguments, before);
    EXPECT_EQ(a.code, code) << arguments << "\n" << a.err;
    EXPECT_EQ(a.err.rfind("mxcheck: error: ", 0), 0U) << arguments << "\n" << a.err;
    EXPECT_EQ(std::count(a.err.begin(), a.err.end(), '\n'), 1) << arguments << "\n" << a.err;
    EXPECT_NE(a.err.find(text), std::string::npos) << arguments << "\n" << a.err << "expected: " << text;
    EXPECT_EQ(a.out, "") << arguments;
    std::vector<std::string> files_after = dir.names();
    std::sort(files.begin(), files.end());
    std::sort(files_after.begin(), files_after.end());
    EXPECT_EQ(files_after, files) << arguments;
  }
};

// The size of a matrix that the tool takes in several panels.
inline constexpr std::int64_t kPanelsRows = 2210;  // of 16 KiB (BF16): three panels; no multiple of any block's rows
inline constexpr std::int64_t kPanelsCols = 8200;

template <class T>
Tensor make_tensor(const std::string& name, Format dtype, std::vector<std::int64_t> shape,
                   const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {name, dtype, std::move(shape), {bytes.begin(), bytes.end()}};
}

inline const Tensor& tensor_of(const SafetensorsFile& file, const std::string& name) {
  const auto found =
      std::find_if(file.tensors.begin(), file.tensors.end(), [&](const Tensor& t) { return t.name == name; });
  if (found == file.tensors.end()) throw Error(ErrorKind::internal, "no tensor " + name);
  return *found;
}

template <class T>
std::vector<T> values_of(const Tensor& tensor) {
  std::vector<T> values(tensor.data.size() / sizeof(T));
  std::copy(tensor.data.begin(), tensor.data.end(), std::as_writable_bytes(std::span(values)).begin());
  return values;
}

}  // namespace mxcheck::test
