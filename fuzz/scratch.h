#pragma once
// A folder of this process for files of targets, in memory where the system has that.

#include <string>

namespace mxcheck::fuzz {

const std::string& scratch();

}  // namespace mxcheck::fuzz
