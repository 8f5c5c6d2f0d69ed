# Fails with the replacements of a catalogue that did not apply when CMake ran.
file(READ ${COMPLAINTS} complaints)
if(complaints)
  message(FATAL_ERROR "tests/faults: each text must occur exactly once.${complaints}")
endif()
