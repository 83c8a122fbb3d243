# The library as others see it: one archive of all the modules below the front ends, the public
# headers, and a package for find_package(sprat) with the target sprat::sprat.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(sprat_library STATIC)
add_library(sprat::sprat ALIAS sprat_library)
set_target_properties(sprat_library PROPERTIES
  OUTPUT_NAME sprat EXPORT_NAME sprat LINKER_LANGUAGE CXX)
target_compile_features(sprat_library INTERFACE cxx_std_20)
target_include_directories(sprat_library INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
get_property(modules GLOBAL PROPERTY SPRAT_MODULES)
foreach(module IN LISTS library_modules)
  if(module IN_LIST modules)
    target_sources(sprat_library PRIVATE $<TARGET_OBJECTS:sprat_${module}>)
    if(TARGET sprat_${module}_hopper)
      target_sources(sprat_library PRIVATE $<TARGET_OBJECTS:sprat_${module}_hopper>)
    endif()
    get_property(libraries GLOBAL PROPERTY SPRAT_LIBS_OF_${module})
    list(REMOVE_ITEM libraries fmt::fmt-header-only)  # is inside the objects
    target_link_libraries(sprat_library PRIVATE ${libraries})
  endif()
endforeach()
target_link_libraries(sprat_library PRIVATE Threads::Threads)

install(TARGETS sprat_library EXPORT sprat_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET sprat)
  install(TARGETS sprat RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/sprat DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sprat)
install(EXPORT sprat_targets NAMESPACE sprat:: FILE sprat-targets.cmake DESTINATION ${package_dir})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/sprat-config.cmake.in ${PROJECT_BINARY_DIR}/sprat-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/sprat-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sprat-config.cmake ${PROJECT_BINARY_DIR}/sprat-config-version.cmake
        DESTINATION ${package_dir})
