# SPDX-License-Identifier: MIT
# attune_choose_targets(): ATTUNE_BUILT_TARGETS from ATTUNE_TARGETS. `native` runs the code by which dispatch knows this
# machine.
function(attune_choose_targets)
  if(ATTUNE_TARGETS STREQUAL "all")
    set(built ${ATTUNE_ALL_TARGETS})
  elseif(ATTUNE_TARGETS STREQUAL "native")
    if(NOT DEFINED CACHE{ATTUNE_NATIVE_TARGET})
      try_run(ran compiled
        SOURCES ${ATTUNE_SOURCE_DIR}/cmake/print_native_target.cpp ${ATTUNE_SOURCE_DIR}/runtime/src/dispatch/cpu_features.cpp
        CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${ATTUNE_SOURCE_DIR}/runtime/src
        CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON
        COMPILE_OUTPUT_VARIABLE compile_output RUN_OUTPUT_STDOUT_VARIABLE native)
      if(NOT compiled OR NOT ran EQUAL 0)
        message(FATAL_ERROR "cannot find out this machine's target; set ATTUNE_TARGETS\n${compile_output}")
      endif()
      string(STRIP "${native}" native)
      set(ATTUNE_NATIVE_TARGET ${native} CACHE INTERNAL "the most specific target that this machine runs")
    endif()
    set(built ${ATTUNE_NATIVE_TARGET})
  else()
    set(built ${ATTUNE_TARGETS})
  endif()
  foreach(target IN LISTS built)
    if(NOT target IN_LIST ATTUNE_ALL_TARGETS)
      message(FATAL_ERROR "ATTUNE_TARGETS: no target ${target} in schedules/targets.json (${ATTUNE_ALL_TARGETS})")
    endif()
  endforeach()
  message(STATUS "attune targets: ${built}")
  set(ATTUNE_BUILT_TARGETS ${built} PARENT_SCOPE)
endfunction()
