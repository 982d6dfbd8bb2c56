# SPDX-License-Identifier: MIT
# Programs that make kernels for devices, and the rule of a kernel: of the library (attune_cuda.cmake) and of attention that
# users write (attune_add_attention()). Programs and their parts are built where a kernel for a device is asked for.

# attune_need_device_main(result): the objects of every such program: main(), and the module of instructions that Halide's own
# module lacks. Without clang there is no such module, and there are no variants for tensor cores.
function(attune_need_device_main result)
  if(NOT TARGET attune_device_kernel)
    attune_add_generator_objects(attune_device_kernel lowering/device_generator_main.cpp
      lowering/halide_patches/private_runtime.cpp)
    set_target_properties(attune_device_kernel PROPERTIES EXCLUDE_FROM_ALL TRUE)
    find_program(ATTUNE_CLANG NAMES clang clang-14 clang-15 clang-16 clang-17 clang-18 clang-19 clang-20 clang-21)
    # Tools for GPU code: where both are installed, kernels hold it beside the PTX.
    find_program(ATTUNE_PTXAS ptxas HINTS /usr/local/cuda/bin)
    find_program(ATTUNE_FATBINARY fatbinary HINTS /usr/local/cuda/bin)
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
  endif()
  set(objects $<TARGET_OBJECTS:attune_device_kernel>)
  if(TARGET attune_device_module)
    list(APPEND objects $<TARGET_OBJECTS:attune_device_module>)
  endif()
  set(${result} ${objects} PARENT_SCOPE)
endfunction()

# attune_add_device_program(program object...): a program that makes kernels for devices.
function(attune_add_device_program program)
  attune_need_device_main(main)
  attune_need_parts(objects argument_check lowering)
  add_executable(${program} ${main} ${objects} ${ARGN})
  target_link_libraries(${program} PRIVATE Halide::Halide)
  set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL TRUE)
endfunction()

# attune_add_device_kernel(variant LIBRARY library PROGRAM program GENERATOR generator HALIDE halide-target FOLDER folder
#                          SCHEDULE schedule PARAMETERS k=v... [WITHOUT_IMAGE] [AFTER file])
# One object of the library, and <variant>.ptx beside it. WITHOUT_IMAGE: no GPU code, also where its tools are installed.
function(attune_add_device_kernel variant)
  cmake_parse_arguments(PARSE_ARGV 1 A "WITHOUT_IMAGE" "LIBRARY;PROGRAM;GENERATOR;HALIDE;FOLDER;SCHEDULE;AFTER" "PARAMETERS")
  set(more "")
  if(ATTUNE_PTXAS AND ATTUNE_FATBINARY AND NOT A_WITHOUT_IMAGE)
    cmake_path(GET ATTUNE_PTXAS PARENT_PATH tools)
    list(APPEND more --cuda-tools ${tools})
  endif()
  if(A_SCHEDULE MATCHES "^mma")
    list(APPEND more --instruction mma.sync)
  endif()
  add_custom_command(OUTPUT ${A_FOLDER}/${variant}.o BYPRODUCTS ${A_FOLDER}/${variant}.ptx
    COMMAND ${A_PROGRAM} -g ${A_GENERATOR} -f ${variant} -o ${A_FOLDER} ${more}
      target=${A_HALIDE}-user_context-no_bounds_query-no_runtime ${A_PARAMETERS}
    DEPENDS ${A_PROGRAM} ${A_AFTER} COMMENT "kernel ${variant}" VERBATIM)
  target_sources(${A_LIBRARY} PRIVATE ${A_FOLDER}/${variant}.o)
  set_source_files_properties(${A_FOLDER}/${variant}.o PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
endfunction()

# Whether a variant has a kernel over pages, too, which takes registers: the variants whose kernel does not spill.
function(attune_device_has_pages result op schedule dtype head_dim kind class)
  set(scored "")
  set(plain "")
  if(schedule STREQUAL "mma_split" AND dtype STREQUAL "f32")
    set(scored 64)
  elseif(schedule MATCHES "split$")
    set(scored 64 128)
  elseif(schedule STREQUAL "mma" AND dtype STREQUAL "f32")
    set(scored 128)
    set(plain 64)
  elseif(schedule STREQUAL "mma")
    set(scored 64)
    set(plain 128)
  endif()
  set(${result} FALSE PARENT_SCOPE)
  if(op STREQUAL "sdpa" AND (head_dim IN_LIST "${kind}" OR
                             (head_dim EQUAL 0 AND kind STREQUAL "scored" AND class MATCHES "^dim(64|256)$")))
    set(${result} TRUE PARENT_SCOPE)
  endif()
endfunction()

# attune_add_user_device_kernels(name dtype TARGET target [AS name HALIDE halide-target]): kernels for a device of the attention
# of attune_add_attention(), whose arguments are those of the caller: of HEAD_DIMS and the KINDS but weights, forward and, with
# BACKWARD, gradients. Schedule decode or split: split-KV, too. Parameters are those of sdpa for the target, of scored
# kernels before others: a score takes registers. AS: as for attune_add_device_kernels(). In the caller: ATTUNE_USER_SYMBOLS and
# ATTUNE_USER_ROWS grow, and ATTUNE_DEVICE_KERNELS and ATTUNE_DEVICE_KERNELS_FOLDER are set.
function(attune_add_user_device_kernels name dtype)
  cmake_parse_arguments(PARSE_ARGV 2 D "" "TARGET;AS;HALIDE" "")
  if(NOT TARGET ${name}.device_generator)
    attune_need_parts(parts sdpa_simt_generator attention_generator backward_rows_stages generator_math)
    attune_add_device_program(${name}.device_generator ${parts} $<TARGET_OBJECTS:${name}_definition>)
  endif()
  string(JSON halide GET "${ATTUNE_TARGETS_JSON}" device_targets ${D_TARGET} halide)
  set(target ${D_TARGET})
  set(image "")
  if(D_AS)
    set(target ${D_AS})
    set(halide ${D_HALIDE})
    set(image WITHOUT_IMAGE)
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}.device_kernels)
  file(MAKE_DIRECTORY ${folder})
  set(schedules simt mma)
  if("decode" IN_LIST A_SCHEDULES OR "split" IN_LIST A_SCHEDULES)
    list(APPEND schedules split mma_split)
  endif()
  list(TRANSFORM A_HEAD_DIMS REPLACE "^any$" 0 OUTPUT_VARIABLE head_dims)
  attune_list_user_device_kernels(user_${name} sdpa ${name})
  if(A_BACKWARD)
    attune_list_user_device_kernels(user_${name}_backward sdpa_backward ${name}_backward gradients=true)
    # Products are read channel by channel, for heads of any size.
    set(head_dims 0)
    set(schedules simt)
    attune_list_user_device_kernels(user_${name}_captures sdpa_backward ${name}_captures gradients=true of_captures=true)
  endif()
  foreach(result ATTUNE_USER_SYMBOLS ATTUNE_USER_ROWS ATTUNE_DEVICE_KERNELS)
    set(${result} "${${result}}" PARENT_SCOPE)
  endforeach()
  set(ATTUNE_DEVICE_KERNELS_FOLDER ${folder} PARENT_SCOPE)
endfunction()

# The kernels of one op of the attention, with the parameters of `own`, else of `like`. For the caller above.
macro(attune_list_user_device_kernels op like own)
  set(ATTUNE_OP_ATTENTION_${op} TRUE)
  foreach(parameters_of ${own} ${like})
    set(ATTUNE_OP_ATTENTION_${parameters_of} TRUE)
    attune_list_variants(${parameters_of} ${D_TARGET})
    foreach(key IN LISTS ATTUNE_KEYS)
      string(REPLACE "/" ";" fields "${key}/")
      list(GET fields 0 of_dtype)
      list(GET fields 1 head_dim)
      list(GET fields 2 schedule)
      list(GET fields 3 class)
      list(GET fields 4 of_kind)
      # Kernels of kind training have parameters of their own, since drawing takes registers, too; without tensor cores they
      # are those of any head size alone.
      set(any_size FALSE)
      if(of_kind STREQUAL "training" AND head_dim EQUAL 0)
        set(any_size TRUE)
      endif()
      if(NOT of_dtype STREQUAL dtype OR NOT (head_dim IN_LIST head_dims OR any_size) OR NOT schedule IN_LIST schedules OR
         (schedule MATCHES "^mma" AND NOT (ATTUNE_CLANG AND halide MATCHES "-cuda-")))
        continue()
      endif()
      string(REGEX REPLACE "/[a-z]+$" "/scored" scored "${key}")
      if(NOT of_kind STREQUAL "training" AND scored IN_LIST ATTUNE_KEYS AND NOT key STREQUAL scored)
        continue()
      endif()
      set(kinds ${A_KINDS})
      if(of_kind STREQUAL "training")
        list(FILTER kinds INCLUDE REGEX "^training$")
      else()
        list(FILTER kinds INCLUDE REGEX "^(plain|scored)$")
      endif()
      # One kernel of captures serves every size of the heads.
      if("${ARGN}" MATCHES "of_captures" AND NOT class STREQUAL "dim256")
        continue()
      endif()
      set(parameters ${ATTUNE_PARAMETERS_${key}})
      if(schedule MATCHES "^mma" AND "${parameters_of}" STREQUAL "${like}")
        # Two rows of a lane in place of four leave the registers that a user's score takes.
        list(TRANSFORM parameters REPLACE "^lane_rows=4$" "lane_rows=2")
        list(TRANSFORM parameters REPLACE "^tile_q=128$" "tile_q=64")
        list(TRANSFORM parameters REPLACE "^registers=.*" "registers=0")
      endif()
      foreach(kind IN LISTS kinds)
        attune_variant_name(kernel ${op} ${dtype} ${head_dim} ${target} ${schedule} "${class}" "${kind}")
        if(ATTUNE_USER_SYMBOLS MATCHES "int ${kernel}_argv")
          continue()
        endif()
        attune_add_device_kernel(${kernel} LIBRARY ${library} PROGRAM ${name}.device_generator GENERATOR sdpa_simt
          HALIDE ${halide} FOLDER ${folder} SCHEDULE ${schedule} ${image}
          AFTER ${CMAKE_CURRENT_BINARY_DIR}/${name}.attention/${name}.h
          PARAMETERS schedule=${schedule} dtype=${attune_halide_dtype_${dtype}} head_dim=${head_dim} kind=${kind}
            ${parameters} ${ARGN})
        attune_table_row(row ${kernel} OP ${op} DTYPE ${dtype} HEAD_DIM ${head_dim} TARGET ${target}
          SCHEDULE ${schedule} CLASS "${class}" KIND "${kind}" PARAMETERS ${parameters}
          PROVENANCE "${ATTUNE_PROVENANCE_${key}}")
        string(APPEND ATTUNE_USER_SYMBOLS "int ${kernel}_argv(void **);\n")
        string(APPEND ATTUNE_USER_ROWS "${row}")
        list(APPEND ATTUNE_DEVICE_KERNELS ${kernel})
      endforeach()
    endforeach()
  endforeach()
endmacro()
