# SPDX-License-Identifier: MIT
# attune_add_op(op): a kernel for each variant of the op (cmake/attune_ops.cmake), compiled into libattune.a, with a row of the
# dispatcher's table.
include(${CMAKE_CURRENT_LIST_DIR}/attune_parameters.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/attune_costs.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/attune_programs.cmake)

# Names of element types in JSON, in Halide and in attune::DType.
set(attune_halide_dtype_f32 float32)
set(attune_halide_dtype_f64 float64)
set(attune_halide_dtype_bf16 bfloat16)
set(attune_halide_dtype_f16 float16)
set(attune_halide_dtype_bool uint8)
set(attune_cpp_dtype_f32 f32)
set(attune_cpp_dtype_f64 f64)
set(attune_cpp_dtype_bf16 bf16)
set(attune_cpp_dtype_f16 f16)
set(attune_cpp_dtype_bool boolean)

function(attune_add_op op)
  attune_need_op(${op})
  set(list "")
  foreach(target IN LISTS ATTUNE_ALL_TARGETS)
    attune_list_variants(${op} ${target})
    foreach(key IN LISTS ATTUNE_KEYS)
      attune_describe_variant(KEY "${key}" OP ${op} TARGET ${target})
      if(NOT target IN_LIST ATTUNE_BUILT_TARGETS AND NOT schedule STREQUAL "root")
        continue()
      elseif(NOT dtype IN_LIST ATTUNE_BUILT_DTYPES AND NOT op MATCHES "^(sink_gradient|capture_sum.*)$")  # built for all types
        continue()
      endif()
      attune_add_kernel(${variant} GENERATOR ${ATTUNE_OP_PROGRAM_${op}}.generator TARGET ${ATTUNE_HALIDE_TARGET_${target}}
        PARAMETERS ${generator_parameters})
      set(pages "")
      attune_has_pages(has_pages ${op} ${schedule} ${dtype} ${head_dim} "${kind}")
      if(has_pages)
        set(pages PAGES_KERNEL ${variant}_pages)
        attune_add_kernel(${variant}_pages GENERATOR ${ATTUNE_OP_PROGRAM_${op}}.generator
          TARGET ${ATTUNE_HALIDE_TARGET_${target}} PARAMETERS ${generator_parameters} cache=pages)
      endif()
      attune_add_table_row(${variant} OP ${op} DTYPE ${dtype} HEAD_DIM ${head_dim} TARGET ${target}
        SCHEDULE ${schedule} CLASS "${class}" KIND "${kind}"
        PARAMETERS ${ATTUNE_PARAMETERS_${key}} PROVENANCE "${ATTUNE_PROVENANCE_${key}}" ${pages})
      string(APPEND list "${line}")
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${op}_variants.txt CONTENT "${list}")
endfunction()

# Whether a variant has a kernel over pages, too: decode of f32, bf16 and f16 over heads of 64, 128 and any size; where scores
# change, over heads of any size. Each kernel takes a second of the build; rows of other variants are copied.
function(attune_has_pages result op schedule dtype head_dim kind)
  set(${result} FALSE PARENT_SCOPE)
  if(op STREQUAL "sdpa" AND schedule STREQUAL "decode" AND NOT dtype STREQUAL "f64" AND
     ((kind STREQUAL "plain" AND head_dim MATCHES "^(0|64|128)$") OR (kind STREQUAL "scored" AND head_dim EQUAL 0)))
    set(${result} TRUE PARENT_SCOPE)
  endif()
endfunction()

# attune_add_table_row(variant OP op ...): adds a row to the library's table of the op; arguments as for attune_table_row().
function(attune_add_table_row name)
  cmake_parse_arguments(PARSE_ARGV 1 A "" "OP;PAGES_KERNEL" "")
  set(pages "")
  if(A_PAGES_KERNEL)
    set(pages PAGES_KERNEL ${A_PAGES_KERNEL})
    set_property(GLOBAL APPEND PROPERTY ATTUNE_TABLE_PAGES_KERNELS_${A_OP} ${A_PAGES_KERNEL})
  endif()
  attune_table_row(row ${name} OP ${A_OP} ${A_UNPARSED_ARGUMENTS} ${pages})
  set_property(GLOBAL APPEND PROPERTY ATTUNE_TABLE_KERNELS_${A_OP} ${name})
  set_property(GLOBAL APPEND_STRING PROPERTY ATTUNE_TABLE_ROWS_${A_OP} "${row}")
endfunction()

# attune_table_row(result variant OP op DTYPE dtype HEAD_DIM size TARGET target SCHEDULE schedule [CLASS class] [KIND kind]
#                  [PARAMETERS k=v...] [PROVENANCE text] [KERNEL name] [PAGES_KERNEL name] [FORCED_ONLY])
# The row of a variant in the dispatcher's table (VariantRecord), in C++. Its kernel is <variant>_argv, or that of KERNEL; that
# of PAGES_KERNEL reads rows of pages.
# FORCED_ONLY: dispatch never chooses the variant.
function(attune_table_row result name)
  cmake_parse_arguments(PARSE_ARGV 2 A "FORCED_ONLY" "OP;DTYPE;HEAD_DIM;TARGET;SCHEDULE;PROVENANCE;KERNEL;PAGES_KERNEL"
    "CLASS;KIND;PARAMETERS")  # lists, since they may be empty
  foreach(needed OP DTYPE HEAD_DIM TARGET SCHEDULE)
    if("${A_${needed}}" STREQUAL "")
      message(FATAL_ERROR "attune_table_row(${name}): ${needed} is missing")
    endif()
  endforeach()
  if(A_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "attune_table_row(${name}): unknown arguments ${A_UNPARSED_ARGUMENTS}")
  endif()
  set(kernel ${name})
  if(A_KERNEL)
    set(kernel ${A_KERNEL})
  endif()
  set(pages_kernel nullptr)
  if(A_PAGES_KERNEL)
    set(pages_kernel ${A_PAGES_KERNEL}_argv)
  endif()
  set(dispatched true)
  if(A_FORCED_ONLY)
    set(dispatched false)
  endif()
  set(tile_q 1)
  set(kv_block 1)
  foreach(parameter IN LISTS A_PARAMETERS)
    if(parameter MATCHES "^(tile_q|kv_block)=([0-9]+)$")
      set(${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
    endif()
  endforeach()
  set(kind none)
  if(A_KIND)
    set(kind ${A_KIND})
  endif()
  attune_cost_of(cost cost_target ${A_OP} ${A_TARGET} "${A_DTYPE}/${A_HEAD_DIM}/${A_SCHEDULE}/${A_CLASS}/${kind}")
  list(JOIN A_PARAMETERS " " parameters)
  string(REPLACE "\"" "'" provenance "${A_PROVENANCE}")
  string(CONCAT row "    {\"${name}\", \"${A_OP}\", DType::${attune_cpp_dtype_${A_DTYPE}}, ${A_HEAD_DIM}, \"${A_TARGET}\", "
    "\"${A_SCHEDULE}\", \"${A_CLASS}\", \"${A_KIND}\", \"${parameters}\",\n"
    "     \"${provenance}\", ${tile_q}, ${kv_block}, {${cost}}, \"${cost_target}\", ${dispatched}, ${kernel}_argv,\n"
    "     ${pages_kernel}},\n")
  set(${result} "${row}" PARENT_SCOPE)
endfunction()

# attune_describe_variant(KEY key OP op TARGET target)
# Describes a key of attune_list_variants() in variables of the caller: variant (its name), dtype, head_dim, schedule, class,
# kind, generator_parameters, and line (for print_loop_nests).
function(attune_describe_variant)
  cmake_parse_arguments(PARSE_ARGV 0 A "" "KEY;OP;TARGET" "")
  set(op ${A_OP})
  set(target ${A_TARGET})
  set(key "${A_KEY}")
  string(REPLACE "/" ";" fields "${key}/")
  list(GET fields 0 dtype)
  list(GET fields 1 head_dim)
  list(GET fields 2 schedule)
  list(GET fields 3 class)
  list(GET fields 4 kind)
  attune_variant_name(variant ${op} ${dtype} ${head_dim} ${target} ${schedule} "${class}" "${kind}")
  set(generator_parameters schedule=${schedule} dtype=${attune_halide_dtype_${dtype}} ${ATTUNE_PARAMETERS_${key}}
    ${ATTUNE_OP_PARAMETERS_${op}})
  if(ATTUNE_OP_ATTENTION_${op})
    list(APPEND generator_parameters head_dim=${head_dim} kind=${kind})
  else()
    set(kind "")
  endif()
  list(JOIN generator_parameters " " line)
  set(line "${variant} ${ATTUNE_HALIDE_TARGET_${target}} ${line}\n")
  foreach(result variant dtype head_dim schedule class kind generator_parameters line)
    set(${result} "${${result}}" PARENT_SCOPE)
  endforeach()
endfunction()

# attune_list_shipped_variants(op target file regex): lines for print_loop_nests of variants whose name matches, with the
# parameters of this tree, whatever ATTUNE_SCHEDULE_PATH and the built targets are.
function(attune_list_shipped_variants op target file regex)
  set(ATTUNE_SCHEDULE_PATH "")
  attune_list_variants(${op} ${target})
  set(list "")
  foreach(key IN LISTS ATTUNE_KEYS)
    attune_describe_variant(KEY "${key}" OP ${op} TARGET ${target})
    if(variant MATCHES "${regex}")
      string(APPEND list "${line}")
    endif()
  endforeach()
  file(CONFIGURE OUTPUT ${file} CONTENT "${list}")
endfunction()

# attune_add_kernel(name GENERATOR program TARGET halide-target PARAMETERS k=v... [REGISTERED generator] [LIBRARY library]
# [AFTER file]): one object of libattune.a or the library, made after the file, or copied from ATTUNE_KERNELS_FROM where it has
# that kernel. add_halide_library() would also add an archive, headers and an interface library, which nothing here needs.
function(attune_add_kernel name)
  cmake_parse_arguments(PARSE_ARGV 1 A "" "GENERATOR;TARGET;REGISTERED;LIBRARY;AFTER" "PARAMETERS")
  if(NOT A_LIBRARY)
    set(A_LIBRARY attune)
  endif()
  if(NOT A_REGISTERED)
    string(REGEX REPLACE "\\..*" "" A_REGISTERED ${A_GENERATOR})  # sdpa.generator holds the generator sdpa
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/kernels)
  file(MAKE_DIRECTORY ${folder})
  file(RELATIVE_PATH inside ${PROJECT_BINARY_DIR} ${folder})
  set(other ${ATTUNE_KERNELS_FROM}/${inside}/${name}.o)
  if(ATTUNE_KERNELS_FROM AND EXISTS ${other})
    add_custom_command(OUTPUT ${folder}/${name}.o COMMAND ${CMAKE_COMMAND} -E copy ${other} ${folder}/${name}.o
      DEPENDS ${other} COMMENT "kernel ${name}, of another build" VERBATIM)
  else()
    add_custom_command(OUTPUT ${folder}/${name}.o
      COMMAND ${A_GENERATOR} -g ${A_REGISTERED} -f ${name} -n ${name} -o ${folder} -e object
        target=${A_TARGET}${ATTUNE_KERNEL_FEATURES} ${A_PARAMETERS}
      DEPENDS $<TARGET_FILE:${A_GENERATOR}> ${A_AFTER} COMMENT "kernel ${name}" VERBATIM)
  endif()
  target_sources(${A_LIBRARY} PRIVATE ${folder}/${name}.o)
  set_source_files_properties(${folder}/${name}.o PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
endfunction()

# attune_write_tables(): a table of each op's linked variants, each an object that the linker takes where code names the op.
# Symbols are declared in the table, not in headers of kernels, so that a changed parameter recompiles one table and nothing
# else of the runtime.
function(attune_write_tables)
  set(folder ${PROJECT_BINARY_DIR}/tables)
  set(sources "")
  set(definitions "")
  foreach(op IN LISTS ATTUNE_OPS)
    get_property(kernels GLOBAL PROPERTY ATTUNE_TABLE_KERNELS_${op})
    get_property(rows GLOBAL PROPERTY ATTUNE_TABLE_ROWS_${op})
    get_property(pages_kernels GLOBAL PROPERTY ATTUNE_TABLE_PAGES_KERNELS_${op})
    list(LENGTH kernels count)
    set(symbols "")
    foreach(kernel IN LISTS kernels pages_kernels)
      string(APPEND symbols "int ${kernel}_argv(void **);\n")
    endforeach()
    configure_file(${PROJECT_SOURCE_DIR}/cmake/op_variants.cpp.in ${folder}/${op}.cpp @ONLY)
    list(APPEND sources ${folder}/${op}.cpp)
    string(APPEND definitions
      "[[gnu::weak, gnu::visibility(\"hidden\")]] extern const std::span<const VariantRecord> fallback_of_${op};\n"
      "constinit const std::span<const VariantRecord> fallback_of_${op};\n")
  endforeach()
  target_sources(attune PRIVATE ${sources})
  set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  # Part of the archive that the linker searches last: attune_fallback stands before it, if it is linked. Weak for programs that
  # link both archives whole.
  configure_file(${PROJECT_SOURCE_DIR}/cmake/no_fallback.cpp.in ${folder}/no_fallback.cpp @ONLY)
  target_sources(attune_halide_runtime PRIVATE ${folder}/no_fallback.cpp)
  target_include_directories(attune_halide_runtime PRIVATE ${PROJECT_SOURCE_DIR}/runtime/include)
  set_target_properties(attune_halide_runtime PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()
