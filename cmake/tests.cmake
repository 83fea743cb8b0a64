# GoogleTest, and deltasane_test(NAME SOURCES files... USES layers... [LABEL label]). `make test` runs the tests
# without a label; those with one have a command each, as .ci/run shows.

if(DELTASANE_HEADERS)
  set(gtest ${DELTASANE_HEADERS}/googletest)
  if(NOT EXISTS ${gtest}/src/gtest-all.cc)
    message(FATAL_ERROR "DELTASANE_HEADERS=${DELTASANE_HEADERS}: expected googletest/src/gtest-all.cc "
      "in it, found nothing. Use -DDELTASANE_TESTS=OFF, or make the folder with tools/collect_headers.")
  endif()
  add_library(deltasane_gtest STATIC ${gtest}/src/gtest-all.cc ${gtest}/src/gtest_main.cc)
  target_include_directories(deltasane_gtest SYSTEM PUBLIC ${gtest}/include PRIVATE ${gtest})
  target_link_libraries(deltasane_gtest PUBLIC Threads::Threads)
else()
  find_package(GTest REQUIRED)
  add_library(deltasane_gtest INTERFACE)
  target_link_libraries(deltasane_gtest INTERFACE GTest::gtest GTest::gtest_main)
endif()

# Where test data that is not part of the project may lie; its tests skip with a reason elsewhere.
set(DELTASANE_SHARED ${PROJECT_SOURCE_DIR}/../shared CACHE PATH "Folder of optional test data")

# Test code is compiled for its author's time, not for its own speed: little optimisation, and
# GoogleTest's header compiled once. What is tested is optimised as users get it.
function(deltasane_compile_tests target)
  deltasane_optimise_little(${target})
  if(NOT TARGET deltasane_test_headers)
    file(WRITE ${PROJECT_BINARY_DIR}/test_headers.cpp "")
    add_library(deltasane_test_headers OBJECT ${PROJECT_BINARY_DIR}/test_headers.cpp)
    deltasane_optimise_little(deltasane_test_headers)
    target_link_libraries(deltasane_test_headers PRIVATE deltasane_compiler deltasane_gtest)
    target_precompile_headers(deltasane_test_headers PRIVATE <gtest/gtest.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM deltasane_test_headers)
endfunction()

include(GoogleTest)
function(deltasane_test name)
  cmake_parse_arguments(arg "" "LABEL" "SOURCES;USES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE deltasane_test_support deltasane_headers deltasane_gtest)
  foreach(used IN LISTS arg_USES)
    target_link_libraries(${name} PRIVATE deltasane_${used})
  endforeach()
  target_compile_definitions(${name} PRIVATE
    DELTASANE_SOURCE="${PROJECT_SOURCE_DIR}" DELTASANE_BUILD="${PROJECT_BINARY_DIR}"
    DELTASANE_SHARED="${DELTASANE_SHARED}")
  deltasane_compile_tests(${name})
  if(DELTASANE_SANITIZE)  # one process per program: looking for leaks can take seconds per process
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT 3600)
  else()
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 120 PROPERTIES TIMEOUT 600 LABELS "${arg_LABEL}")
  endif()
endfunction()
