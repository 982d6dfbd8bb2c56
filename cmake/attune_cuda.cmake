# SPDX-License-Identifier: MIT
# Kernels for devices, and the programs that make them. Not in a default build: preset cuda and the tests of CUDA name them.
attune_need_device_main(main)

# attune_add_op_device_program(name part...): the program <name>.generator with a generator of that name, linked from the part
# <name>_generator and others of cmake/attune_ops.cmake.
function(attune_add_op_device_program name)
  attune_need_parts(objects ${name}_generator ${ARGN})
  attune_add_device_program(${name}.generator ${objects})
  set_target_properties(attune_${name}_generator PROPERTIES EXCLUDE_FROM_ALL TRUE)
endfunction()

# Ops with variants for devices, and the program of each: lanes and warps need other forms than the CPU's.
attune_add_op_device_program(sdpa_simt attention_generator backward_rows_stages generator_math)
foreach(op sdpa sdpa_int8 sdpa_int4 sdpa_backward capture_gradient additive)
  set(ATTUNE_DEVICE_PROGRAM_${op} sdpa_simt)
endforeach()
foreach(op sdpa_backward capture_gradient)
  set(ATTUNE_DEVICE_PARAMETERS_${op} gradients=true)
endforeach()
attune_add_op_device_program(masked_softmax_simt generator_math)
set(ATTUNE_DEVICE_PROGRAM_masked_softmax masked_softmax_simt)

attune_add_op_device_program(linear_simt generator_math)
set(ATTUNE_DEVICE_PROGRAM_linear linear_simt)
attune_add_op_device_program(merge_simt generator_math)
set(ATTUNE_DEVICE_PROGRAM_merge merge_simt)
attune_add_op_device_program(rows_simt rows_stages generator_math)
foreach(op transform_rows quantise_rows)
  set(ATTUNE_DEVICE_PROGRAM_${op} rows_simt)
endforeach()
foreach(op sink_gradient capture_sum)
  attune_add_op_device_program(${op}_simt backward_rows_simt backward_rows_stages attention_generator generator_math)
  set(ATTUNE_DEVICE_PROGRAM_${op} ${op}_simt)
endforeach()

# attune_add_device_kernels(library TARGET target [AS name HALIDE halide-target] [ONLY regex]): one object for each variant of a
# target of "device_targets", of every op with a program for devices, joined to the library. In the library attune the variants
# are rows of its table, elsewhere a source registers them. AS: the same schedules and parameters for another device, under
# another name, and without GPU code. ONLY: variants whose name matches. In the caller: ATTUNE_DEVICE_KERNELS, their names,
# ATTUNE_DEVICE_KERNELS_LEFT_OUT, the others, and ATTUNE_DEVICE_KERNELS_FOLDER, which holds <name>.ptx beside the
# objects.
function(attune_add_device_kernels library)
  cmake_parse_arguments(PARSE_ARGV 1 A "" "TARGET;AS;HALIDE;ONLY" "")
  string(JSON halide GET "${ATTUNE_TARGETS_JSON}" device_targets ${A_TARGET} halide)
  set(target ${A_TARGET})
  set(image "")
  if(A_AS)
    set(image WITHOUT_IMAGE)
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
      attune_add_device_kernel(${variant} LIBRARY ${library} PROGRAM ${program}.generator GENERATOR ${program}
        HALIDE ${halide} FOLDER ${folder} SCHEDULE ${schedule} ${image}
        PARAMETERS ${generator_parameters} ${ATTUNE_DEVICE_PARAMETERS_${op}})
      list(APPEND names ${variant})
      set(pages "")
      attune_device_has_pages(has_pages ${op} ${schedule} ${dtype} ${head_dim} "${kind}" "${class}")
      if(has_pages)
        set(pages PAGES_KERNEL ${variant}_pages)
        list(TRANSFORM generator_parameters REPLACE "^registers=.*" "registers=0")
        attune_add_device_kernel(${variant}_pages LIBRARY ${library} PROGRAM ${program}.generator GENERATOR ${program}
          HALIDE ${halide} FOLDER ${folder} SCHEDULE ${schedule} ${image} PARAMETERS ${generator_parameters} cache=pages)
        list(APPEND names ${variant}_pages)
      endif()
      if(library STREQUAL "attune")
        attune_add_table_row(${variant} OP ${op} DTYPE ${dtype} HEAD_DIM ${head_dim} TARGET ${target}
          SCHEDULE ${schedule} CLASS "${class}" KIND "${kind}"
          PARAMETERS ${ATTUNE_PARAMETERS_${key}} PROVENANCE "${ATTUNE_PROVENANCE_${key}}" ${pages})
        continue()
      endif()
      attune_table_row(row ${variant} OP ${op} DTYPE ${dtype} HEAD_DIM ${head_dim} TARGET ${target}
        SCHEDULE ${schedule} CLASS "${class}" KIND "${kind}"
        PARAMETERS ${ATTUNE_PARAMETERS_${key}} PROVENANCE "${ATTUNE_PROVENANCE_${key}}" ${pages})
      string(APPEND symbols "int ${variant}_argv(void **);\n")
      if(has_pages)
        string(APPEND symbols "int ${variant}_pages_argv(void **);\n")
      endif()
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
