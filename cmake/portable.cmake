# MXCHECK_PORTABLE: programs and libraries that run from a copied folder on a machine with a C library of the same age
# or younger and nothing else. libstdc++ and libgcc go into each file; Debian has libhwy as a shared library only, so it
# and the libstdc++ that it needs in turn are copied beside libmxcheck_cpu.so.
if(NOT MXCHECK_PORTABLE)
  function(mxcheck_carry_libraries)
  endfunction()
  return()
endif()

# The static libstdc++ and libgcc of Debian 12 need a C library of 2.36 (arc4random, _dl_find_object), its shared ones' names
# 2.34 and less: a Python wheel, which is to run on older systems too, takes the machine's libstdc++.
option(MXCHECK_STATIC_CXX "MXCHECK_PORTABLE carries libstdc++ and libgcc; OFF: they are the machine's" ON)
if(MXCHECK_STATIC_CXX)
  add_link_options(-static-libstdc++ -static-libgcc)
endif()
# exclude-libs: a candidate's own libstdc++ must not meet ours. disable-new-dtags: RPATH, unlike RUNPATH, also serves
# the libraries' own needs.
add_link_options(-Wl,--exclude-libs,ALL -Wl,--disable-new-dtags)
# A folder is one object, which needs more than the function that is called: libmxcheck_worker.so would take HDF5's archive
# along, which Debian does not compile for shared libraries.
add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-ffunction-sections> $<$<COMPILE_LANGUAGE:C,CXX>:-fdata-sections>)
add_link_options(-Wl,--gc-sections)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN;$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

# Installs libhwy and the libraries that it needs beyond the C library, found as the compiler finds them.
function(mxcheck_carry_libraries)
  get_target_property(hwy hwy::hwy LOCATION)
  set(files ${hwy})
  set(of_the_compiler libstdc++.so.6 libgcc_s.so.1)
  if(NOT MXCHECK_STATIC_CXX)
    set(of_the_compiler)
  endif()
  foreach(name ${of_the_compiler})
    execute_process(
      COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${name}
      OUTPUT_VARIABLE file
      OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    list(APPEND files ${file})
  endforeach()
  foreach(file ${files})
    get_filename_component(real ${file} REALPATH)
    get_filename_component(name ${file} NAME)
    if(name MATCHES "^libhwy")
      set(name libhwy.so.1)  # its SONAME
    endif()
    install(FILES ${real} DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME ${name})
  endforeach()
endfunction()
