# Runs TEST of PROGRAM for at most LIMIT seconds and succeeds when the test itself fails: a crash, a hang or a test that is
# not there is no proof.
execute_process(COMMAND ${PROGRAM} --gtest_filter=${TEST} OUTPUT_VARIABLE output ERROR_VARIABLE output
  RESULT_VARIABLE result TIMEOUT ${LIMIT})
if(NOT output MATCHES "\\[  FAILED  \\] ${TEST} \\(")
  message(FATAL_ERROR "${TEST} did not fail without the protection it tests (result ${result}):\n${output}")
endif()
