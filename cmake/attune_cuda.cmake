# Kernels for devices, and the programs that make them. No part of a default build: preset cuda and the tests of CUDA name them.
attune_add_generator_objects(attune_sdpa_lanes_generator generators/sdpa/lane_stages.cpp generators/sdpa/sdpa_lanes_generator.cpp
  schedules/sdpa/lane_instructions.cpp schedules/sdpa/cuda_simt.cpp)
set(attune_sdpa_lanes_objects $<TARGET_OBJECTS:attune_sdpa_lanes_generator> ${attune_attention_objects})
add_halide_generator(sdpa_lanes.generator SOURCES ${attune_sdpa_lanes_objects})
set_target_properties(attune_sdpa_lanes_generator sdpa_lanes.generator PROPERTIES EXCLUDE_FROM_ALL TRUE)

# attune_add_device_kernels(library TARGET target [AS name HALIDE halide-target] [ONLY regex]): one object for each variant of sdpa of a
# target of "device_targets", joined to the library, and a source that registers them. AS: the same schedules and numbers for another
# device, under another name. ONLY: variants whose name matches. In the caller: ATTUNE_DEVICE_KERNELS, their names, and
# ATTUNE_DEVICE_KERNELS_FOLDER, which holds <name>.device_code beside the objects.
function(attune_add_device_kernels library)
  cmake_parse_arguments(PARSE_ARGV 1 A "" "TARGET;AS;HALIDE;ONLY" "")
  string(JSON halide GET "${ATTUNE_TARGETS_JSON}" device_targets ${A_TARGET} halide)
  set(target ${A_TARGET})
  if(A_AS)
    set(halide ${A_HALIDE})
    set(target ${A_AS})
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${library}_kernels)
  file(MAKE_DIRECTORY ${folder})
  attune_list_variants(sdpa ${A_TARGET})
  set(symbols "")
  set(rows "")
  set(names "")
  foreach(key IN LISTS ATTUNE_KEYS)
    attune_describe_variant(sdpa ${target} "${key}")
    if(A_ONLY AND NOT name MATCHES "${A_ONLY}")
      continue()
    endif()
    add_custom_command(OUTPUT ${folder}/${name}.o ${folder}/${name}.device_code
      COMMAND sdpa_lanes.generator -g sdpa_lanes -f ${name} -n ${name} -o ${folder} -e object,device_code
        target=${halide}-user_context-no_bounds_query-no_runtime ${params}
      DEPENDS sdpa_lanes.generator COMMENT "kernel ${name}" VERBATIM)
    target_sources(${library} PRIVATE ${folder}/${name}.o)
    set_source_files_properties(${folder}/${name}.o PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    attune_table_row(row ${name} sdpa ${dtype} ${head_dim} ${target} ${schedule} "${class}" "${kind}" "${ATTUNE_NUMBERS_${key}}"
      "${ATTUNE_PROVENANCE_${key}}" true)
    string(APPEND symbols "int ${name}_argv(void **);\n")
    string(APPEND rows "${row}")
    list(APPEND names ${name})
  endforeach()
  configure_file(${ATTUNE_SOURCE_DIR}/cmake/device_variants.cpp.in ${folder}/variants.cpp @ONLY)
  target_sources(${library} PRIVATE ${folder}/variants.cpp)
  set(ATTUNE_DEVICE_KERNELS ${names} PARENT_SCOPE)
  set(ATTUNE_DEVICE_KERNELS_FOLDER ${folder} PARENT_SCOPE)
endfunction()
