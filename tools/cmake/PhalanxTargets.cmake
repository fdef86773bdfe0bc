# The only functions used in sub-folders: phalanx_library, phalanx_app, phalanx_test.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
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
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
  # -O3 makes g++ 12 report impossible overflows and dangling pointers inside its own containers.
  target_compile_options(phalanx_options INTERFACE -Wno-array-bounds -Wno-stringop-overflow -Wno-restrict
    -Wno-maybe-uninitialized -Wno-dangling-pointer)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND PHALANX_SANITIZE)
  # Instrumented, libstdc++'s std::regex looks as if it used what it did not set.
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

# phalanx_library(<name> SOURCES <src/...> HEADERS <include/phalanx/<name>/...> DEPS <library...> THIRD_PARTY <dep...>
#                 PRIVATE_THIRD_PARTY <dep...>)
# DEPS names libraries of this project; only their include folders are visible, so an include of a library that is not
# linked does not compile. Files are listed, never globbed.
function(phalanx_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;DEPS;THIRD_PARTY;PRIVATE_THIRD_PARTY" ${ARGN})
  if(ARG_SOURCES)
    add_library(phalanx_${name} STATIC ${ARG_SOURCES})
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
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/src)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${name} PRIVATE phalanx::${dep})
  endforeach()
  foreach(dep IN LISTS ARG_THIRD_PARTY)
    target_link_libraries(${name} PRIVATE dep::${dep})
  endforeach()
  target_link_libraries(${name} PRIVATE phalanx::options)
endfunction()

# phalanx_test(NAME <name> LABEL unit|protocol|process|e2e|long SOURCES ... DEPS ... [THIRD_PARTY ...] [TIMEOUT s] [SERIAL]
#              [ENVIRONMENT ...])
# One executable and one CTest entry, built by the target tests_<label> too. Unit tests: one executable per library;
# process tests: one per file; long ones are run by tools/test-long only.
if(BUILD_TESTING)
  foreach(label IN ITEMS unit protocol process e2e long)
    add_custom_target(tests_${label})
  endforeach()
endif()
function(phalanx_test)
  cmake_parse_arguments(ARG "SERIAL" "NAME;LABEL;TIMEOUT" "SOURCES;DEPS;THIRD_PARTY;ENVIRONMENT;DEFINITIONS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  math(EXPR ARG_TIMEOUT "${PHALANX_TIMEOUT_FACTOR} * ${ARG_TIMEOUT}")
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
  # The code under test keeps its optimisation; the tests themselves are compiled for a short build.
  target_compile_options(${ARG_NAME} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1> $<$<CONFIG:RelWithDebInfo>:-g0>)
  add_dependencies(tests_${ARG_LABEL} ${ARG_NAME})
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
  set_tests_properties(${ARG_NAME} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
  if(ARG_SERIAL)
    set_tests_properties(${ARG_NAME} PROPERTIES RUN_SERIAL ON)
  endif()
  if(ARG_ENVIRONMENT)
    set_tests_properties(${ARG_NAME} PROPERTIES ENVIRONMENT "${ARG_ENVIRONMENT}")
  endif()
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
  target_compile_options(${ARG_NAME} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1> $<$<CONFIG:RelWithDebInfo>:-g0>)
  target_link_libraries(${ARG_NAME} PRIVATE phalanx::options GTest::gtest_main GTest::gmock)
  add_dependencies(tests_${ARG_LABEL} ${ARG_NAME})
  math(EXPR limit "${PHALANX_TIMEOUT_FACTOR} * ${ARG_LIMIT}")
  add_test(NAME ${ARG_NAME}
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${ARG_NAME}> -DTEST=${ARG_TEST} "-DASSERTION=${ARG_ASSERTION}"
      -DLIMIT=${limit} -P ${CMAKE_SOURCE_DIR}/tools/cmake/expect_failure.cmake)
  math(EXPR timeout "${limit} + 10")
  set_tests_properties(${ARG_NAME} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${timeout})
endfunction()

# phalanx_python_test(NAME <name> LABEL unit|process|e2e SCRIPT <file> [TIMEOUT s] [PROGRAMS <target...>])
# A test of a script, or one that runs the built programs from outside, written in Python with its standard library only.
function(phalanx_python_test)
  cmake_parse_arguments(ARG "" "NAME;LABEL;SCRIPT;TIMEOUT" "" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  math(EXPR ARG_TIMEOUT "${PHALANX_TIMEOUT_FACTOR} * ${ARG_TIMEOUT}")
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME ${ARG_NAME} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_SCRIPT})
  set_tests_properties(${ARG_NAME} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} RUN_SERIAL ON
    ENVIRONMENT "TEST_BIN_DIR=${CMAKE_BINARY_DIR}/bin")
endfunction()
