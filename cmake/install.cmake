# Headers, libraries, the tool and the CMake package. find_package(mxcheck) gives mxcheck::numerics, mxcheck::reference,
# mxcheck::goldens, and mxcheck::candidate (kernels/candidate*.h, all that a kernel library needs).
include(CMakePackageConfigHelpers)

add_library(mxcheck_candidate INTERFACE)
target_include_directories(mxcheck_candidate INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                       $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/mxcheck>)
target_link_libraries(mxcheck_candidate INTERFACE mxcheck::dlpack)

set(exported mxcheck_options mxcheck_candidate)
set(needed dlpack threads)
foreach(folder numerics reference goldens)
  if(TARGET mxcheck_${folder})
    list(APPEND exported mxcheck_${folder})
    install(
      DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}
      DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mxcheck
      FILES_MATCHING
      PATTERN "*.h")
    get_target_property(libraries mxcheck_${folder} LINK_LIBRARIES)
    foreach(library ${libraries})
      if(library MATCHES "^mxcheck::(.+)$")
        list(APPEND needed ${CMAKE_MATCH_1})
      endif()
    endforeach()
  endif()
endforeach()
list(REMOVE_DUPLICATES needed)
foreach(target ${exported})
  string(REPLACE mxcheck_ "" name ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
endforeach()
foreach(header candidate candidate_matmul candidate_route)
  install(FILES ${PROJECT_SOURCE_DIR}/kernels/${header}.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mxcheck/kernels)
endforeach()
install(TARGETS ${exported} EXPORT mxcheck_targets)
foreach(target mxcheck mxcheck_cpu mxcheck_sm90 mxcheck_sm90_gemm mxcheck_sm90_route mxcheck_gpu_model)
  if(TARGET ${target})
    install(TARGETS ${target})
  endif()
endforeach()
mxcheck_carry_libraries()

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
