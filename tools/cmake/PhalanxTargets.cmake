# The functions that sub-folders use: phalanx_library, phalanx_app, phalanx_test and what stands beside them.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # Without these ccache does not keep what is compiled after a precompiled header. No source says __DATE__ or __TIME__.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE_PROGRAM})
endif()

add_library(phalanx_options INTERFACE)
target_compile_options(phalanx_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  -Wimplicit-fallthrough -Wunused-result
  # g++ 12 fuses multiply and add even across intrinsics; the arithmetic (docs/arithmetic.md) defines each rounding.
  -ffp-contract=off)
if(PHALANX_WARNINGS_AS_ERRORS)
  target_compile_options(phalanx_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 takes the value of an empty std::optional or tl::expected for read, and, instrumented, what std::regex sets for not set.
  target_compile_options(phalanx_options INTERFACE -Wno-maybe-uninitialized)
endif()
if(PHALANX_SANITIZE)
  target_compile_options(phalanx_options INTERFACE -fsanitize=${PHALANX_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(phalanx_options INTERFACE -fsanitize=${PHALANX_SANITIZE})
endif()
add_library(phalanx::options ALIAS phalanx_options)

# Time limits of tests guard against hangs; a sanitizer is no hang.
set(PHALANX_TIMEOUT_FACTOR 1)
if(PHALANX_SANITIZE)
  set(PHALANX_TIMEOUT_FACTOR 10)
endif()

# Most of a first build went into the same headers and templates, once per source. With PHALANX_COMPILE_TOGETHER (presets release
# and serve) the sources of a library are compiled sixteen at a time, after one precompiled header of the standard library; figures
# in docs/benchmarks.md. The presets dev, asan, tsan and tidy compile every source alone, so one that leans on the includes of
# another does not compile there.
option(PHALANX_COMPILE_TOGETHER "Compile several sources at once, after a precompiled header" OFF)
set(PHALANX_COMMON_HEADERS
  <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <cstdint> <cstring> <deque> <functional> <limits> <map> <memory>
  <mutex> <optional> <set> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector> <tl/expected.hpp>)

# phalanx_precompiled(<name> OPTIONS <option...> LIBRARIES <library...> HEADERS <header...>): a precompiled header for targets
# that are compiled with these options; g++ takes it for no others.
function(phalanx_precompiled name)
  cmake_parse_arguments(ARG "" "" "OPTIONS;LIBRARIES;HEADERS" ${ARGN})
  file(CONFIGURE OUTPUT ${name}.cc CONTENT "")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_link_libraries(${name} PRIVATE phalanx::options dep::expected ${ARG_LIBRARIES})
  target_precompile_headers(${name} PRIVATE ${PHALANX_COMMON_HEADERS} ${ARG_HEADERS})
endfunction()
set(PHALANX_TEST_OPTIONS $<$<CONFIG:RelWithDebInfo>:-Og> $<$<CONFIG:RelWithDebInfo>:-g0>)
if(PHALANX_COMPILE_TOGETHER)
  phalanx_precompiled(phalanx_headers)
  if(BUILD_TESTING)
    phalanx_precompiled(phalanx_test_headers OPTIONS ${PHALANX_TEST_OPTIONS} LIBRARIES GTest::gtest_main GTest::gmock
      HEADERS <gmock/gmock.h> <gtest/gtest.h>)
  endif()
endif()

# phalanx_compile_seldom(<target>): of what does not run for every token, but at a start, after a death, by hand, or as templates once
# a request. A first build takes a quarter less time for it with -O1, and nobody waits for it later; figures in docs/benchmarks.md.
function(phalanx_compile_seldom target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
endfunction()

# phalanx_in_batches(<target> <source...>): all but these sources, which stay units of their own.
function(phalanx_in_batches target)
  if(PHALANX_COMPILE_TOGETHER)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    # A source counts as a header here, in which a class must not have members of unnamed namespaces.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# phalanx_compile_together(<target> <source...>): in batches, after the precompiled header.
function(phalanx_compile_together target)
  phalanx_in_batches(${target} ${ARGN})
  if(PHALANX_COMPILE_TOGETHER)
    target_precompile_headers(${target} REUSE_FROM phalanx_headers)
  endif()
endfunction()

# phalanx_library(<name> SOURCES <src/...> HEADERS <include/phalanx/<name>/...> DEPS <library...> THIRD_PARTY <dep...>
#                 PRIVATE_THIRD_PARTY <dep...> ALONE <src/...> [SELDOM])
# ALONE names the sources that a test replaces by its own objects, that have flags of their own or that define what a program
# may leave out: an object of several sources comes into a program as a whole.
# SELDOM: see phalanx_compile_seldom.
# DEPS names libraries of this project; only their include folders are visible, so an include of a library that is not
# linked does not compile. Files are listed, never globbed.
function(phalanx_library name)
  cmake_parse_arguments(ARG "SELDOM" "" "SOURCES;HEADERS;DEPS;THIRD_PARTY;PRIVATE_THIRD_PARTY;ALONE" ${ARGN})
  if(ARG_SOURCES)
    add_library(phalanx_${name} STATIC ${ARG_SOURCES})
    phalanx_compile_together(phalanx_${name} ${ARG_ALONE})
    if(ARG_SELDOM)
      phalanx_compile_seldom(phalanx_${name})
    endif()
    set(scope PUBLIC)
    set(private_scope PRIVATE)
  else()
    add_library(phalanx_${name} INTERFACE)
    set(scope INTERFACE)
    set(private_scope INTERFACE)
  endif()
  add_library(phalanx::${name} ALIAS phalanx_${name})
  target_sources(phalanx_${name} ${scope} FILE_SET HEADERS BASE_DIRS include FILES ${ARG_HEADERS})
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(phalanx_${name} ${scope} phalanx::${dep})
  endforeach()
  foreach(dep IN LISTS ARG_THIRD_PARTY)
    target_link_libraries(phalanx_${name} ${scope} dep::${dep})
  endforeach()
  foreach(dep IN LISTS ARG_PRIVATE_THIRD_PARTY)
    target_link_libraries(phalanx_${name} ${private_scope} dep::${dep})
  endforeach()
  target_link_libraries(phalanx_${name} ${private_scope} phalanx::options)
  set_property(GLOBAL APPEND PROPERTY PHALANX_LIBRARIES ${name})
endfunction()

# phalanx_app(<name> SOURCES ... DEPS ... THIRD_PARTY ...): a program in build/<preset>/bin/.
function(phalanx_app name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;THIRD_PARTY" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  phalanx_compile_together(${name})
  phalanx_compile_seldom(${name})
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/src)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${name} PRIVATE phalanx::${dep})
  endforeach()
  foreach(dep IN LISTS ARG_THIRD_PARTY)
    target_link_libraries(${name} PRIVATE dep::${dep})
  endforeach()
  target_link_libraries(${name} PRIVATE phalanx::options)
endfunction()

# The code under test keeps its optimisation; the tests themselves are compiled for a short build.
function(phalanx_compile_as_test target)
  target_compile_options(${target} PRIVATE ${PHALANX_TEST_OPTIONS})
  if(PHALANX_COMPILE_TOGETHER)
    target_precompile_headers(${target} REUSE_FROM phalanx_test_headers)
  endif()
endfunction()

# phalanx_test(NAME <name> LABEL unit|protocol|process|e2e|long SOURCES ... DEPS ... [THIRD_PARTY ...] [TIMEOUT s] [SHARDS n]
#              [SERIAL] [ALONE <source...>] [ENVIRONMENT ...])
# One executable and one CTest entry, built by the target tests_<label> too; with SHARDS so many entries, each with a share
# of the executable's tests. Unit tests: one executable per library; process tests: one per file; long ones are run by
# tools/test-long only. SERIAL: nothing runs beside it. ALONE: sources that name something of their own as a neighbour does.
if(BUILD_TESTING)
  foreach(label IN ITEMS unit protocol process e2e long)
    add_custom_target(tests_${label})
  endforeach()
endif()
function(phalanx_test)
  cmake_parse_arguments(ARG "SERIAL" "NAME;LABEL;TIMEOUT;SHARDS" "SOURCES;ALONE;DEPS;THIRD_PARTY;ENVIRONMENT;DEFINITIONS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  math(EXPR ARG_TIMEOUT "${PHALANX_TIMEOUT_FACTOR} * ${ARG_TIMEOUT}")
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${ARG_NAME} PRIVATE phalanx::${dep})
  endforeach()
  foreach(dep IN LISTS ARG_THIRD_PARTY)
    target_link_libraries(${ARG_NAME} PRIVATE dep::${dep})
  endforeach()
  target_compile_definitions(${ARG_NAME} PRIVATE ${ARG_DEFINITIONS})
  target_include_directories(${ARG_NAME} PRIVATE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${ARG_NAME} PRIVATE phalanx::options GTest::gtest_main GTest::gmock)
  phalanx_compile_as_test(${ARG_NAME})
  phalanx_in_batches(${ARG_NAME} ${ARG_ALONE})
  add_dependencies(tests_${ARG_LABEL} ${ARG_NAME})
  foreach(shard RANGE 1 ${ARG_SHARDS})
    set(test ${ARG_NAME})
    set(environment ${ARG_ENVIRONMENT})
    if(ARG_SHARDS GREATER 1)
      string(APPEND test _${shard}_of_${ARG_SHARDS})
      math(EXPR index "${shard} - 1")
      list(APPEND environment GTEST_TOTAL_SHARDS=${ARG_SHARDS} GTEST_SHARD_INDEX=${index})
    endif()
    add_test(NAME ${test} COMMAND ${ARG_NAME})
    set_tests_properties(${test} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "${environment}"
      RUN_SERIAL ${ARG_SERIAL})
  endforeach()
endfunction()

# phalanx_mutation_test(NAME <name> LABEL unit|protocol TEST <Suite.Name> ASSERTION <text> [LIMIT s] SOURCES ... DEPS ...
#                       [DEFINITIONS ...] [INCLUDES ...])
# A test of a test: SOURCES are compiled with DEFINITIONS that take a protection out, and TEST must fail then, first by the
# assertion whose output holds ASSERTION. A source that is also in a library stands before it on the link line, so the
# library's own object is not taken.
function(phalanx_mutation_test)
  cmake_parse_arguments(ARG "" "NAME;LABEL;TEST;ASSERTION;LIMIT" "SOURCES;DEPS;DEFINITIONS;INCLUDES" ${ARGN})
  if(NOT ARG_LIMIT)
    set(ARG_LIMIT 50)
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${ARG_NAME} PRIVATE phalanx::${dep})
  endforeach()
  target_compile_definitions(${ARG_NAME} PRIVATE ${ARG_DEFINITIONS})
  target_include_directories(${ARG_NAME} PRIVATE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_BINARY_DIR}/tests ${ARG_INCLUDES})
  phalanx_compile_as_test(${ARG_NAME})
  target_link_libraries(${ARG_NAME} PRIVATE phalanx::options GTest::gtest_main GTest::gmock)
  add_dependencies(tests_${ARG_LABEL} ${ARG_NAME})
  math(EXPR limit "${PHALANX_TIMEOUT_FACTOR} * ${ARG_LIMIT}")
  add_test(NAME ${ARG_NAME}
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${ARG_NAME}> -DTEST=${ARG_TEST} "-DASSERTION=${ARG_ASSERTION}"
      -DLIMIT=${limit} -P ${CMAKE_SOURCE_DIR}/tools/cmake/expect_failure.cmake)
  math(EXPR timeout "${limit} + 10")
  set_tests_properties(${ARG_NAME} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${timeout})
endfunction()

# phalanx_python_test(NAME <name> LABEL unit|process|e2e SCRIPT <file> [TIMEOUT s] [COST s] [SERIAL])
# A test of a script, or one that runs the built programs from outside, written in Python with its standard library only.
# SERIAL: nothing runs beside it, because it compares times that others would stretch. COST: about how long it takes; the
# longest begin first.
function(phalanx_python_test)
  cmake_parse_arguments(ARG "SERIAL" "NAME;LABEL;SCRIPT;TIMEOUT;COST" "" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT ARG_COST)
    set(ARG_COST 1)
  endif()
  math(EXPR ARG_TIMEOUT "${PHALANX_TIMEOUT_FACTOR} * ${ARG_TIMEOUT}")
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME ${ARG_NAME} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_SCRIPT})
  set_tests_properties(${ARG_NAME} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} COST ${ARG_COST} RUN_SERIAL ${ARG_SERIAL}
    ENVIRONMENT "TEST_BIN_DIR=${CMAKE_BINARY_DIR}/bin")
endfunction()
