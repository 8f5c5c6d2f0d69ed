# cmake -D SOURCE_DIR= -D HEADER= -D VERSION= -D COMPILER= -D FLAGS= -D BUILD_TYPE= -P write_version.cmake
set(COMMIT unknown)
set(DIRTY false)
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE_DIR}/.git)
  execute_process(
    COMMAND ${GIT} -C ${SOURCE_DIR} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE commit
    RESULT_VARIABLE result
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(result EQUAL 0)
    set(COMMIT ${commit})
    execute_process(
      COMMAND ${GIT} -C ${SOURCE_DIR} --no-optional-locks status --porcelain --untracked-files=no
      OUTPUT_VARIABLE changes
      ERROR_QUIET)
    if(NOT "${changes}" STREQUAL "")
      set(DIRTY true)
    endif()
  endif()
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/version.h.in ${HEADER} @ONLY)  # leaves an equal file alone
