# Fails with the replacements of catalogue.cmake that did not apply when CMake ran.
file(READ ${COMPLAINTS} complaints)
if(complaints)
  message(FATAL_ERROR "tests/faults/catalogue.cmake: each text must occur exactly once.${complaints}")
endif()
