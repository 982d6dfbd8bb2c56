# SPDX-License-Identifier: MIT
# attune_add_runtime(name halide-target): the static library <name> of Halide's runtime for the library's kernels, under names
# of its own (lowering/halide_patches/private_runtime.h).
attune_add_host_tool(attune_private_runtime lowering/halide_patches/private_runtime_main.cpp
  lowering/halide_patches/private_runtime.cpp)

function(attune_add_runtime name target)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
  add_custom_command(OUTPUT ${object}
    COMMAND Halide::GenRT -r ${name} -o ${CMAKE_CURRENT_BINARY_DIR} -e object target=${target}
    COMMAND attune_private_runtime ${object}
    DEPENDS Halide::GenRT $<TARGET_FILE:attune_private_runtime> COMMENT "runtime ${name}" VERBATIM)
  add_library(${name} STATIC ${object})
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  # Halide::Runtime is only an include path, for which every user of attune would need Halide.
  target_link_libraries(${name} INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
endfunction()
