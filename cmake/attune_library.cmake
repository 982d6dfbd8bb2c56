# The library: checks, dispatch, memory, threads. Included and not a subdirectory, because the kernels join it as objects
# made by custom commands, and CMake wants those in the directory of the target.
set(attune_sources
  attention/dropout_mask.cpp attention/sdpa.cpp attention/sdpa_arguments.cpp attention/sdpa_checks.cpp
  attention/sdpa_device.cpp attention/sdpa_dispatch.cpp attention/sdpa_kernel.cpp attention/sdpa_option_checks.cpp
  attention/sdpa_run.cpp attention/sdpa_workspace.cpp
  serving/kv_append.cpp serving/merge.cpp serving/varlen.cpp
  attention_backward/sdpa_backward.cpp attention_backward/sdpa_backward_captures.cpp
  attention_backward/sdpa_backward_device.cpp attention_backward/sdpa_backward_dispatch.cpp
  attention_backward/sdpa_backward_kernel.cpp attention_backward/sdpa_backward_tasks.cpp
  user_attention/user_arguments.cpp user_attention/user_attention.cpp user_attention/user_captures.cpp
  layers/additive.cpp layers/additive_backward.cpp layers/linear.cpp layers/linear_backward.cpp layers/linear_checks.cpp
  layers/linear_dispatch.cpp layers/multi_head.cpp layers/multi_head_backward.cpp layers/multi_head_checks.cpp
  layers/pack_linear_weight.cpp layers/projection.cpp
  softmax/masked_softmax.cpp softmax/masked_softmax_backward.cpp
  dispatch/cpu_features.cpp dispatch/op_call.cpp dispatch/shape_line.cpp dispatch/shape_record.cpp dispatch/variants.cpp
  dispatch/version.cpp
  execution/constant_pages.cpp execution/context.cpp execution/halide_call.cpp execution/processors.cpp execution/scratch.cpp
  execution/thread_team.cpp
  tensors/checks.cpp tensors/max_magnitude.cpp tensors/overlap.cpp tensors/tensor.cpp
  device/device_backend.cpp device/device_call.cpp)
set(attune_headers additive.h additive_backward.h attune.h block_mask.h context.h detail/api.h detail/array_view.h detail/memory.h
  detail/registration.h detail/user_attention.h dropout.h half.h kv_cache.h linear.h linear_backward.h
  masked_softmax.h masked_softmax_backward.h merge.h multi_head.h multi_head_backward.h sdpa.h sdpa_backward.h status.h
  tensor.h variants.h varlen.h)
list(TRANSFORM attune_sources PREPEND runtime/src/)
list(TRANSFORM attune_headers PREPEND runtime/include/attune/)
configure_file(runtime/include/attune/version.h.in ${PROJECT_BINARY_DIR}/include/attune/version.h @ONLY)
list(APPEND attune_headers ${PROJECT_BINARY_DIR}/include/attune/version.h)
if(BUILD_SHARED_LIBS)
  add_library(attune SHARED ${attune_sources})
  set_target_properties(attune PROPERTIES DEFINE_SYMBOL "")  # the same objects as of an archive
  target_link_options(attune PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/attune.map)
  set_property(TARGET attune APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/attune.map)
else()
  add_library(attune STATIC ${attune_sources})
endif()
add_library(attune::attune ALIAS attune)
# Before 1.0 a minor version may change the API.
set_target_properties(attune PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
# A clean build reads headers longer than it compiles this; so a name in one file is that of its neighbours, too.
set_target_properties(attune PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
# The archive becomes part of a shared object wherever a user makes one that calls it; that shows the API alone, too.
set_target_properties(attune PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_sources(attune PUBLIC FILE_SET HEADERS BASE_DIRS runtime/include ${PROJECT_BINARY_DIR}/include FILES ${attune_headers})
# The headers are C++17, so that a project's own standard stays as it is.
target_compile_features(attune PUBLIC cxx_std_17 PRIVATE cxx_std_20)
target_compile_options(attune PRIVATE ${ATTUNE_WARNINGS})
include(cmake/attune_arguments.cmake)
target_sources(attune PRIVATE ${attune_arguments_dir}/kernel_arguments.h)
target_include_directories(attune PRIVATE runtime/src ${attune_arguments_dir} $<TARGET_PROPERTY:Halide::Runtime,INTERFACE_INCLUDE_DIRECTORIES>)
target_link_libraries(attune PRIVATE attune_halide_runtime)
