# Fails when an instruction on tile registers stands in an object file other than that of amx, or one that the kernels need
# does not stand there. A processor without AMX ends at such an instruction, and Linux at one that it has not permitted.
#   cmake -DOBJDUMP=<objdump> -DOBJECTS=<list> -P check_tile_instructions.cmake
set(needed ldtilecfg tilerelease tilezero tileloadd tileloaddt1 tilestored tdpbf16ps tdpbsud
  tdpbssd)
set(found_amx FALSE)
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND ${OBJDUMP} -d --no-show-raw-insn ${object}
    OUTPUT_VARIABLE code COMMAND_ERROR_IS_FATAL ANY)
  if(object MATCHES "/src/amx\\.cc")
    set(found_amx TRUE)
    foreach(instruction IN LISTS needed)
      if(NOT code MATCHES "[ \t]${instruction}[ \t\n]")
        message(SEND_ERROR "${object} has no ${instruction}")
      endif()
    endforeach()
  elseif(code MATCHES "[ \t](tdp[a-z0-9]+|tile(loadd|stored|zero|release)[a-z0-9]*|(ld|st)tilecfg)[ \t\n]")
    message(SEND_ERROR "${object} has ${CMAKE_MATCH_1}")
  endif()
endforeach()
if(NOT found_amx)
  message(FATAL_ERROR "the object of amx was not found")
endif()
message(STATUS "tile instructions stand in the object of amx only")
