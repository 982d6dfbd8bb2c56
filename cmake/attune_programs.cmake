# SPDX-License-Identifier: MIT
# Programs that make kernels, built from the parts of cmake/attune_ops.cmake; each once per project, where it is first needed.
# And attune_generators.json in the build folder, which lists them for the tuner.
include(${CMAKE_CURRENT_LIST_DIR}/attune_ops.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/attune_host_programs.cmake)

# attune_load_ops(): ATTUNE_SOURCE_DIR and the variables of these CMake files, in a function that any folder may call: also a
# folder outside the one that added or found Attune.
macro(attune_load_ops)
  cmake_path(GET CMAKE_CURRENT_FUNCTION_LIST_DIR PARENT_PATH ATTUNE_SOURCE_DIR)
  include(${ATTUNE_SOURCE_DIR}/cmake/attune_add_op.cmake)
endmacro()

# attune_add_generator_objects(library source...): objects of such programs. Halide.h takes seconds to compile, so it is
# precompiled once, with attune_generator_math; and a program that runs for a second is not worth optimising.
function(attune_add_generator_objects library)
  set(sources ${ARGN})
  list(TRANSFORM sources PREPEND ${ATTUNE_SOURCE_DIR}/ REGEX "^(generators|lowering|schedules)/")
  add_library(${library} OBJECT ${sources})
  target_compile_features(${library} PRIVATE cxx_std_20)
  target_include_directories(${library} PRIVATE ${ATTUNE_SOURCE_DIR} ${ATTUNE_SOURCE_DIR}/generators/include)
  target_link_libraries(${library} PRIVATE Halide::Halide)
  # Objects that are installed name no folder of the build.
  target_compile_options(${library} PRIVATE -O1 -ffile-prefix-map=${ATTUNE_SOURCE_DIR}/=
    -ffile-prefix-map=${CMAKE_BINARY_DIR}/=)
  if(library STREQUAL "attune_generator_math")
    target_precompile_headers(${library} PRIVATE <Halide.h>)
  else()
    target_precompile_headers(${library} REUSE_FROM attune_generator_math)
  endif()
endfunction()

# attune_need_parts(result part...): the objects of the parts, which an installed attune has. A part's sources are one
# translation unit, compiled in half the time, with one set of names.
function(attune_need_parts result)
  attune_find_installed_parts(installed)
  set(objects "")
  foreach(part generator_math ${ARGN})  # generator_math has the precompiled header of users' sources, too
    if(NOT part STREQUAL "generator_math" AND EXISTS "${installed}/${part}.o")
      list(APPEND objects ${installed}/${part}.o)
      continue()
    endif()
    if(NOT TARGET attune_${part})
      attune_add_generator_objects(attune_${part} ${attune_part_${part}})
      set_target_properties(attune_${part} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
    endif()
    if(part IN_LIST ARGN)
      list(APPEND objects $<TARGET_OBJECTS:attune_${part}>)
    endif()
  endforeach()
  set(${result} ${objects} PARENT_SCOPE)
endfunction()

# attune_find_installed_parts(result): the folder of the objects of parts that an installed attune has; empty in a checkout, and
# where the project's compiler is another than that of the package: then parts are compiled from their installed sources.
function(attune_find_installed_parts result)
  set(${result} "" PARENT_SCOPE)
  include(${ATTUNE_SOURCE_DIR}/cmake/attune_installed_parts.cmake OPTIONAL)  # sets the two variables
  if(ATTUNE_PARTS_COMPILER STREQUAL "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}" AND NOT ATTUNE_SANITIZE)
    set(${result} ${ATTUNE_PARTS_FOLDER} PARENT_SCOPE)
  endif()
endfunction()

# attune_install_parts(folder sources): installs the objects of the parts that the library's own kernels are made by, and
# attune_installed_parts.cmake, from which a project that makes kernels with the same compiler finds them: a user's first
# attention is built in a third of the time.
function(attune_install_parts folder sources)
  if(CMAKE_CROSSCOMPILING OR ATTUNE_SANITIZE)
    return()
  endif()
  set(parts lowering generator_main argument_check)
  foreach(op IN LISTS ATTUNE_OPS)
    if(TARGET ${ATTUNE_OP_PROGRAM_${op}}.generator)
      list(APPEND parts ${attune_program_${ATTUNE_OP_PROGRAM_${op}}})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES parts)
  list(REMOVE_ITEM parts generator_math)
  foreach(part IN LISTS parts)
    if(TARGET attune_${part})
      install(FILES $<TARGET_OBJECTS:attune_${part}> DESTINATION ${folder} RENAME ${part}.o)
    endif()
  endforeach()
  file(RELATIVE_PATH path "/${sources}/cmake" "/${folder}")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/attune_installed_parts.cmake CONTENT
"# The objects of parts of programs that make kernels, and the compiler that they are of.
set(ATTUNE_PARTS_COMPILER \"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\")
cmake_path(SET ATTUNE_PARTS_FOLDER NORMALIZE \"\${CMAKE_CURRENT_LIST_DIR}/${path}\")
" @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/attune_installed_parts.cmake DESTINATION ${sources}/cmake)
endfunction()

# attune_need_instruction_modules(result): the objects of lowering/instructions that replace Halide's modules for AVX-512 and
# AMX in a program.
function(attune_need_instruction_modules result)
  if(NOT TARGET attune_instruction_modules)
    find_program(ATTUNE_LLVM_AS NAMES llvm-as llvm-as-21 llvm-as-20 llvm-as-19 llvm-as-18 llvm-as-17 llvm-as-16 llvm-as-15
      llvm-as-14)
    if(NOT ATTUNE_LLVM_AS)
      message(FATAL_ERROR "attune: making kernels needs llvm-as of LLVM 14 to 21, which is not found: install it (Debian: "
        "llvm) or name it in ATTUNE_LLVM_AS")
    endif()
    set(folder ${ATTUNE_SOURCE_DIR}/lowering/instructions)
    set(script ${ATTUNE_SOURCE_DIR}/cmake/embed_module.cmake)
    set(objects "")
    foreach(module IN LISTS attune_instruction_modules)
      set(source ${folder}/${module}.ll)
      set(file ${CMAKE_CURRENT_BINARY_DIR}/${module})
      add_custom_command(OUTPUT ${file}.cpp BYPRODUCTS ${file}.bc
        COMMAND ${ATTUNE_LLVM_AS} ${source} -o ${file}.bc
        COMMAND ${CMAKE_COMMAND} -DMODULE=${module} -DBITCODE=${file}.bc -DOUT=${file}.cpp -P ${script}
        DEPENDS ${source} ${script} COMMENT "module ${module}" VERBATIM)
      list(APPEND objects ${file}.cpp)
    endforeach()
    add_library(attune_instruction_modules OBJECT ${objects})
  endif()
  set(${result} $<TARGET_OBJECTS:attune_instruction_modules> PARENT_SCOPE)
endfunction()

# attune_add_generator(program PARTS part... [SOURCES source...]): a program that makes kernels, of parts of
# cmake/attune_ops.cmake, sources and objects. A cross-build compiles none of them.
function(attune_add_generator program)
  cmake_parse_arguments(PARSE_ARGV 1 A "" "" "PARTS;SOURCES")
  set(sources "")
  if(NOT CMAKE_CROSSCOMPILING)
    attune_need_parts(parts ${A_PARTS})
    attune_need_parts(main lowering generator_main argument_check)
    attune_need_instruction_modules(modules)
    set(sources ${A_SOURCES} ${parts} ${main} ${modules})
  endif()
  attune_add_host_program(${program} ${sources})
  if(NOT ATTUNE_IS_IMPORTED_${program})
    target_link_libraries(${program} PRIVATE Halide::Halide)
  endif()
endfunction()

# attune_need_program(program): the program <program>.generator.
function(attune_need_program program)
  if(NOT TARGET ${program}.generator)
    attune_add_generator(${program}.generator PARTS ${attune_program_${program}})
    attune_list_program(${program}.generator ${attune_program_${program}})
  endif()
endfunction()

# attune_need_op(op): the program that makes the op's kernels, listed for the tuner.
function(attune_need_op op)
  set(program ${ATTUNE_OP_PROGRAM_${op}})
  attune_need_program(${program})
  get_property(listed GLOBAL PROPERTY ATTUNE_LISTED_OPS)
  if(NOT listed MATCHES "\"${op}\": ")
    set(attention "")
    if(ATTUNE_OP_ATTENTION_${op})
      set(attention ATTENTION)
    endif()
    attune_list_op(${op} PROGRAM ${program}.generator GENERATOR ${program} ${attention}
      PARAMETERS ${ATTUNE_OP_PARAMETERS_${op}})
  endif()
endfunction()

# attune_find_halide(who): Halide's CMake package, or an error that says how to get it.
macro(attune_find_halide who)
  if(NOT Halide_FOUND)
    find_package(Halide 21.0.0 EXACT QUIET COMPONENTS shared)
    if(NOT Halide_FOUND)
      message(FATAL_ERROR "${who}: making kernels needs Halide 21.0.0 with its CMake package, which is not found. "
        "Install it (\"pip install halide==21.0.0\" in a virtual environment) and activate that environment, "
        "or name the package's folder in Halide_DIR.")
    endif()
    attune_use_jemalloc()
  endif()
endmacro()

# attune_use_jemalloc(): links programs of Halide with jemalloc where it is installed. They allocate small nodes by the million
# and visit them again and again: with glibc's allocator kernels for CPUs take 1.1 times as long, kernels for devices 1.5.
function(attune_use_jemalloc)
  find_library(ATTUNE_JEMALLOC jemalloc)
  get_target_property(libraries Halide::Halide INTERFACE_LINK_LIBRARIES)
  if(ATTUNE_JEMALLOC AND NOT ATTUNE_SANITIZE AND NOT ATTUNE_JEMALLOC IN_LIST libraries)
    target_link_libraries(Halide::Halide INTERFACE ${ATTUNE_JEMALLOC})
  endif()
endfunction()

# attune_list_program(target part... [SOURCES file...]) and attune_list_op(op PROGRAM target GENERATOR name [ATTENTION]
# [PARAMETERS k=v...] [LIKE op] [MODULE target]): entries of attune_generators.json. LIKE: an op whose parameters serve where
# this op has none.
function(attune_list_program target)
  cmake_parse_arguments(PARSE_ARGV 1 A "" "" "SOURCES")
  set(sources "")
  foreach(part IN LISTS A_UNPARSED_ARGUMENTS ITEMS lowering generator_main argument_check)
    list(APPEND sources ${attune_part_${part}})
  endforeach()
  foreach(module IN LISTS attune_instruction_modules)
    list(APPEND sources lowering/instructions/${module}.ll)
  endforeach()
  attune_json_strings(sources ${sources} ${A_SOURCES})
  attune_list_generator(PROGRAMS "\"${target}\": {\"file\": \"$<TARGET_FILE:${target}>\", \"sources\": ${sources}}")
endfunction()

function(attune_list_op op)
  cmake_parse_arguments(PARSE_ARGV 1 A "ATTENTION" "PROGRAM;GENERATOR;LIKE;MODULE" "PARAMETERS")
  attune_json_strings(generator_parameters ${A_PARAMETERS})
  set(attention false)
  if(A_ATTENTION)
    set(attention true)
  endif()
  set(more "")
  if(A_LIKE)
    string(APPEND more ", \"like\": \"${A_LIKE}\"")
  endif()
  if(A_MODULE)
    string(APPEND more ", \"module\": {\"target\": \"${A_MODULE}\", \"file\": \"$<TARGET_FILE:${A_MODULE}>\"}")
  endif()
  string(CONCAT line "\"${op}\": {\"program\": \"${A_PROGRAM}\", \"generator\": \"${A_GENERATOR}\", "
    "\"parameters\": ${generator_parameters}, \"attention\": ${attention}${more}}")
  attune_list_generator(OPS "${line}")
endfunction()

function(attune_json_strings result)
  list(JOIN ARGN "\", \"" text)
  if(text)
    set(text "\"${text}\"")
  endif()
  set(${result} "[${text}]" PARENT_SCOPE)
endfunction()

# The file is written when the whole project has been read.
function(attune_list_generator list line)
  get_property(given GLOBAL PROPERTY ATTUNE_LISTS_GENERATORS)
  if(NOT given)
    set_property(GLOBAL PROPERTY ATTUNE_LISTS_GENERATORS TRUE)
    # A deferred call and its arguments read variables in the scope of that folder, which may know neither Halide nor Attune.
    set_property(GLOBAL PROPERTY ATTUNE_LISTED_HALIDE "${Halide_VERSION}")
    cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL attune_write_generators)
  endif()
  get_property(given GLOBAL PROPERTY ATTUNE_LISTED_${list})
  if(given)
    string(PREPEND line "${given},\n    ")
  endif()
  set_property(GLOBAL PROPERTY ATTUNE_LISTED_${list} "${line}")
endfunction()

function(attune_write_generators)
  attune_load_ops()
  attune_read_targets()
  set(targets "")
  foreach(target IN LISTS ATTUNE_ALL_TARGETS)
    list(APPEND targets "\"${target}\": \"${ATTUNE_HALIDE_TARGET_${target}}\"")
  endforeach()
  list(JOIN targets ",\n    " targets)
  get_property(programs GLOBAL PROPERTY ATTUNE_LISTED_PROGRAMS)
  get_property(tools GLOBAL PROPERTY ATTUNE_LISTED_TOOLS)
  get_property(ops GLOBAL PROPERTY ATTUNE_LISTED_OPS)
  get_property(halide GLOBAL PROPERTY ATTUNE_LISTED_HALIDE)
  set(condition "")
  if(CMAKE_CONFIGURATION_TYPES)
    list(GET CMAKE_CONFIGURATION_TYPES 0 first)
    set(condition CONDITION $<CONFIG:${first}>)
  endif()
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/attune_generators.json CONTENT "{
  \"schema\": 1,
  \"halide\": \"${halide}\",
  \"cmake\": \"${CMAKE_COMMAND}\",
  \"compiler\": \"${CMAKE_CXX_COMPILER}\",
  \"config\": \"$<CONFIG>\",
  \"source_dir\": \"${ATTUNE_SOURCE_DIR}\",
  \"targets\": {
    ${targets}
  },
  \"programs\": {
    ${programs}
  },
  \"ops\": {
    ${ops}
  },
  \"tools\": {
    ${tools}
  }
}
" ${condition})
endfunction()
