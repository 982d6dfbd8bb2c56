# SPDX-License-Identifier: MIT
# kernel_arguments.h in the build folder: structs of the kernels' arguments, which the runtime fills in.
attune_add_host_tool(attune_print_arguments generators/arguments/print_arguments.cpp
  generators/arguments/kernel_arguments.cpp)
set(attune_arguments_dir ${PROJECT_BINARY_DIR}/arguments)
file(MAKE_DIRECTORY ${attune_arguments_dir})
add_custom_command(OUTPUT ${attune_arguments_dir}/kernel_arguments.h
  COMMAND attune_print_arguments ${attune_arguments_dir}/kernel_arguments.h
  DEPENDS $<TARGET_FILE:attune_print_arguments> COMMENT "arguments of kernels" VERBATIM)
