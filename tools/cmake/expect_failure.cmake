# Runs TEST of PROGRAM, which was built without a protection, for at most LIMIT seconds. It must fail, and first by the
# assertion whose output holds ASSERTION: a crash, a hang, a test that is not there or another assertion is no proof.
execute_process(COMMAND ${PROGRAM} --gtest_filter=${TEST} OUTPUT_VARIABLE output ERROR_VARIABLE output
  RESULT_VARIABLE result TIMEOUT ${LIMIT})
if(NOT output MATCHES "\\[  FAILED  \\] ${TEST} \\(" OR NOT result EQUAL 1)
  message(FATAL_ERROR "${TEST} did not fail without the protection it tests (result ${result}):\n${output}")
endif()
string(FIND "${output}" ": Failure\n" begin)
string(SUBSTRING "${output}" ${begin} -1 first)
string(SUBSTRING "${first}" 10 -1 first)
foreach(next IN ITEMS ": Failure\n" "[  FAILED  ]")
  string(FIND "${first}" "${next}" end)
  string(SUBSTRING "${first}" 0 ${end} first)
endforeach()
string(FIND "${first}" "${ASSERTION}" found)
if(found EQUAL -1)
  message(FATAL_ERROR "${TEST} failed first by another assertion than \"${ASSERTION}\":\n${output}")
endif()
