// Writes a run of training that nobody trained, for the tests of what reads one from Python: sample_run RUN.h5

#include <exception>
#include <iostream>

#include "tests/trainer/record/run_samples.h"
#include "trainer/record/run_file.h"

int main(int count, char** arguments) {
  try {
    if (count == 2) mxcheck::write_run(arguments[1], mxcheck::test::sample_run());
    return count == 2 ? 0 : 2;
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
