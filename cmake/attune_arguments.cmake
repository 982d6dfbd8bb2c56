# SPDX-License-Identifier: MIT
# kernel_arguments.h in the build folder: structs of the kernels' arguments, which the runtime fills in.
add_executable(attune_print_arguments generators/arguments/print_arguments.cpp generators/arguments/kernel_arguments.cpp)
target_include_directories(attune_print_arguments PRIVATE ${ATTUNE_SOURCE_DIR})
target_compile_options(attune_print_arguments PRIVATE ${ATTUNE_WARNINGS})
set_target_properties(attune_print_arguments PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles)
set(attune_arguments_dir ${PROJECT_BINARY_DIR}/arguments)
file(MAKE_DIRECTORY ${attune_arguments_dir})
add_custom_command(OUTPUT ${attune_arguments_dir}/kernel_arguments.h
  COMMAND attune_print_arguments ${attune_arguments_dir}/kernel_arguments.h
  DEPENDS attune_print_arguments COMMENT "arguments of kernels" VERBATIM)
