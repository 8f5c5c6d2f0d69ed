# Headers, libraries, the tool and the CMake package. find_package(mxcheck) gives mxcheck::numerics, mxcheck::reference,
# mxcheck::goldens (with their parts mxcheck::model and mxcheck::files) and mxcheck::candidate (kernels/candidate*.h, all
# that a kernel library needs), and all of them as mxcheck::mxcheck. docs/library.md is the user's page.
include(CMakePackageConfigHelpers)
include(${CMAKE_CURRENT_LIST_DIR}/public_headers.cmake)

# The public headers as they are installed: under an include root of their own.
set(sources)
foreach(folder ${mxcheck_public_folders})
  list(TRANSFORM mxcheck_public_${folder} PREPEND ${PROJECT_SOURCE_DIR}/${folder}/ OUTPUT_VARIABLE headers)
  list(APPEND sources ${headers})
endforeach()
set(include_dir ${PROJECT_BINARY_DIR}/include)
set(script ${CMAKE_CURRENT_LIST_DIR}/write_public_headers.cmake)
add_custom_command(
  OUTPUT ${include_dir}/public_headers.stamp
  COMMAND ${CMAKE_COMMAND} -D SOURCE_DIR=${PROJECT_SOURCE_DIR} -D INCLUDE_DIR=${include_dir} -P ${script}
  COMMAND ${CMAKE_COMMAND} -E touch ${include_dir}/public_headers.stamp
  DEPENDS ${sources} ${script} ${CMAKE_CURRENT_LIST_DIR}/public_headers.cmake
  COMMENT "Writing the public headers"
  VERBATIM)
add_custom_target(mxcheck_public_headers ALL DEPENDS ${include_dir}/public_headers.stamp)
install(DIRECTORY ${include_dir}/mxcheck DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# The C interface also as the source tree names it, "kernels/candidate.h", so that a kernel library compiles unchanged
# against a checkout and an installation. The folder is mxcheck::candidate's alone: with any other target, mxcheck::mxcheck
# too, nothing of ours is found without mxcheck/ in front.
list(TRANSFORM mxcheck_public_kernels PREPEND ${PROJECT_SOURCE_DIR}/kernels/ OUTPUT_VARIABLE interface)
install(FILES ${interface} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mxcheck-candidate/kernels)

add_library(mxcheck_candidate INTERFACE)
target_include_directories(
  mxcheck_candidate INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/mxcheck-candidate>)
target_link_libraries(mxcheck_candidate INTERFACE mxcheck::dlpack)
add_library(mxcheck_all INTERFACE)
target_link_libraries(mxcheck_all INTERFACE mxcheck::dlpack)  # for mxcheck/kernels/candidate.h
set_target_properties(mxcheck_all PROPERTIES EXPORT_NAME mxcheck)

# Archives need the libraries that they call at the user's link; what they took from headers is in them already, and no
# public header includes it.
set(headers_only eigen json xxhash)
if(MXCHECK_PORTABLE)
  list(APPEND headers_only fmt)
endif()
set(package_components)
set(package_needs)  # CMake code: which libraries of others each component needs
foreach(component candidate numerics model reference files goldens)
  if(NOT TARGET mxcheck_${component})
    continue()
  endif()
  list(APPEND package_components ${component})
  get_target_property(libraries mxcheck_${component} INTERFACE_LINK_LIBRARIES)
  set(needed)
  foreach(name ${headers_only})
    list(REMOVE_ITEM libraries "$<LINK_ONLY:mxcheck::${name}>")
  endforeach()
  set_target_properties(mxcheck_${component} PROPERTIES EXPORT_NAME ${component}
                                                        INTERFACE_LINK_LIBRARIES "${libraries}")
  if(NOT component STREQUAL "candidate")
    target_link_libraries(mxcheck_all INTERFACE mxcheck_${component})
  endif()
  foreach(library ${libraries})
    if(library MATCHES "mxcheck::([a-z0-9]+)")
      list(APPEND needed ${CMAKE_MATCH_1})
    elseif(library MATCHES "Threads::Threads")
      list(APPEND needed threads)
    elseif(library MATCHES "mxcheck_(numerics|model|reference|files)")
      list(APPEND needed ${needs_of_${CMAKE_MATCH_1}})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES needed)
  set(needs_of_${component} ${needed})
  string(APPEND package_needs "set(mxcheck_needs_${component} \"${needed}\")\n")
endforeach()
set_target_properties(mxcheck_options PROPERTIES EXPORT_NAME options)
list(TRANSFORM package_components PREPEND mxcheck_ OUTPUT_VARIABLE exported)
install(TARGETS mxcheck_options mxcheck_all ${exported} EXPORT mxcheck_targets)
foreach(target mxcheck mxcheck_cpu mxcheck_cpu_layer mxcheck_cpu_nvfp4 mxcheck_sm90 mxcheck_sm90_gemm mxcheck_sm90_layer mxcheck_sm90_moe
               mxcheck_sm90_nvfp4 mxcheck_sm90_route mxcheck_sm90_train mxcheck_gpu_model mxcheck_worker mxcheck_c)
  if(TARGET ${target})
    install(TARGETS ${target})
  endif()
endforeach()
mxcheck_carry_libraries()

# Completions and the manual page, which the tool prints.
set(shell_dir ${PROJECT_BINARY_DIR}/shell)
set(shell_files)
foreach(file "mxcheck completion bash" "_mxcheck completion zsh" "mxcheck.fish completion fish" "mxcheck.1 man")
  separate_arguments(arguments UNIX_COMMAND ${file})
  list(POP_FRONT arguments name)
  add_custom_command(
    OUTPUT ${shell_dir}/${name}
    COMMAND mxcheck ${arguments} > ${shell_dir}/${name}
    DEPENDS mxcheck
    COMMENT "Writing ${name} for shells"
    VERBATIM)
  list(APPEND shell_files ${shell_dir}/${name})
endforeach()
file(MAKE_DIRECTORY ${shell_dir})
add_custom_target(mxcheck_shell_files ALL DEPENDS ${shell_files})
install(FILES ${shell_dir}/mxcheck DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${shell_dir}/_mxcheck DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${shell_dir}/mxcheck.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${shell_dir}/mxcheck.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/mxcheck)
install(
  EXPORT mxcheck_targets
  NAMESPACE mxcheck::
  DESTINATION ${package})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/mxcheckConfig.cmake.in ${PROJECT_BINARY_DIR}/mxcheckConfig.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mxcheckConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mxcheckConfig.cmake ${PROJECT_BINARY_DIR}/mxcheckConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/dependencies.cmake DESTINATION ${package})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
