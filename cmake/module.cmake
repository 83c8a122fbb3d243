# The flags of every target of this project.
add_library(sprat_flags INTERFACE)
target_compile_features(sprat_flags INTERFACE cxx_std_20)
target_compile_options(sprat_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                            -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual -ffp-contract=off>)
if(SPRAT_WARNINGS_AS_ERRORS)
  target_compile_options(sprat_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
target_link_libraries(sprat_flags INTERFACE Threads::Threads)

# sprat_module(NAME SOURCES ... DEPS ... LIBS ... TESTS ... BENCHMARKS ...)
#
# Declares the module `sprat_NAME`: one static library of this folder's SOURCES, linked to the
# modules in DEPS (the row of docs/architecture.md, nothing else) and to third-party LIBS, with one
# GoogleTest program for each file in TESTS and one Google Benchmark program for each in BENCHMARKS.
# Every test carries the label `unit`; a benchmark runs once, briefly, as the test `bench.NAME`.
function(sprat_module name)
  cmake_parse_arguments(PARSE_ARGV 1 A "" "" "SOURCES;DEPS;LIBS;TESTS;BENCHMARKS")
  add_library(sprat_${name} STATIC ${A_SOURCES})
  target_include_directories(sprat_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_link_libraries(sprat_${name} PUBLIC sprat_flags)
  target_link_libraries(sprat_${name} PRIVATE ${A_LIBS})
  foreach(dep IN LISTS A_DEPS)
    target_link_libraries(sprat_${name} PUBLIC sprat_${dep})
  endforeach()
  if(SPRAT_BUILD_TESTS)
    foreach(test IN LISTS A_TESTS)
      sprat_test(${name} ${test} sprat_${name})
    endforeach()
  endif()
  if(SPRAT_BUILD_BENCHMARKS)
    foreach(bench IN LISTS A_BENCHMARKS)
      get_filename_component(exe ${bench} NAME_WE)
      add_executable(${exe} ${bench})
      target_link_libraries(${exe} PRIVATE sprat_${name} benchmark::benchmark_main)
      if(SPRAT_BUILD_TESTS)
        add_test(NAME bench.${exe} COMMAND ${exe} --benchmark_min_time=0.001)
        set_tests_properties(bench.${exe} PROPERTIES LABELS unit)
      endif()
    endforeach()
  endif()
endfunction()

# sprat_test(PREFIX FILE LIBRARIES...): one GoogleTest program; its tests are PREFIX.Suite.Name.
# The macro SPRAT_TESTDATA is the absolute path of testdata/.
function(sprat_test prefix file)
  get_filename_component(exe ${file} NAME_WE)
  add_executable(${exe} ${file})
  target_link_libraries(${exe} PRIVATE ${ARGN} GTest::gtest_main GTest::gmock)
  target_compile_definitions(${exe} PRIVATE SPRAT_TESTDATA="${PROJECT_SOURCE_DIR}/testdata")
  gtest_discover_tests(${exe} TEST_PREFIX ${prefix}. DISCOVERY_MODE PRE_TEST
                       PROPERTIES LABELS unit TIMEOUT 600)
endfunction()
