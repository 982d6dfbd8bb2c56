# SPDX-License-Identifier: MIT
# The library: checks, dispatch, memory, threads. This file is included, not a subdirectory, because kernels join the library as
# objects of custom commands, which CMake wants in the directory of the target.

# attune_add_sources(group file...): sources of runtime/src that are one object of the archive. A program that calls one
# function links the objects that define its symbols, and theirs in turn: so a group holds functions that every caller of one of
# them needs, and none that names another op's kernels. The group's files are one translation unit, with one set of names.
function(attune_add_sources group)
  list(TRANSFORM ARGN PREPEND runtime/src/ OUTPUT_VARIABLE files)
  list(TRANSFORM files APPEND .cpp)
  target_sources(attune PRIVATE ${files})
  set_source_files_properties(${files} PROPERTIES UNITY_GROUP ${group})
endfunction()

set(attune_headers additive.h additive_backward.h append.h attune.h attune_c.h block_mask.h communicator.h context.h
  context_parallel.h detail/api.h
  detail/array_view.h detail/cost.h detail/memory.h detail/registration.h detail/user_attention.h dropout.h half.h
  kv_cache.h linear.h linear_backward.h masked_softmax.h masked_softmax_backward.h merge.h
  mpi_communicator.h multi_head.h multi_head_backward.h paged.h plan.h pool.h rows.h sdpa.h sdpa_backward.h status.h tensor.h
  thread_communicator.h variants.h varlen.h varlen_backward.h)
list(TRANSFORM attune_headers PREPEND runtime/include/attune/)
configure_file(runtime/include/attune/version.h.in ${PROJECT_BINARY_DIR}/include/attune/version.h @ONLY)
list(APPEND attune_headers ${PROJECT_BINARY_DIR}/include/attune/version.h)
if(BUILD_SHARED_LIBS)
  add_library(attune SHARED)
  set_target_properties(attune PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON DEFINE_SYMBOL "")
  target_link_options(attune PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/attune.map)
  set_property(TARGET attune APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/attune.map)
else()
  add_library(attune STATIC)
endif()
add_library(attune::attune ALIAS attune)
# Before 1.0 a minor version may change the API.
set_target_properties(attune PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
# Headers take longer to parse than the library to compile, hence the unity build and the precompiled header.
set_target_properties(attune PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
target_precompile_headers(attune PRIVATE <attune/attune.h> <algorithm> <array> <atomic> <chrono> <cmath> <cstring> <functional>
  <optional> <string> <vector>)
attune_add_sources(core dispatch/cost_rule dispatch/cpu_features dispatch/lengths_column dispatch/op_call
  dispatch/runnable dispatch/shape_record
  dispatch/variant_table device/device_backend device/device_call execution/constant_pages execution/context
  execution/halide_call execution/processors execution/scratch execution/thread_team tensors/checks tensors/overlap
  tensors/tensor)
attune_add_sources(listing dispatch/variants)
attune_add_sources(version dispatch/version)
attune_add_sources(sdpa attention/sdpa)
attune_add_sources(attention_cost attention/attention_cost)
attune_add_sources(attention attention/call_in_band attention/folded_groups attention/gathered_rows attention/sdpa_arguments
  attention/sdpa_checks attention/sdpa_device attention/sdpa_device_arguments attention/sdpa_device_plan attention/sdpa_entries
  attention/sdpa_dispatch attention/sdpa_kernel attention/sdpa_option_checks attention/sdpa_run attention/sdpa_slices
  attention/sdpa_workspace dispatch/shape_line tensors/max_magnitude user_attention/user_arguments)
attune_add_sources(dropout_mask attention/dropout_mask)
attune_add_sources(kv_append serving/kv_append)
attune_add_sources(page_checks serving/page_checks)
attune_add_sources(paged_append serving/paged_append)
attune_add_sources(rope_tables serving/rope_tables)
attune_add_sources(row_steps serving/row_steps serving/row_step_checks serving/rows_device
  serving/store_rows)
attune_add_sources(transform_rows serving/transform_rows)
attune_add_sources(transform_rows_backward serving/transform_rows_backward)
attune_add_sources(merge serving/merge serving/merge_device)
attune_add_sources(packed serving/packed_call serving/varlen_call)
attune_add_sources(varlen serving/varlen)
attune_add_sources(varlen_backward serving/varlen_backward serving/varlen_backward_device)
attune_add_sources(parallel_plan context_parallel/geometry context_parallel/plan context_parallel/forecast)
attune_add_sources(context_parallel context_parallel/agreement context_parallel/channel context_parallel/chunk_attention
  context_parallel/chunk_rows context_parallel/circulation context_parallel/collective)
attune_add_sources(ring_attention context_parallel/ring_attention)
attune_add_sources(ring_backward context_parallel/chunk_gradients context_parallel/ring_backward)
attune_add_sources(gathered_attention context_parallel/gathered_attention)
attune_add_sources(head_parallel context_parallel/head_parallel)
attune_add_sources(partial_results context_parallel/partial_results)
attune_add_sources(sharded_decode context_parallel/sharded_decode)
attune_add_sources(sharded_paged_decode context_parallel/sharded_paged_decode)
attune_add_sources(paged serving/listed_rows serving/paged serving/paged_checks serving/paged_device serving/pool_checks
  serving/quantised_rows serving/weight_sums)
attune_add_sources(sdpa_backward attention_backward/sdpa_backward)
attune_add_sources(attention_backward attention_backward/sdpa_backward_captures
  attention_backward/sdpa_backward_device attention_backward/sdpa_backward_dispatch attention_backward/sdpa_backward_kernel
  attention_backward/sdpa_backward_tasks user_attention/user_captures)
attune_add_sources(user_attention user_attention/user_attention)
attune_add_sources(user_attention_backward user_attention/user_attention_backward)
attune_add_sources(user_ranks context_parallel/user_ranks)
attune_add_sources(product_cost layers/product_cost)
attune_add_sources(product_plan layers/product_plan)
attune_add_sources(cost_terms dispatch/cost_terms)
attune_add_sources(products layers/batch_dot layers/linear_checks layers/linear_dispatch layers/products)
attune_add_sources(linear layers/linear layers/linear_device)
attune_add_sources(linear_backward layers/linear_backward layers/projection_gradient)
attune_add_sources(pack_linear_weight layers/pack_linear_weight)
attune_add_sources(projection layers/projection)
attune_add_sources(additive layers/additive)
attune_add_sources(additive_backward layers/additive_backward)
attune_add_sources(multi_head layers/multi_head layers/multi_head_checks layers/multi_head_device)
attune_add_sources(multi_head_backward layers/multi_head_backward)
attune_add_sources(masked_softmax softmax/masked_softmax)
attune_add_sources(masked_softmax_backward softmax/masked_softmax_backward)
# The C API: a program links the functions of a header of C++ and no others (runtime/api/generate.py).
attune_add_sources(c_core c_api/context c_api/reader c_api/structs c_api/tensors c_api/versions)
foreach(header additive additive_backward append context_parallel dropout kv_cache linear linear_backward masked_softmax
    masked_softmax_backward merge multi_head multi_head_backward paged rows sdpa sdpa_backward varlen varlen_backward)
  attune_add_sources(c_${header} c_api/functions/${header})
endforeach()
foreach(group listing merge_parts parallel_plan plan_product plan_sdpa user_attention user_attention_backward
    user_ranks)
  attune_add_sources(c_${group} c_api/${group})
endforeach()
# The archive becomes part of a shared object of any user who makes one that calls it. Symbols there are not hidden: a program
# and its plug-ins with copies of the library share all of it by name, so that none calls into a copy that was unloaded.
set_target_properties(attune PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_sources(attune PUBLIC FILE_SET HEADERS BASE_DIRS runtime/include ${PROJECT_BINARY_DIR}/include FILES ${attune_headers})
# The headers are C++17, so that a project's own standard stays as it is.
target_compile_features(attune PUBLIC cxx_std_17 PRIVATE cxx_std_20)
target_compile_options(attune PRIVATE ${ATTUNE_WARNINGS})
# The headers of the library without the library: sources of the program's libraries need no kernels to be compiled, so that
# they are not all compiled last.
add_library(attune_api INTERFACE)
target_include_directories(attune_api INTERFACE $<TARGET_PROPERTY:attune,INTERFACE_INCLUDE_DIRECTORIES>)
include(cmake/attune_arguments.cmake)
target_sources(attune PRIVATE ${attune_arguments_dir}/kernel_arguments.h)
target_include_directories(attune PRIVATE runtime/src ${attune_arguments_dir}
  $<TARGET_PROPERTY:Halide::Runtime,INTERFACE_INCLUDE_DIRECTORIES>)
target_link_libraries(attune PRIVATE attune_halide_runtime)
