// The HDF5 library loses memory when a file cannot be closed because its disk is full; there is nothing to be done.
extern "C" const char* __lsan_default_suppressions();                            // NOLINT: the sanitizer's name
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }  // NOLINT
