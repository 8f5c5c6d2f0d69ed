# The product has no trace of the faults: neither its libraries nor its sources know the stamp or a fault's name, and the
# sources that the families of the host are compiled from are those of the product.
#
# PRODUCT: libraries, separated by commas; FAMILY: a library with faults, where the stamp must be found; CATALOGUE: the
# list of faults (.tsv), and EDITED: the libraries of it that are edits; KERNELS and UNCHANGED: the sources, and the copies
# that families are made from.
# Device code of the product is compressed: of it the sources speak.
set(traces mxcheck_faults "mxcheck fault stamp")
string(REPLACE "," "|" EDITED "${EDITED}")
file(READ ${CATALOGUE} rows)
string(REGEX MATCHALL "\n(${EDITED})\t[^\t\n]+" rows "${rows}")
foreach(row ${rows})
  string(REGEX REPLACE "^.*\t" "" name "${row}")
  # A name that is a single word may be part of a message.
  if(name MATCHES "_")
    list(APPEND traces ${name})
  endif()
endforeach()
list(REMOVE_DUPLICATES traces)
list(LENGTH traces count)
if(count LESS 100)
  message(FATAL_ERROR "the catalogues name ${count} faults only")
endif()
list(JOIN traces "|" traces)

file(STRINGS ${FAMILY} found REGEX "mxcheck fault stamp")
if(NOT found)
  message(FATAL_ERROR "${FAMILY} has no stamp: this test would not find one in the product either")
endif()
string(REPLACE "," ";" PRODUCT "${PRODUCT}")
foreach(library ${PRODUCT})
  file(STRINGS ${library} found REGEX "${traces}")
  if(found)
    message(SEND_ERROR "${library} has a trace of the faults: ${found}")
  endif()
endforeach()

file(GLOB_RECURSE copies RELATIVE ${UNCHANGED} ${UNCHANGED}/*)
if(NOT copies)
  message(FATAL_ERROR "${UNCHANGED} is empty")
endif()
foreach(file ${copies})
  if(NOT EXISTS ${KERNELS}/${file})
    continue() # a file that was removed since: no source includes it
  endif()
  file(SHA256 ${KERNELS}/${file} product)
  file(SHA256 ${UNCHANGED}/${file} copy)
  if(NOT product STREQUAL copy)
    message(SEND_ERROR "${UNCHANGED}/${file} is not ${KERNELS}/${file}")
  endif()
endforeach()

file(GLOB_RECURSE sources ${KERNELS}/*.cc ${KERNELS}/*.h ${KERNELS}/*.cu ${KERNELS}/*.cuh)
foreach(file ${sources})
  file(STRINGS ${file} found REGEX "${traces}")
  if(found)
    message(SEND_ERROR "${file} has a trace of the faults: ${found}")
  endif()
endforeach()
