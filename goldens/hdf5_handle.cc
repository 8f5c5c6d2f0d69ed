#include "goldens/hdf5_handle.h"

namespace mxcheck {

void quiet_hdf5() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);
}

std::string hdf5_says() {
  struct Said {
    std::string text;
    std::string last;
  } said;
  constexpr unsigned kEntries = 3;
  const auto visit = [](unsigned n, const H5E_error2_t* error, void* data) -> herr_t {
    auto& into = *static_cast<Said*>(data);
    if (n >= kEntries || error->desc == nullptr || error->desc == into.last) return 0;
    into.last = error->desc;
    into.text += (into.text.empty() ? "" : "; ") + into.last;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, visit, &said);
  for (char& c : said.text) {  // the time of a failed write ends in a line break, and names come from the file
    if (c < ' ' || c > '~') c = ' ';
  }
  return said.text.empty() ? "" : " (HDF5: " + said.text + ")";
}

Hdf5Handle hdf5_access(Hdf5Locks locks) {
  Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
#if H5_VERSION_GE(1, 10, 7) && !(H5_VERS_MAJOR == 1 && H5_VERS_MINOR == 12 && H5_VERS_RELEASE < 1)
  H5Pset_file_locking(access.id(), locks == Hdf5Locks::best_effort ? 1 : 0, 1);
#endif
  return access;
}

}  // namespace mxcheck
