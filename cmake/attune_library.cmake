# The library: checks, dispatch, memory, threads. Included and not a subdirectory, because the kernels join it as objects
# made by custom commands, and CMake wants those in the directory of the target.
set(attune_sources additive.cpp additive_backward.cpp checks.cpp constant_pages.cpp context.cpp cpu_features.cpp device_backend.cpp device_call.cpp
  dropout_mask.cpp halide_call.cpp kv_append.cpp linear.cpp linear_backward.cpp linear_checks.cpp linear_dispatch.cpp masked_softmax.cpp
  masked_softmax_backward.cpp max_magnitude.cpp merge.cpp multi_head.cpp multi_head_backward.cpp multi_head_checks.cpp
  op_call.cpp overlap.cpp pack_linear_weight.cpp processors.cpp projection.cpp scratch.cpp sdpa.cpp sdpa_arguments.cpp
  sdpa_backward.cpp sdpa_backward_captures.cpp sdpa_backward_device.cpp sdpa_backward_dispatch.cpp sdpa_backward_kernel.cpp
  sdpa_backward_tasks.cpp sdpa_checks.cpp sdpa_device.cpp sdpa_dispatch.cpp sdpa_kernel.cpp sdpa_option_checks.cpp sdpa_run.cpp
  sdpa_workspace.cpp shape_line.cpp shape_record.cpp tensor.cpp thread_team.cpp user_arguments.cpp user_attention.cpp
  user_captures.cpp variants.cpp varlen.cpp version.cpp)
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
target_include_directories(attune PRIVATE runtime/src $<TARGET_PROPERTY:Halide::Runtime,INTERFACE_INCLUDE_DIRECTORIES>)
target_link_libraries(attune PRIVATE attune_halide_runtime)
