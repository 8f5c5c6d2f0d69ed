#include "kernels/parallel/nccl.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kernels/parallel/ranks.h"

namespace mxcheck_kernels::parallel {
namespace {

std::string refusal_of(const std::string& path) {
  try {
    const NcclLibrary library(path);
  } catch (const ParallelError& e) {
    EXPECT_EQ(e.fault(), Fault::environment);
    return e.what();
  }
  return "nothing thrown";
}

TEST(Nccl, a_library_of_another_name_is_loaded) {
  const NcclLibrary library(MXCHECK_FAKE_NCCL);
  EXPECT_EQ(library.version(), 22703);
  EXPECT_EQ(library.version_text(), "2.27.3");
}

TEST(Nccl, a_machine_without_it_is_told_where_it_is_found) {
  const std::string text = refusal_of("/nowhere/libnccl.so.2");
  EXPECT_NE(text.find("NCCL cannot be loaded: /nowhere/libnccl.so.2"), std::string::npos) << text;
  EXPECT_NE(text.find("--nccl or MXCHECK_NCCL"), std::string::npos) << text;
}

TEST(Nccl, an_older_version_is_refused_by_its_number) {
  setenv("FAKE_NCCL_VERSION", "22605", 1);
  EXPECT_EQ(refusal_of(MXCHECK_FAKE_NCCL), MXCHECK_FAKE_NCCL " is NCCL 2.26.5: 2.27 or later is needed");
  unsetenv("FAKE_NCCL_VERSION");
}

TEST(Nccl, another_library_is_refused_by_the_function_that_it_lacks) {
  EXPECT_EQ(refusal_of("libm.so.6"), "libm.so.6 has no ncclGetVersion: NCCL 2.27 or later is needed");
}

}  // namespace
}  // namespace mxcheck_kernels::parallel
