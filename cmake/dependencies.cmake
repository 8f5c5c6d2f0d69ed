# The libraries of others, as imported targets mxcheck::<name>. Folders link these names, so that where a library comes
# from, and whether it is linked into the file (MXCHECK_PORTABLE), is decided here and nowhere else. The installed CMake
# package includes this file too.
include_guard(GLOBAL)

# mxcheck_dependency(NAME [LIBRARIES ...] [INCLUDES ...] [DEFINITIONS ...])
function(mxcheck_dependency NAME)
  cmake_parse_arguments(ARG "" "" "LIBRARIES;INCLUDES;DEFINITIONS" ${ARGN})
  add_library(mxcheck::${NAME} INTERFACE IMPORTED GLOBAL)
  set_target_properties(
    mxcheck::${NAME}
    PROPERTIES INTERFACE_LINK_LIBRARIES "${ARG_LIBRARIES}"
               INTERFACE_INCLUDE_DIRECTORIES "${ARG_INCLUDES}"
               INTERFACE_COMPILE_DEFINITIONS "${ARG_DEFINITIONS}")
endfunction()

# What is not there: in the installed package the user's find_package(mxcheck) fails, with this as its reason, and a
# QUIET or optional one goes on; in our own build everything is required. Both are macros: return() is the package's.
macro(mxcheck_not_found WHAT)
  if("${CMAKE_FIND_PACKAGE_NAME}" STREQUAL "mxcheck")
    set(mxcheck_FOUND FALSE)
    set(mxcheck_NOT_FOUND_MESSAGE "${WHAT}; mxcheck's packages.txt names the package that holds it")
    return()
  endif()
  message(FATAL_ERROR "mxcheck: ${WHAT}; packages.txt names the package that holds it")
endmacro()
macro(mxcheck_find_package)
  if("${CMAKE_FIND_PACKAGE_NAME}" STREQUAL "mxcheck")
    find_dependency(${ARGN})
  else()
    find_package(${ARGN} REQUIRED)
  endif()
endmacro()

# Header and library by name: quicker than FindHDF5 and its compiler wrappers, and needs no C in the user's project.
macro(mxcheck_find_files NAME HEADER)
  find_path(MXCHECK_${NAME}_INCLUDE_DIR ${HEADER} PATH_SUFFIXES hdf5/serial)
  mark_as_advanced(MXCHECK_${NAME}_INCLUDE_DIR)
  if(NOT MXCHECK_${NAME}_INCLUDE_DIR)
    mxcheck_not_found("${HEADER} not found")
  endif()
  set(mxcheck_libraries)
  foreach(library ${ARGN})
    string(REPLACE "|" ";" names ${library})
    find_library(MXCHECK_LIBRARY_${library} NAMES ${names})
    mark_as_advanced(MXCHECK_LIBRARY_${library})
    if(NOT MXCHECK_LIBRARY_${library})
      mxcheck_not_found("no library ${library}")
    endif()
    list(APPEND mxcheck_libraries ${MXCHECK_LIBRARY_${library}})
  endforeach()
endmacro()

# A macro, not a function: find_package's targets and variables must reach the caller's directory.
macro(mxcheck_find_dependency NAME)
  if(NOT TARGET mxcheck::${NAME})
    if("${NAME}" STREQUAL "hdf5")
      if(MXCHECK_PORTABLE)
        # The archive's objects for S3 need libcurl and libcrypto, but no file driver of ours pulls them in.
        mxcheck_find_files(hdf5 hdf5.h libhdf5_serial.a|libhdf5.a libsz.a libaec.a libz.a)
        list(APPEND mxcheck_libraries m ${CMAKE_DL_LIBS})
      else()
        mxcheck_find_files(hdf5 hdf5.h hdf5_serial|hdf5)
      endif()
      mxcheck_dependency(hdf5 LIBRARIES ${mxcheck_libraries} INCLUDES ${MXCHECK_hdf5_INCLUDE_DIR})
    elseif("${NAME}" STREQUAL "crypto")  # of OpenSSL
      if(MXCHECK_PORTABLE)
        mxcheck_find_files(crypto openssl/evp.h libcrypto.a)
        list(APPEND mxcheck_libraries ${CMAKE_DL_LIBS})
      else()
        mxcheck_find_files(crypto openssl/evp.h crypto)
      endif()
      mxcheck_dependency(crypto LIBRARIES ${mxcheck_libraries} INCLUDES ${MXCHECK_crypto_INCLUDE_DIR})
    elseif("${NAME}" STREQUAL "xxhash")  # header only: no library to carry along
      mxcheck_find_files(xxhash xxhash.h)
      mxcheck_dependency(xxhash INCLUDES ${MXCHECK_xxhash_INCLUDE_DIR} DEFINITIONS XXH_INLINE_ALL)
    elseif("${NAME}" STREQUAL "fmt")
      mxcheck_find_package(fmt)
      if(MXCHECK_PORTABLE)
        mxcheck_dependency(fmt LIBRARIES fmt::fmt-header-only)
      else()
        mxcheck_dependency(fmt LIBRARIES fmt::fmt)
      endif()
    elseif("${NAME}" STREQUAL "rapidcheck")  # an archive everywhere
      mxcheck_find_package(rapidcheck)
      mxcheck_dependency(rapidcheck LIBRARIES rapidcheck)
    elseif("${NAME}" STREQUAL "hwy")  # shared everywhere: mxcheck_carry_libraries copies it into portable builds
      mxcheck_find_package(hwy)
      # Each source with SIMD code is compiled once for each target. Highway 1.0.3 leaves AVX3_DL out by default; what has
      # no AVX2 (before 2013) runs the portable code.
      mxcheck_dependency(hwy LIBRARIES hwy::hwy DEFINITIONS HWY_WANT_AVX3_DL "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4)")
    elseif("${NAME}" STREQUAL "json")
      mxcheck_find_package(nlohmann_json)
      mxcheck_dependency(json LIBRARIES nlohmann_json::nlohmann_json)
    elseif("${NAME}" STREQUAL "cli11")
      mxcheck_find_package(CLI11)
      mxcheck_dependency(cli11 LIBRARIES CLI11::CLI11)
    elseif("${NAME}" STREQUAL "dlpack")
      mxcheck_find_files(dlpack dlpack/dlpack.h)
      mxcheck_dependency(dlpack INCLUDES ${MXCHECK_dlpack_INCLUDE_DIR})
    elseif("${NAME}" STREQUAL "boost")  # headers: Boost.Math, Boost.Multiprecision
      mxcheck_find_package(Boost)
      mxcheck_dependency(boost LIBRARIES Boost::headers)
    elseif("${NAME}" STREQUAL "eigen")
      mxcheck_find_package(Eigen3 NO_MODULE)
      mxcheck_dependency(eigen LIBRARIES Eigen3::Eigen)
    elseif("${NAME}" STREQUAL "threads")
      mxcheck_find_package(Threads)
      mxcheck_dependency(threads LIBRARIES Threads::Threads)
    else()
      message(FATAL_ERROR "mxcheck: cmake/dependencies.cmake knows no library ${NAME}")
    endif()
  endif()
endmacro()
