# What of CUDA this build has. Everything but the GPU kernels builds and runs without it.
# Sets MXCHECK_CUDA_INCLUDE_DIR to the folder of cuda_fp8.h, or to nothing: tests take it as a third opinion on formats.
set(MXCHECK_CUDA_INCLUDE_DIR "")
if(MXCHECK_CUDA STREQUAL "OFF")
  message(STATUS "CUDA: off (MXCHECK_CUDA=OFF)")
  return()
endif()
find_package(CUDAToolkit 12.0 QUIET)
if(CUDAToolkit_FOUND)
  find_path(
    MXCHECK_CUDA_FP8_DIR cuda_fp8.h
    HINTS ${CUDAToolkit_INCLUDE_DIRS}
    NO_DEFAULT_PATH)
  mark_as_advanced(MXCHECK_CUDA_FP8_DIR)
endif()
if(MXCHECK_CUDA_FP8_DIR)
  set(MXCHECK_CUDA_INCLUDE_DIR ${MXCHECK_CUDA_FP8_DIR})
  message(STATUS "CUDA: toolkit ${CUDAToolkit_VERSION}, cuda_fp8.h in ${MXCHECK_CUDA_INCLUDE_DIR}")
elseif(MXCHECK_CUDA STREQUAL "ON")
  message(FATAL_ERROR "MXCHECK_CUDA=ON, but no CUDA Toolkit 12.0 or later with cuda_fp8.h was found; "
                      "set CUDAToolkit_ROOT, or MXCHECK_CUDA to AUTO or OFF")
else()
  message(STATUS "CUDA: no toolkit found; tests against cuda_fp8.h are left out")
endif()
