# libmxcheck_sm90_train.so: a step of training (kernels/train.h), which is no candidate. It is made of sm90/train and of the
# objects of whole layers and of routers, less their candidates and what both have of kernels/common.
file(GLOB train CONFIGURE_DEPENDS sm90/train/*.cc sm90/train/*.cu)
add_library(mxcheck_sm90_train_objects OBJECT ${train})
target_link_libraries(mxcheck_sm90_train_objects PRIVATE mxcheck_options mxcheck::dlpack CUDA::cudart_static)
target_compile_definitions(
  mxcheck_sm90_train_objects
  PRIVATE MXCHECK_SM90_VERSION="${PROJECT_VERSION}, nvcc ${CMAKE_CUDA_COMPILER_VERSION}, sm_90a")
set_target_properties(
  mxcheck_sm90_train_objects
  PROPERTIES CUDA_STANDARD 20
             CUDA_ARCHITECTURES 90a-real
             CXX_VISIBILITY_PRESET hidden
             CUDA_VISIBILITY_PRESET hidden
             VISIBILITY_INLINES_HIDDEN ON)

set(layers $<FILTER:$<TARGET_OBJECTS:mxcheck_sm90_moe_objects>,EXCLUDE,/moe/moe_candidate[.]cc> ${moe_shared})
set(routers $<FILTER:$<TARGET_OBJECTS:mxcheck_sm90_route_objects>,EXCLUDE,/route/route_candidate[.]cc|/common/arguments[.]cc|/common/dtype[.]cc>)
# All of it as objects, for tests.
set(MXCHECK_SM90_TRAIN_OBJECTS $<TARGET_OBJECTS:mxcheck_sm90_train_objects> ${layers} ${routers} PARENT_SCOPE)

set(exports ${CMAKE_CURRENT_SOURCE_DIR}/sm90/train/exports.map)
add_library(mxcheck_sm90_train SHARED $<TARGET_OBJECTS:mxcheck_sm90_train_objects> ${layers} ${routers})
target_link_libraries(mxcheck_sm90_train PRIVATE mxcheck_options CUDA::cudart_static)
target_link_options(mxcheck_sm90_train PRIVATE -Wl,--version-script=${exports} -Wl,--no-undefined)
set_target_properties(mxcheck_sm90_train PROPERTIES LINKER_LANGUAGE CXX LINK_DEPENDS ${exports})
