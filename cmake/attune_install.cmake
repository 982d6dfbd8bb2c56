# SPDX-License-Identifier: MIT
# cmake --install: libattune.a, Halide's runtime, and libattune.so, which holds both, or that one alone; headers, CMake package,
# attune.pc for pkg-config. A consumer needs neither Halide nor Python. For attune_add_attention(), attune_add_variants() and
# the tuner, the sources of the programs that make kernels are installed, too, and their objects; these do need Halide.
include(CMakePackageConfigHelpers)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
set(attune_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/attune)
set(attune_sources_dir ${CMAKE_INSTALL_DATADIR}/attune)
set(attune_libraries attune)
set(attune_pc_libs -lattune)
set(attune_pc_libs_private "")
if(NOT BUILD_SHARED_LIBS)
  set_property(TARGET attune_halide_runtime PROPERTY EXPORT_NAME halide_runtime)
  list(APPEND attune_libraries attune_halide_runtime)
  set(attune_pc_libs_private -lattune_halide_runtime -pthread -ldl -lstdc++ -lm)
endif()
if(ATTUNE_HAS_FALLBACK)
  list(APPEND attune_libraries attune_fallback)
  # Behind the tables that refer to it, and before the runtime, which has empty tables for programs without it.
  list(INSERT attune_pc_libs_private 0 -lattune_fallback)
  attune_install_after_building(attune_fallback)
endif()
if(TARGET attune_shared)
  list(APPEND attune_libraries attune_shared)
  if(ATTUNE_HAS_FALLBACK)
    attune_install_after_building(attune_shared)
  endif()
else()  # an archive's dependencies follow it with --static and without
  list(APPEND attune_pc_libs ${attune_pc_libs_private})
  set(attune_pc_libs_private "")
endif()
install(TARGETS ${attune_libraries} EXPORT attuneTargets FILE_SET HEADERS)
install(EXPORT attuneTargets NAMESPACE attune:: DESTINATION ${attune_cmake_dir})
configure_package_config_file(cmake/attuneConfig.cmake.in ${PROJECT_BINARY_DIR}/attuneConfig.cmake
  INSTALL_DESTINATION ${attune_cmake_dir} PATH_VARS attune_sources_dir)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/attuneConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/attuneConfig.cmake ${PROJECT_BINARY_DIR}/attuneConfigVersion.cmake
  DESTINATION ${attune_cmake_dir})

# attune.pc. Where there is libattune.so it is for that one; with --static, for a linker that takes archives (-static).
list(JOIN attune_pc_libs " " attune_pc_libs)
list(JOIN attune_pc_libs_private " " attune_pc_libs_private)
set(attune_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
foreach(dir libdir includedir)
  string(TOUPPER ${dir} variable)
  set(attune_pc_${dir} ${CMAKE_INSTALL_${variable}})
  if(NOT IS_ABSOLUTE "${attune_pc_${dir}}")
    string(PREPEND attune_pc_${dir} "\${prefix}/")
  endif()
endforeach()
set(attune_pc_prefix "")
if(NOT IS_ABSOLUTE "${attune_pc_dir}")
  file(RELATIVE_PATH attune_pc_prefix "/${attune_pc_dir}" "/")
  string(REGEX REPLACE "/$" "" attune_pc_prefix "${attune_pc_prefix}")
endif()
configure_file(cmake/attune.pc.in ${PROJECT_BINARY_DIR}/attune.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/attune.pc DESTINATION ${attune_pc_dir})

# Sources keep their folders, so that includes and CMake find them as in this tree.
foreach(folder generators lowering schedules cmake/tune)
  install(DIRECTORY ${folder}/ DESTINATION ${attune_sources_dir}/${folder})
endforeach()
install(DIRECTORY tools/tune/shapes DESTINATION ${attune_sources_dir}/tools/tune OPTIONAL)
foreach(module add_attention add_op add_variants choose_targets costs device host_programs parameters ops programs)
  install(FILES cmake/attune_${module}.cmake DESTINATION ${attune_sources_dir}/cmake)
endforeach()
install(FILES cmake/check_parameters.py cmake/embed_module.cmake cmake/print_native_target.cpp cmake/registered_variants.cpp.in
  DESTINATION ${attune_sources_dir}/cmake)
attune_install_parts(${CMAKE_INSTALL_LIBDIR}/attune/parts ${attune_sources_dir})
install(FILES runtime/src/dispatch/cpu_features.cpp runtime/src/dispatch/cpu_features.h
  runtime/src/dispatch/cpu_target.h runtime/src/dispatch/cpu_targets_aarch64.h runtime/src/dispatch/cpu_targets_x86.h
  DESTINATION ${attune_sources_dir}/runtime/src/dispatch)
