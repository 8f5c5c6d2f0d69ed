#pragma once
// The files that are mapped into this process: a library's verdict is one about all that loading it brought in.

#include <set>
#include <string>

namespace mxcheck {

// Absolute paths; without devices, and without files that have been deleted.
std::set<std::string> mapped_files();
bool is_of_the_system(const std::string& path);  // below /lib or /usr/lib

}  // namespace mxcheck
