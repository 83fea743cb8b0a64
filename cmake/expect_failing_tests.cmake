# Runs a test program that has a fault planted in it; fails if its tests do not.
execute_process(COMMAND ${PROGRAM} --gtest_filter=${FILTER} --gtest_fail_fast --gtest_brief=1
  OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
if(result EQUAL 0)
  message(FATAL_ERROR "the planted fault survived: every test passed")
endif()
string(REGEX MATCH "\\[  FAILED  \\] [A-Za-z/_.0-9]+" found "${output}")
if(NOT found)
  message(FATAL_ERROR "the tests did not run to a failure (${result}): ${output}")
endif()
message(STATUS "the planted fault was found (${result}): ${found}")
