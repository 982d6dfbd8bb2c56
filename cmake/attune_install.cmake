# cmake --install: libattune.a, Halide's runtime, headers, CMake package. A consumer needs neither Halide nor Python.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(attune_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/attune)
set_property(TARGET attune_halide_runtime PROPERTY EXPORT_NAME halide_runtime)
install(TARGETS attune attune_halide_runtime EXPORT attuneTargets FILE_SET HEADERS)
install(EXPORT attuneTargets NAMESPACE attune:: DESTINATION ${attune_cmake_dir})
configure_package_config_file(cmake/attuneConfig.cmake.in ${PROJECT_BINARY_DIR}/attuneConfig.cmake
  INSTALL_DESTINATION ${attune_cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/attuneConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/attuneConfig.cmake ${PROJECT_BINARY_DIR}/attuneConfigVersion.cmake
  DESTINATION ${attune_cmake_dir})
