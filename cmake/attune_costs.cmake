# SPDX-License-Identifier: MIT
# Reads schedules/<op>/costs/<target>.json: the coefficients of the predicted times by which dispatch chooses (docs/design/
# dispatch.md), as `attune tune --dispatch` fits them.
#
# Those of a variant come from the first of these that has its key: the target itself, then the targets of "costs_from" of
# schedules/targets.json, for machines that nobody has measured; for each of them first the folders of ATTUNE_SCHEDULE_PATH
# (<op>/costs/<target>.json), then this tree. A user's attention has those of sdpa where it has none of its own.

# attune_cost_of(result result_target op target key): the coefficients, and the target that they were measured on; zeros and
# "" where there are none, and dispatch predicts by rule.
function(attune_cost_of result result_target op target key)
  string(REGEX REPLACE "^user_" "" own "${op}")  # as its file is named
  set(ops ${own})
  if(NOT own STREQUAL op AND NOT own MATCHES "_backward$")
    list(APPEND ops sdpa)
  endif()
  attune_schedule_path(folders)
  set(${result} "0, 0, 0, 0, 0, 0, 0" PARENT_SCOPE)
  set(${result_target} "" PARENT_SCOPE)
  foreach(from ${target} ${ATTUNE_COSTS_FROM_${target}})
    foreach(like IN LISTS ops)
      set(files "")
      foreach(folder IN LISTS folders)
        list(APPEND files ${folder}/${like}/costs/${from}.json)
      endforeach()
      foreach(file IN LISTS files ITEMS ${ATTUNE_SOURCE_DIR}/schedules/${like}/costs/${from}.json)
        attune_read_costs(json ${file} ${like} ${from})
        string(JSON cost ERROR_VARIABLE error GET "${json}" costs "${key}" cost)
        if(NOT error AND cost MATCHES "^\\[([-+.0-9e, \n]*)\\]$")
          string(REGEX REPLACE "[ \n]+" " " cost "${CMAKE_MATCH_1}")
          set(${result} "${cost}" PARENT_SCOPE)
          set(${result_target} ${from} PARENT_SCOPE)
          return()
        endif()
      endforeach()
    endforeach()
  endforeach()
endfunction()

# The text of a costs file, read once for a project; "{}" where there is none.
function(attune_read_costs result file op target)
  get_property(json GLOBAL PROPERTY ATTUNE_COSTS_${file})
  if(NOT json)
    set(json "{}")
    if(EXISTS ${file})
      file(READ ${file} json)
      attune_check_parameters_file(${file} "${json}" ${op} ${target})
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    endif()
    if(NOT CMAKE_SCRIPT_MODE_FILE)
      file(GLOB found CONFIGURE_DEPENDS ${file})  # also one that comes later
    endif()
    set_property(GLOBAL PROPERTY ATTUNE_COSTS_${file} "${json}")
  endif()
  set(${result} "${json}" PARENT_SCOPE)
endfunction()
