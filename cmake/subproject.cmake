# mxcheck::candidate, for a project that has mxcheck as a subfolder, where nothing is installed: the include folder of
# kernels/candidate*.h and of dlpack.h, as in the installed package. The tool is the target mxcheck:
# add_test(NAME gate COMMAND mxcheck gate --candidate $<TARGET_FILE:my_kernels>). docs/ci.md is the user's page.
add_library(mxcheck_candidate INTERFACE)
target_include_directories(mxcheck_candidate INTERFACE ${PROJECT_SOURCE_DIR})
target_link_libraries(mxcheck_candidate INTERFACE mxcheck::dlpack)
