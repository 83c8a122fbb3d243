# The flags of every target of this project.
add_library(sprat_flags INTERFACE)
target_compile_features(sprat_flags INTERFACE cxx_std_20)
target_compile_options(sprat_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                            -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual -ffp-contract=off>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # Takes std::string's own copies for overlapping ones at -O3 (GCC bug 105651).
  target_compile_options(sprat_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(SPRAT_WARNINGS_AS_ERRORS)
  target_compile_options(sprat_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
target_link_libraries(sprat_flags INTERFACE Threads::Threads)

# What the tests find through their environment.
set(models $ENV{SPRAT_MODELS})
if(NOT models)
  set(models $ENV{HOME}/.cache/sprat/models)
endif()
set(SPRAT_TEST_MODEL ${models}/all-MiniLM-L6-v2 CACHE PATH
    "Directory of all-MiniLM-L6-v2, for tests that need a real model")
set(SPRAT_TEST_PYTHON ${PROJECT_SOURCE_DIR}/build/venv/bin/python CACHE FILEPATH
    "Python with the packages of tests/requirements.txt, for tests that ask a reference")
set(SPRAT_TEST_MODELS $ENV{HOME}/.cache/sprat/test-models CACHE PATH
    "Directory of the other models of tools/fetch_model.py, by name")
set(SPRAT_TEST_ENVIRONMENT
    SPRAT_TEST_MODEL=${SPRAT_TEST_MODEL} SPRAT_TEST_MODELS=${SPRAT_TEST_MODELS}
    SPRAT_TEST_PYTHON=${SPRAT_TEST_PYTHON})

# Programs of the tests that run threads against each other: what the tsan preset builds.
add_custom_target(thread_tests)

# sprat_module(NAME SOURCES ... DEPS ... LIBS ... TESTS ... THREAD_TESTS ... BENCHMARKS ...)
#
# Declares the module `sprat_NAME`: one static library of this folder's SOURCES, linked to the
# modules in DEPS (the row of docs/architecture.md, nothing else) and to third-party LIBS, with one
# GoogleTest program for each file in TESTS and THREAD_TESTS and one Google Benchmark program for
# each in BENCHMARKS. Every test carries the label `unit`; those in THREAD_TESTS also `threads`: the
# thread sanitizer runs them. Tests of what computes with the kernels also carry `kernels`: they run
# once with every kernel table. A benchmark runs once, briefly, as the test `bench.NAME`.
function(sprat_module name)
  cmake_parse_arguments(PARSE_ARGV 1 A "" "" "SOURCES;DEPS;LIBS;TESTS;THREAD_TESTS;BENCHMARKS")
  if(A_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "sprat_module(${name}): unknown arguments ${A_UNPARSED_ARGUMENTS}")
  endif()
  set_property(GLOBAL APPEND PROPERTY SPRAT_MODULES ${name})
  set_property(GLOBAL APPEND PROPERTY SPRAT_LIBS_OF_${name} ${A_LIBS})
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
    foreach(test IN LISTS A_THREAD_TESTS)
      sprat_test(${name} ${test} sprat_${name} THREADS)
    endforeach()
  endif()
  if(SPRAT_BUILD_BENCHMARKS)
    foreach(bench IN LISTS A_BENCHMARKS)
      get_filename_component(exe ${bench} NAME_WE)
      add_executable(${exe} ${bench})
      target_link_libraries(${exe} PRIVATE sprat_${name} benchmark::benchmark_main)
      if(SPRAT_BUILD_TESTS)
        add_test(NAME bench.${exe} COMMAND ${exe} --benchmark_min_time=0.001)
        set_tests_properties(bench.${exe} PROPERTIES LABELS unit TIMEOUT 600)
      endif()
    endforeach()
  endif()
endfunction()

# sprat_test(PREFIX FILE LIBRARIES... [THREADS]): one GoogleTest program; its tests are
# PREFIX.Suite.Name, labelled as sprat_module says. The macro SPRAT_TESTDATA is the absolute path of
# testdata/; the environment has SPRAT_TEST_MODEL, SPRAT_TEST_MODELS and SPRAT_TEST_PYTHON, as above.
function(sprat_test prefix file)
  cmake_parse_arguments(PARSE_ARGV 2 A "THREADS" "" "")
  get_filename_component(exe ${file} NAME_WE)
  add_executable(${exe} ${file})
  target_link_libraries(${exe} PRIVATE ${A_UNPARSED_ARGUMENTS} GTest::gtest_main GTest::gmock)
  target_compile_definitions(${exe} PRIVATE SPRAT_TESTDATA="${PROJECT_SOURCE_DIR}/testdata")
  gtest_discover_tests(${exe} TEST_PREFIX ${prefix}. NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST
                       DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600)
  set(labels unit)
  sprat_reaches_kernels(reaches ${A_UNPARSED_ARGUMENTS})
  if(reaches)
    list(APPEND labels kernels)
  endif()
  if(A_THREADS)
    list(APPEND labels threads)
    add_dependencies(thread_tests ${exe})
  endif()
  # Lists, which gtest_discover_tests of CMake 3.25 does not pass on.
  set(properties_file ${CMAKE_CURRENT_BINARY_DIR}/${exe}_properties.cmake)
  file(WRITE ${properties_file}
       "foreach(test IN LISTS ${exe}_TESTS)\n"
       "  set_tests_properties(\"\${test}\" PROPERTIES LABELS \"${labels}\"\n"
       "                       ENVIRONMENT \"${SPRAT_TEST_ENVIRONMENT}\")\n"
       "endforeach()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${properties_file})
endfunction()

# Sets `result` to whether one of the given targets is, or is linked to, a module with tables of
# functions for different instruction sets.
function(sprat_reaches_kernels result)
  set(${result} FALSE PARENT_SCOPE)
  set(seen)
  set(queue ${ARGN})
  while(queue)
    list(POP_FRONT queue target)
    if(target MATCHES "^sprat_(kernels|ngram)$")
      set(${result} TRUE PARENT_SCOPE)
      return()
    endif()
    if(TARGET ${target} AND NOT target IN_LIST seen)
      list(APPEND seen ${target})
      get_target_property(linked ${target} INTERFACE_LINK_LIBRARIES)
      if(linked)
        list(APPEND queue ${linked})
      endif()
    endif()
  endwhile()
endfunction()
