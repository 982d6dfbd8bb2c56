# The library: checks, dispatch, memory, threads. Included and not a subdirectory, because the kernels join it as objects
# made by custom commands, and CMake wants those in the directory of the target.
set(attune_sources context.cpp cpu_features.cpp halide_call.cpp overlap.cpp scratch.cpp sdpa.cpp sdpa_checks.cpp
  sdpa_dispatch.cpp tensor.cpp variants.cpp)
set(attune_headers attune.h context.h sdpa.h status.h tensor.h variants.h)
list(TRANSFORM attune_sources PREPEND runtime/src/)
list(TRANSFORM attune_headers PREPEND runtime/include/attune/)
add_library(attune STATIC ${attune_sources})
add_library(attune::attune ALIAS attune)
target_sources(attune PUBLIC FILE_SET HEADERS BASE_DIRS runtime/include FILES ${attune_headers})
target_compile_features(attune PUBLIC cxx_std_20)
target_compile_options(attune PRIVATE ${ATTUNE_WARNINGS})
target_include_directories(attune PRIVATE runtime/src)
target_link_libraries(attune PRIVATE attune_halide_runtime)
