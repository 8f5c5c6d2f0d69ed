# Builds examples/cpp against the installation in PREFIX alone, as docs/library.md says, and runs the four programs:
# each prints what that page shows.
cmake_minimum_required(VERSION 3.22)
include(${CMAKE_CURRENT_LIST_DIR}/../repository/must.cmake)
set(build ${WORK}/cpp_build)
must_build(${SOURCE}/examples/cpp ${build})
file(READ ${SOURCE}/docs/library.md page)

# shown(COMMAND ...): the page has the command and, below it, what it prints
function(shown)
  list(JOIN ARGV " " command)
  list(POP_FRONT ARGV program)
  must(${CMAKE_COMMAND} -E chdir ${SOURCE} ${build}/${program} ${ARGV})
  string(FIND "${page}" "\n```\n$ ./build/${command}\n${output}```\n" at)
  if(at EQUAL -1)
    message(SEND_ERROR "docs/library.md does not show ./build/${command} with\n${output}")
  endif()
endfunction()
shown(quantize)
shown(matmul)
shown(route)
shown(verify_golden goldens/data/real/layer0_x_1x32.h5)

# exits(CODE FILE): of verify_golden
function(exits CODE FILE)
  execute_process(COMMAND ${build}/verify_golden ${FILE} RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
  if(NOT result EQUAL CODE)
    message(SEND_ERROR "verify_golden ${FILE}: exit ${result} in place of ${CODE}")
  endif()
endfunction()
exits(1 ${SOURCE}/goldens/data/blocks/e4m3_32x1_experts.h5)  # of another problem: blocks restart at each expert
file(COPY ${SOURCE}/goldens/data/formats/formats.h5 ${SOURCE}/goldens/data/formats/manifest.txt DESTINATION ${build})
file(APPEND ${build}/formats.h5 "x")
exits(5 ${build}/formats.h5)

# The promise of the page: each fits a screen.
file(GLOB sources ${SOURCE}/examples/cpp/*.cc)
foreach(source ${sources})
  file(STRINGS ${source} lines)
  list(LENGTH lines count)
  if(count GREATER_EQUAL 40)
    message(SEND_ERROR "${source} has ${count} lines")
  endif()
endforeach()
