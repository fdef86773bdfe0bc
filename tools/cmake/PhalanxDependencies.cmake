# Third-party packages, all from Debian (tools/packages.txt). Each is wrapped in one INTERFACE target `dep::<name>`, so that
# no other file needs to know how a package is found.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

function(phalanx_pkg_dependency name)
  pkg_check_modules(${name}_PKG REQUIRED IMPORTED_TARGET ${ARGN})
  add_library(dep_${name} INTERFACE)
  target_link_libraries(dep_${name} INTERFACE PkgConfig::${name}_PKG)
  add_library(dep::${name} ALIAS dep_${name})
endfunction()

# A header-only package is found by one of its headers: some of Debian's CMake configs demand unrelated packages
# (prometheus-cpp wants curl, msgpack may find the C library).
function(phalanx_header_dependency name header)
  find_path(${name}_INCLUDE ${header} REQUIRED)
  add_library(dep_${name} INTERFACE)
  target_include_directories(dep_${name} SYSTEM INTERFACE ${${name}_INCLUDE})
  add_library(dep::${name} ALIAS dep_${name})
endfunction()

phalanx_header_dependency(expected tl/expected.hpp)
phalanx_header_dependency(nlohmann nlohmann/json.hpp)
phalanx_header_dependency(toml toml++/toml.h)
phalanx_header_dependency(msgpack msgpack.hpp)
target_compile_definitions(dep_msgpack INTERFACE MSGPACK_NO_BOOST)
phalanx_header_dependency(boost boost/asio.hpp)
target_compile_definitions(dep_boost INTERFACE BOOST_ASIO_NO_DEPRECATED)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Asio 1.18 does not recognise coroutines of clang with libstdc++.
  target_compile_definitions(dep_boost INTERFACE
    BOOST_ASIO_HAS_CO_AWAIT=1 BOOST_ASIO_HAS_STD_COROUTINE=1
    __cpp_impl_coroutine=201902L __cpp_lib_coroutine=201902L)
endif()
if(PHALANX_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++'s thread sanitizer does not model fences and warns of each. Asio's stand around its handlers, whose order a mutex
  # of its scheduler settles without them. What does not link os or Asio still fails to compile with a fence.
  target_compile_options(dep_boost INTERFACE -Wno-tsan)
endif()
target_link_libraries(dep_boost INTERFACE Threads::Threads)
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
add_library(dep_program_options INTERFACE)
target_link_libraries(dep_program_options INTERFACE Boost::program_options)
add_library(dep::program_options ALIAS dep_program_options)
# By header and library: the flags that pkg-config gives for libzmq (of libraries that its headers do not include) come out in
# another order when CMake is run again, and all that includes zmq.h would be compiled again.
find_library(ZMQ_LIBRARY zmq REQUIRED)
phalanx_header_dependency(zmq zmq.h)
target_link_libraries(dep_zmq INTERFACE ${ZMQ_LIBRARY})
phalanx_pkg_dependency(spdlog spdlog)
phalanx_pkg_dependency(simdjson simdjson)
phalanx_pkg_dependency(pcre2 libpcre2-8)
phalanx_pkg_dependency(prometheus prometheus-cpp-core)
find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
phalanx_header_dependency(utf8proc utf8proc.h)
target_link_libraries(dep_utf8proc INTERFACE ${UTF8PROC_LIBRARY})

if(BUILD_TESTING)
  # Debian's configuration of GoogleTest is in libgtest-dev and knows GoogleMock only where libgmock-dev is there as well.
  find_package(GTest QUIET)
  if(NOT TARGET GTest::gtest_main OR NOT TARGET GTest::gmock)
    message(FATAL_ERROR "The tests need GoogleTest and GoogleMock: run tools/test, which installs what is missing, or install "
      "libgtest-dev and libgmock-dev. The preset serve (tools/serve) builds the programs without them.")
  endif()
endif()
