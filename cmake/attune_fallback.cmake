# SPDX-License-Identifier: MIT
# attune_fallback: kernels of a lower target (avx2, on AArch64 arm64, or that of ATTUNE_FALLBACK) for an installed library on
# another CPU than it was built for, where only the root schedule would run, slowly and on one thread. Each op and type has one
# or two kernels for any sizes and options; their keys are among those of the built targets, too, so that on these CPUs dispatch
# chooses as without. Not in a default build: `cmake --install` builds it, and the program that is installed with it.
set(ATTUNE_FALLBACK ${PROJECT_IS_TOP_LEVEL} CACHE STRING
  "an installed library also has kernels for CPUs other than those it was built for: ON (avx2 or arm64), OFF, or their target")
if(ATTUNE_FALLBACK IN_LIST ATTUNE_ALL_TARGETS)
  set(attune_fallback_target ${ATTUNE_FALLBACK})
elseif(NOT ATTUNE_FALLBACK MATCHES "^(ON|OFF|TRUE|FALSE|1|0)$")
  message(FATAL_ERROR "ATTUNE_FALLBACK: must be ON, OFF or a target (${ATTUNE_ALL_TARGETS}), is ${ATTUNE_FALLBACK}")
elseif(ATTUNE_ARCHITECTURE STREQUAL "aarch64")
  set(attune_fallback_target arm64)
else()
  set(attune_fallback_target avx2)
endif()
set(attune_fallback_keys
  prefill/short/training prefill/long/training decode/rows4/training decode/rows4/scored rows//weights rows//none
  blocked//training blocks//none panels/many_rows/none panels/rows1/none)
list(JOIN attune_fallback_keys "|" attune_fallback_keys)
set(attune_fallback_keys "/0/(${attune_fallback_keys})$")

# Sets ATTUNE_HAS_FALLBACK: whether some built target is above the fallback's, and that one is not built.
macro(attune_choose_fallback)
  set(ATTUNE_HAS_FALLBACK OFF)
  if(ATTUNE_FALLBACK AND NOT ATTUNE_SANITIZE AND NOT attune_fallback_target IN_LIST ATTUNE_BUILT_TARGETS)
    foreach(target IN LISTS ATTUNE_BUILT_TARGETS)
      if(attune_fallback_target IN_LIST ATTUNE_FALLBACK_${target})
        set(ATTUNE_HAS_FALLBACK ON)
      endif()
    endforeach()
  endif()
endmacro()

# attune_install_after_building(target): builds the target, which `all` leaves out, before what follows is installed. Tests,
# which install side by side, have built it before: ATTUNE_INSTALL_AS_BUILT=1 in the environment.
function(attune_install_after_building target)
  install(CODE "
    if(NOT \"\$ENV{ATTUNE_INSTALL_AS_BUILT}\")
      message(STATUS \"Building ${target}\")
      execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${CMAKE_BINARY_DIR}\" --config \"\${CMAKE_INSTALL_CONFIG_NAME}\"
        --target ${target} --parallel OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
    endif()")
endfunction()

function(attune_add_fallback)
  set(name attune_fallback)
  set(sources "")
  set(kernels "")
  foreach(op IN LISTS ATTUNE_OPS)
    set(symbols "")
    set(rows "")
    set(count 0)
    set(own "")
    foreach(target IN LISTS ATTUNE_BUILT_TARGETS)
      attune_list_variants(${op} ${target})
      list(APPEND own ${ATTUNE_KEYS})
    endforeach()
    attune_list_variants(${op} ${attune_fallback_target})
    foreach(key IN LISTS ATTUNE_KEYS)
      attune_describe_variant(KEY "${key}" OP ${op} TARGET ${attune_fallback_target})
      if(NOT op IN_LIST ATTUNE_BUILT_OPS OR NOT dtype IN_LIST ATTUNE_BUILT_DTYPES OR NOT key MATCHES "${attune_fallback_keys}"
          OR NOT key IN_LIST own)
        continue()
      endif()
      list(APPEND kernels ${variant})
      set(kernel_${variant} GENERATOR ${ATTUNE_OP_PROGRAM_${op}}.generator
        TARGET ${ATTUNE_HALIDE_TARGET_${attune_fallback_target}} PARAMETERS ${generator_parameters})
      attune_table_row(row ${variant} OP ${op} DTYPE ${dtype} HEAD_DIM ${head_dim} TARGET ${attune_fallback_target}
        SCHEDULE ${schedule} CLASS "${class}" KIND "${kind}"
        PARAMETERS ${ATTUNE_PARAMETERS_${key}} PROVENANCE "${ATTUNE_PROVENANCE_${key}}")
      string(APPEND symbols "int ${variant}_argv(void **);\n")
      string(APPEND rows "${row}")
      math(EXPR count "${count} + 1")
    endforeach()
    configure_file(${ATTUNE_SOURCE_DIR}/cmake/fallback_variants.cpp.in ${PROJECT_BINARY_DIR}/tables/fallback_${op}.cpp @ONLY)
    list(APPEND sources ${PROJECT_BINARY_DIR}/tables/fallback_${op}.cpp)
  endforeach()
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${sources})
  set_target_properties(${name} PROPERTIES EXPORT_NAME fallback POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${name} PRIVATE $<TARGET_PROPERTY:attune,INTERFACE_INCLUDE_DIRECTORIES>)
  foreach(kernel IN LISTS kernels)
    attune_add_kernel(${kernel} LIBRARY ${name} ${kernel_${kernel}})
  endforeach()
  # The ops' tables refer to those of the fallback, whose kernels call the runtime; without the fallback, the runtime's archive
  # has empty tables in their place.
  target_link_libraries(${name} INTERFACE attune_halide_runtime)
  if(NOT BUILD_SHARED_LIBS)
    target_link_libraries(attune INTERFACE $<INSTALL_INTERFACE:attune::fallback>)
  endif()
  list(LENGTH kernels count)
  message(STATUS "attune: an installed library has ${count} kernels of ${attune_fallback_target} beside")
endfunction()
