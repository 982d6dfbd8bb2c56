# SPDX-License-Identifier: MIT
# Kernels for devices, and the programs that make them. Not in a default build: preset cuda and the tests of CUDA name them.
attune_add_generator_objects(attune_device_kernel lowering/device_generator_main.cpp
  lowering/halide_patches/private_runtime.cpp)
set_target_properties(attune_device_kernel PROPERTIES EXCLUDE_FROM_ALL TRUE)

# Instructions that Halide's own module lacks. Without clang there are no variants with these.
find_program(ATTUNE_CLANG NAMES clang clang-14 clang-15 clang-16 clang-17 clang-18 clang-19 clang-20 clang-21)
if(ATTUNE_CLANG)
  set(device_module ${CMAKE_CURRENT_BINARY_DIR}/device_module)
  add_custom_command(OUTPUT ${device_module}.cpp BYPRODUCTS ${device_module}.bc
    COMMAND ${ATTUNE_CLANG} -x cl -cl-std=CL1.2 -target nvptx64-nvidia-cuda -O2 -emit-llvm
      -c ${ATTUNE_SOURCE_DIR}/lowering/instructions/nvptx.cl -o ${device_module}.bc
    COMMAND ${CMAKE_COMMAND} -DMODULE=ptx_dev -DBITCODE=${device_module}.bc -DOUT=${device_module}.cpp
      -P ${ATTUNE_SOURCE_DIR}/cmake/embed_module.cmake
    DEPENDS ${ATTUNE_SOURCE_DIR}/lowering/instructions/nvptx.cl ${ATTUNE_SOURCE_DIR}/cmake/embed_module.cmake VERBATIM)
  add_library(attune_device_module OBJECT ${device_module}.cpp)
  set_target_properties(attune_device_module PROPERTIES EXCLUDE_FROM_ALL TRUE)
else()
  message(STATUS "attune: no clang: no variants for tensor cores")
endif()

# attune_add_device_program(name part...): the program <name>.generator with a generator of that name, linked from the part
# <name>_generator and others of cmake/attune_ops.cmake.
function(attune_add_device_program name)
  attune_need_parts(objects ${name}_generator argument_check lowering ${ARGN})
  add_executable(${name}.generator $<TARGET_OBJECTS:attune_device_kernel> ${objects})
  if(TARGET attune_device_module)
    target_sources(${name}.generator PRIVATE $<TARGET_OBJECTS:attune_device_module>)
  endif()
  target_link_libraries(${name}.generator PRIVATE Halide::Halide)
  set_target_properties(${name}.generator attune_${name}_generator PROPERTIES EXCLUDE_FROM_ALL TRUE)
endfunction()

# Ops with variants for devices, and the program of each: lanes and warps need other forms than the CPU's.
set(attune_part_sdpa_simt_generator generators/attention/gpu/simt_stages.cpp generators/attention/gpu/mma_fragments.cpp
  generators/attention/gpu/mma_stages.cpp generators/attention/gpu/online_softmax.cpp
  generators/attention/gpu/gradient_pairs.cpp generators/attention/gpu/simt_gradient_stages.cpp
  generators/attention/gpu/mma_gradient_stages.cpp generators/programs/sdpa_simt_generator.cpp
  schedules/sdpa/simt_instructions.cpp schedules/sdpa/mma_instructions.cpp schedules/sdpa/cuda_simt.cpp
  schedules/sdpa/cuda_gradient.cpp schedules/sdpa/mma_block.cpp schedules/sdpa/cuda_mma.cpp
  schedules/sdpa/cuda_mma_gradient.cpp)
attune_add_device_program(sdpa_simt attention_generator backward_rows_stages generator_math)
foreach(op sdpa sdpa_backward additive)
  set(ATTUNE_DEVICE_PROGRAM_${op} sdpa_simt)
endforeach()
set(ATTUNE_DEVICE_PARAMETERS_sdpa_backward gradients=true)
set(attune_part_masked_softmax_simt_generator generators/masked_softmax/masked_softmax_simt_stages.cpp
  generators/programs/masked_softmax_simt_generator.cpp schedules/masked_softmax/simt_instructions.cpp
  schedules/masked_softmax/cuda_simt.cpp)
attune_add_device_program(masked_softmax_simt generator_math)
set(ATTUNE_DEVICE_PROGRAM_masked_softmax masked_softmax_simt)

set(attune_part_linear_simt_generator generators/linear/linear_simt_stages.cpp
  generators/programs/linear_simt_generator.cpp schedules/linear/cuda_simt.cpp)
attune_add_device_program(linear_simt generator_math)
set(ATTUNE_DEVICE_PROGRAM_linear linear_simt)

# Tools for GPU code: where both are installed, kernels hold it beside the PTX.
find_program(ATTUNE_PTXAS ptxas HINTS /usr/local/cuda/bin)
find_program(ATTUNE_FATBINARY fatbinary HINTS /usr/local/cuda/bin)

# attune_add_device_kernels(library TARGET target [AS name HALIDE halide-target] [ONLY regex]): one object for each variant of a
# target of "device_targets", of every op with a program for devices, joined to the library. In the library attune the variants
# are rows of its table, elsewhere a source registers them. AS: the same schedules and parameters for another device, under
# another name, and without GPU code. ONLY: variants whose name matches. In the caller: ATTUNE_DEVICE_KERNELS, their names,
# ATTUNE_DEVICE_KERNELS_LEFT_OUT, those that do not match, and ATTUNE_DEVICE_KERNELS_FOLDER, which holds <name>.ptx beside the
# objects.
function(attune_add_device_kernels library)
  cmake_parse_arguments(PARSE_ARGV 1 A "" "TARGET;AS;HALIDE;ONLY" "")
  string(JSON halide GET "${ATTUNE_TARGETS_JSON}" device_targets ${A_TARGET} halide)
  set(target ${A_TARGET})
  set(tools "")
  if(ATTUNE_PTXAS AND ATTUNE_FATBINARY)
    cmake_path(GET ATTUNE_PTXAS PARENT_PATH tools)
    set(tools --cuda-tools ${tools})
  endif()
  if(A_AS)
    set(tools "")
    set(halide ${A_HALIDE})
    set(target ${A_AS})
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${library}_kernels)
  file(MAKE_DIRECTORY ${folder})
  set(symbols "")
  set(rows "")
  set(names "")
  set(left_out "")
  foreach(op IN LISTS ATTUNE_OPS)
    if(NOT ATTUNE_DEVICE_PROGRAM_${op} OR NOT op IN_LIST ATTUNE_BUILT_OPS)
      continue()
    endif()
    set(program ${ATTUNE_DEVICE_PROGRAM_${op}})
    attune_list_variants(${op} ${A_TARGET})
    foreach(key IN LISTS ATTUNE_KEYS)
      attune_describe_variant(KEY "${key}" OP ${op} TARGET ${target})
      # Without clang there are no kernels for tensor cores.
      if(NOT dtype IN_LIST ATTUNE_BUILT_DTYPES OR (schedule MATCHES "^mma" AND NOT ATTUNE_CLANG))
        continue()
      endif()
      if(A_ONLY AND NOT variant MATCHES "${A_ONLY}")
        list(APPEND left_out ${variant})
        continue()
      endif()
      set(instruction "")
      if(schedule MATCHES "^mma")
        set(instruction --instruction mma.sync)
      endif()
      add_custom_command(OUTPUT ${folder}/${variant}.o BYPRODUCTS ${folder}/${variant}.ptx
        COMMAND ${program}.generator -g ${program} -f ${variant} -o ${folder} ${tools} ${instruction}
          target=${halide}-user_context-no_bounds_query-no_runtime ${generator_parameters} ${ATTUNE_DEVICE_PARAMETERS_${op}}
        DEPENDS ${program}.generator COMMENT "kernel ${variant}" VERBATIM)
      target_sources(${library} PRIVATE ${folder}/${variant}.o)
      set_source_files_properties(${folder}/${variant}.o PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
      list(APPEND names ${variant})
      if(library STREQUAL "attune")
        attune_add_table_row(${variant} OP ${op} DTYPE ${dtype} HEAD_DIM ${head_dim} TARGET ${target}
          SCHEDULE ${schedule} CLASS "${class}" KIND "${kind}"
          PARAMETERS ${ATTUNE_PARAMETERS_${key}} PROVENANCE "${ATTUNE_PROVENANCE_${key}}")
        continue()
      endif()
      attune_table_row(row ${variant} OP ${op} DTYPE ${dtype} HEAD_DIM ${head_dim} TARGET ${target}
        SCHEDULE ${schedule} CLASS "${class}" KIND "${kind}"
        PARAMETERS ${ATTUNE_PARAMETERS_${key}} PROVENANCE "${ATTUNE_PROVENANCE_${key}}")
      string(APPEND symbols "int ${variant}_argv(void **);\n")
      string(APPEND rows "${row}")
    endforeach()
  endforeach()
  if(NOT library STREQUAL "attune")
    configure_file(${ATTUNE_SOURCE_DIR}/cmake/device_variants.cpp.in ${folder}/variants.cpp @ONLY)
    target_sources(${library} PRIVATE ${folder}/variants.cpp)
  endif()
  set(ATTUNE_DEVICE_KERNELS ${names} PARENT_SCOPE)
  set(ATTUNE_DEVICE_KERNELS_LEFT_OUT ${left_out} PARENT_SCOPE)
  set(ATTUNE_DEVICE_KERNELS_FOLDER ${folder} PARENT_SCOPE)
endfunction()

# Preset cuda: kernels and the backend that runs them, in the library.
if(ATTUNE_CUDA)
  attune_add_device_kernels(attune TARGET cuda80)
  target_sources(attune PRIVATE runtime/src/device/cuda_backend.cpp)
  target_compile_definitions(attune PRIVATE ATTUNE_CUDA)
endif()
