# SPDX-License-Identifier: MIT
# attune_shared: libattune.so beside the archives, of the same objects, which are position-independent. It holds the fallback's
# kernels, too, so that it is as the archives that are installed; with these it is no part of a default build, and `cmake
# --install` builds it.
option(ATTUNE_SHARED "libattune.so beside the archives" ${PROJECT_IS_TOP_LEVEL})
if(BUILD_SHARED_LIBS)
  add_library(attune::shared ALIAS attune)  # it is one already
endif()
if(BUILD_SHARED_LIBS OR NOT ATTUNE_SHARED OR ATTUNE_SANITIZE)
  return()
endif()
set(exclude "")
set(whole attune)
if(ATTUNE_HAS_FALLBACK)
  set(exclude EXCLUDE_FROM_ALL)
  list(APPEND whole attune_fallback)
endif()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/shared.cpp CONTENT "// libattune.so is of the objects of libattune.a\n")
add_library(attune_shared SHARED ${exclude} ${PROJECT_BINARY_DIR}/shared.cpp)
add_library(attune::shared ALIAS attune_shared)
get_target_property(soversion attune SOVERSION)
set_target_properties(attune_shared PROPERTIES OUTPUT_NAME attune EXPORT_NAME shared VERSION ${PROJECT_VERSION}
  SOVERSION ${soversion})
list(JOIN whole "," whole)
target_link_libraries(attune_shared PRIVATE "$<LINK_LIBRARY:WHOLE_ARCHIVE,${whole}>" attune_halide_runtime)
target_link_options(attune_shared PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/attune.map)
set_property(TARGET attune_shared APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/attune.map)
target_include_directories(attune_shared INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/runtime/include>
  $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
