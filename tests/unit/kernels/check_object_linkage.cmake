# Fails when an object file that is compiled for more than the x86-64 baseline defines anything with external linkage but
# the function that returns its table: such a symbol could be linked in place of the baseline's and crash on an older processor.
#   cmake -DNM=<nm> -DOBJECTS=<list> -P check_object_linkage.cmake
set(checked 0)
foreach(object IN LISTS OBJECTS)
  if(NOT object MATCHES "/src/(avx[0-9a-z]*|vnni|amx)\\.cc")
    continue()
  endif()
  set(isa ${CMAKE_MATCH_1})
  string(LENGTH ${isa}_table length)
  execute_process(COMMAND ${NM} --defined-only --extern-only ${object}
    OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "\n" ";" symbols "${symbols}")
  foreach(symbol IN LISTS symbols)
    if(symbol AND NOT symbol MATCHES " T _ZN7phalanx7kernels${length}${isa}_tableEv$")
      message(SEND_ERROR "${object} defines ${symbol}")
    endif()
  endforeach()
  math(EXPR checked "${checked} + 1")
endforeach()
if(checked EQUAL 0)
  message(FATAL_ERROR "no object of an instruction set was found")
endif()
message(STATUS "${checked} objects define only their table")
