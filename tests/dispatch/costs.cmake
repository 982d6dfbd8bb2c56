# SPDX-License-Identifier: MIT
# Which file the coefficients of a variant come from (cmake/attune_costs.cmake), in a tree that is made here.
cmake_minimum_required(VERSION 3.28)
include(${ATTUNE_CMAKE}/attune_parameters.cmake)
include(${ATTUNE_CMAKE}/attune_costs.cmake)
set(ATTUNE_SOURCE_DIR ${FOLDER}/costs_tree)
file(REMOVE_RECURSE ${ATTUNE_SOURCE_DIR})

function(write_costs folder op target costs)
  file(WRITE ${folder}/costs/${target}.json
    "{\"schema\": 1, \"op\": \"${op}\", \"target\": \"${target}\", \"costs\": {${costs}}}")
endfunction()
write_costs(${ATTUNE_SOURCE_DIR}/schedules/sdpa sdpa new
  "\"f32/64/prefill/long/plain\": {\"cost\": [1, 2.5, 1e-3, 0, 5, 6, 7]}")
write_costs(${ATTUNE_SOURCE_DIR}/schedules/sdpa sdpa old
  "\"f32/64/prefill/long/plain\": {\"cost\": [9,9,9,9,9,9,9]}, \"f32/0/decode//plain\": {\"cost\": [1, 1, 1, 1, 1, 1, 1]}")
write_costs(${FOLDER}/costs_tree/mine/sdpa sdpa new "\"f32/0/split//plain\": {\"cost\": [7, 7, 7, 7, 7, 7, 7]}")
set(ATTUNE_COSTS_FROM_new old)
set(ATTUNE_SCHEDULE_PATH ${FOLDER}/costs_tree/mine)

function(expect op target key cost cost_target)
  attune_cost_of(found found_target ${op} ${target} "${key}")
  string(REPLACE " " "" found "${found}")
  if(NOT found STREQUAL cost OR NOT found_target STREQUAL cost_target)
    message(SEND_ERROR "${op} ${target} ${key}: ${found} of '${found_target}', expected ${cost} of '${cost_target}'")
  endif()
endfunction()
# CMake writes a decimal fraction with all digits of a double.
expect(sdpa new f32/64/prefill/long/plain "1,2.5,0.001,0,5,6,7" new)
expect(sdpa new f32/0/decode//plain "1,1,1,1,1,1,1" old)        # of costs_from
expect(sdpa new f32/0/split//plain "7,7,7,7,7,7,7" new)         # of ATTUNE_SCHEDULE_PATH
expect(sdpa new f64/0/split//plain "0,0,0,0,0,0,0" "")          # by rule
expect(sdpa old f32/0/split//plain "0,0,0,0,0,0,0" "")
expect(linear new f32/0/panels/rows1/none "0,0,0,0,0,0,0" "")   # no such file
expect(user_mine new f32/0/decode//plain "1,1,1,1,1,1,1" old)   # a user's attention has those of sdpa
expect(user_mine_backward new f32/0/decode//plain "0,0,0,0,0,0,0" "")
