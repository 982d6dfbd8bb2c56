# SPDX-License-Identifier: MIT
# Baselines for schedules, for the first target built: schedules found by Halide's autoschedulers, kept as files.
list(GET ATTUNE_BUILT_TARGETS 0 target)
foreach(schedule mullapudi2016 adams2019)
  set(file ${PROJECT_SOURCE_DIR}/schedules/sdpa/autoscheduled/${schedule}.schedule.h)
  file(STRINGS ${file} algorithm REGEX "^// algorithm " LIMIT_COUNT 1)
  if(NOT algorithm STREQUAL "// algorithm ${ATTUNE_ALGORITHM_sdpa}")
    message(STATUS "${schedule} was found for an earlier text of the algorithm; scripts/autoschedule finds it again")
  endif()
  attune_variant_name(name sdpa f32 64 ${target} ${schedule} "" plain)
  set(parameters kv_block=128)
  attune_add_kernel(${name} GENERATOR sdpa.generator TARGET ${ATTUNE_HALIDE_TARGET_${target}}
    PARAMETERS schedule=${schedule} dtype=float32 head_dim=64 ${parameters})
  attune_add_table_row(${name} OP sdpa DTYPE f32 HEAD_DIM 64 TARGET ${target} SCHEDULE ${schedule} KIND plain
    PARAMETERS ${parameters} PROVENANCE scripts/autoschedule FORCED_ONLY)
endforeach()
