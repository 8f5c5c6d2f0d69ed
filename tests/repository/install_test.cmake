# Installs the build into an empty prefix, where the tests of examples and consumers find it.
cmake_minimum_required(VERSION 3.22)
include(${CMAKE_CURRENT_LIST_DIR}/must.cmake)
file(REMOVE_RECURSE ${PREFIX})
must(${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX})

# Every header of ours is below mxcheck/; the C interface has a root of its own besides.
file(GLOB roots RELATIVE ${PREFIX}/include ${PREFIX}/include/*)
if(NOT roots STREQUAL "mxcheck;mxcheck-candidate")
  message(FATAL_ERROR "include/ holds ${roots}")
endif()
file(GLOB_RECURSE bare RELATIVE ${PREFIX}/include/mxcheck-candidate ${PREFIX}/include/mxcheck-candidate/*)
if(NOT bare STREQUAL "kernels/candidate.h;kernels/candidate_dispatch.h;kernels/candidate_kept_weights.h;kernels/candidate_layer.h;kernels/candidate_matmul.h;kernels/candidate_moe.h;kernels/candidate_nvfp4.h;kernels/candidate_route.h")
  message(FATAL_ERROR "include/mxcheck-candidate/ holds ${bare}")
endif()

# The files that shells and man read.
foreach(file bash-completion/completions/mxcheck zsh/site-functions/_mxcheck fish/vendor_completions.d/mxcheck.fish man/man1/mxcheck.1)
  file(READ ${PREFIX}/share/${file} text)
  if(NOT text MATCHES "verdict.*apart")
    message(FATAL_ERROR "share/${file} lacks an option")
  endif()
endforeach()

# Nothing may point back into the source tree or the build.
get_filename_component(source ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
file(GLOB_RECURSE files ${PREFIX}/*.cmake ${PREFIX}/*.h)
foreach(file ${files})
  file(READ ${file} text)
  string(FIND "${text}" "${source}/" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "${file} points into ${source}")
  endif()
endforeach()
