# SPDX-License-Identifier: MIT
# Programs that run while the library is built: generators of kernels, and two small tools. A cross-build runs the programs of a
# host build: a build of the same project for the machine that builds, whose folder ATTUNE_HOST_BUILD names.
#
# attune_add_host_program(name source...): the program, or in a cross-build that of the host build. In
# ATTUNE_IS_IMPORTED_<name> of the caller whether it is the latter, whose properties must not be set.
macro(attune_add_host_program name)
  if(CMAKE_CROSSCOMPILING)
    set(ATTUNE_IS_IMPORTED_${name} TRUE)
    attune_import_host_program(${name})
  else()
    set(ATTUNE_IS_IMPORTED_${name} FALSE)
    add_executable(${name} ${ARGN})
    attune_list_generator(TOOLS "\"${name}\": \"$<TARGET_FILE:${name}>\"")
  endif()
endmacro()

# attune_add_host_tool(name source...): a program of this project's sources alone, without Halide.
function(attune_add_host_tool name)
  attune_add_host_program(${name} ${ARGN})
  if(NOT ATTUNE_IS_IMPORTED_${name})
    target_include_directories(${name} PRIVATE ${ATTUNE_SOURCE_DIR})
    target_compile_options(${name} PRIVATE ${ATTUNE_WARNINGS})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles)
  endif()
endfunction()

# The imported program of the host build, as its attune_generators.json lists it. CMake runs it as it is, without the emulator
# of a cross-build.
function(attune_import_host_program name)
  set(hint "ATTUNE_HOST_BUILD must name the folder of this project configured for the machine that builds (the library's own: \
cmake --preset native)")
  if(NOT ATTUNE_HOST_BUILD)
    message(FATAL_ERROR "attune: a cross-build runs programs of a host build: ${hint}")
  endif()
  cmake_path(ABSOLUTE_PATH ATTUNE_HOST_BUILD BASE_DIRECTORY ${CMAKE_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE folder)
  set(list ${folder}/attune_generators.json)
  if(NOT EXISTS ${list})
    message(FATAL_ERROR "attune: there is no ${list}: ${hint}")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(READ ${list} json)
  string(JSON file ERROR_VARIABLE error GET "${json}" tools ${name})
  if(error)
    message(FATAL_ERROR "attune: the host build ${folder} has no program ${name}: ${hint}")
  endif()
  add_executable(${name} IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${file})
  get_property(programs GLOBAL PROPERTY ATTUNE_HOST_PROGRAMS)
  if(NOT programs)
    cmake_language(EVAL CODE "cmake_language(DEFER DIRECTORY [[${CMAKE_SOURCE_DIR}]]
      CALL attune_build_host_programs [[${folder}]])")
  endif()
  set_property(GLOBAL APPEND PROPERTY ATTUNE_HOST_PROGRAMS ${name})
  set_property(GLOBAL APPEND PROPERTY ATTUNE_HOST_PROGRAM_FILES ${file})
endfunction()

# Target attune_host_programs: brings the imported programs up to date. Commands that run one depend on its file.
function(attune_build_host_programs folder)
  get_property(programs GLOBAL PROPERTY ATTUNE_HOST_PROGRAMS)
  get_property(files GLOBAL PROPERTY ATTUNE_HOST_PROGRAM_FILES)
  add_custom_target(attune_host_programs COMMAND ${CMAKE_COMMAND} --build ${folder} --target ${programs}
    BYPRODUCTS ${files} COMMENT "programs of the host build" VERBATIM)
endfunction()
