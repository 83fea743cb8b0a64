# Runs a test program that has a fault planted in it, up to the first expectation that is not met, or a
# deadlock in the emulation of a GPU; fails if there is none.
execute_process(COMMAND ${PROGRAM} --gtest_filter=${FILTER} --gtest_throw_on_failure
  OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
if(result EQUAL 0)
  message(FATAL_ERROR "the planted fault survived: every test passed")
endif()
string(REGEX MATCH "[^ \n]+\n[^\n]+:[0-9]+: Failure\n|a kernel: deadlock[^\n]*" found "${output}")
if(NOT found)
  message(FATAL_ERROR "the tests did not run to a failure (${result}): ${output}")
endif()
message(STATUS "the planted fault was found (${result}): ${found}")
