#pragma once
// Tests of whether a path exists or is a folder, with this project's errors in place of std::filesystem's.
//
//   if (path_exists(out)) ...
//
// Links are followed; one to nothing is nothing, and so is a path through what is no folder.
//
// Errors: Error{usage} with the path for what cannot be looked up: a link to itself, a name or a path that is too long,
// a folder that may not be searched.

#include <string>

namespace mxcheck {

bool path_exists(const std::string& path);
bool is_folder(const std::string& path);

}  // namespace mxcheck
