# Standing mutations: faults that the tests must find.
#
# deltasane_mutations(FOLDER folder TESTS objects LAYER layer ISA_SOURCES sources...) builds, for every
# folder/*.mutation, the given tests (an OBJECT library) against the layer with that one
# fault planted, and adds a test that passes only if they fail. Faults of the definition
# (reference_*) must be found without the kernels' help. A .mutation file names a source, the text to find, which
# must stand there exactly once, and the text to put in its place. A second line `tests FILTER` names those that
# find it, where running all others first would take long. Sources compiled per instruction set are planted in the
# portable one. A fault in a header is built into the ISA_SOURCES.

function(deltasane_mutations)
  cmake_parse_arguments(arg "" "FOLDER;LAYER;TESTS" "ISA_SOURCES" ${ARGN})
  file(GLOB mutations CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${arg_FOLDER}/*.mutation)
  foreach(mutation IN LISTS mutations)
    get_filename_component(name ${mutation} NAME_WE)
    set(folder ${PROJECT_BINARY_DIR}/mutants/${name})
    deltasane_plant(${mutation} ${folder} planted)
    if(planted MATCHES "\\.h$")
      set(sources ${arg_ISA_SOURCES})
    else()
      set(sources ${folder}/${planted})
    endif()
    add_executable(mutant_${name} ${sources} $<TARGET_OBJECTS:${arg_TESTS}>)
    set_target_properties(mutant_${name} PROPERTIES UNITY_BUILD OFF)
    target_include_directories(mutant_${name} BEFORE PRIVATE ${folder}/src)
    target_compile_definitions(mutant_${name} PRIVATE DELTASANE_ISA=portable)
    deltasane_optimise_little(mutant_${name})
    target_link_libraries(mutant_${name} PRIVATE deltasane_${arg_LAYER} deltasane_test_support
      deltasane_headers deltasane_gtest)
    set(filter "*")
    if(planted_tests)
      set(filter "${planted_tests}")
    elseif(name MATCHES "^reference_")
      set(filter "DeltaRuleDefinition.*:*DeltaRuleGradientOf*")
    endif()
    deltasane_expect_failing_tests(${name} "${filter}")
  endforeach()
endfunction()

# deltasane_expect_failing_tests(NAME FILTER): the test mutation.NAME, of the program mutant_NAME. These programs are
# compiled when such a test is run (ctest --preset mutations), not with everything else: they test the tests.
function(deltasane_expect_failing_tests name filter)
  if(NOT TARGET mutants)
    add_custom_target(mutants)
    add_test(NAME mutants COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target mutants)
    set_tests_properties(mutants PROPERTIES LABELS mutation FIXTURES_SETUP mutants TIMEOUT 3600)
  endif()
  set_target_properties(mutant_${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  add_dependencies(mutants mutant_${name})
  add_test(NAME mutation.${name} COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:mutant_${name}> -DFILTER=${filter}
    -P ${PROJECT_SOURCE_DIR}/cmake/expect_failing_tests.cmake)
  set_tests_properties(mutation.${name} PROPERTIES LABELS mutation FIXTURES_REQUIRED mutants TIMEOUT 600)
endfunction()

# Writes the source that a mutation names, with its fault, under `folder`. Sets ${planted} to the source and
# ${planted}_tests to the filter that the mutation names, or to nothing.
function(deltasane_plant mutation folder planted)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${mutation})
  file(READ ${mutation} text)
  string(FIND "${text}" "\n----- find\n" find_at)
  string(FIND "${text}" "----- put\n" put_at)
  if(find_at LESS 0 OR put_at LESS 0)
    message(FATAL_ERROR "${mutation}: expected a path, '----- find' and '----- put'")
  endif()
  string(SUBSTRING "${text}" 0 ${find_at} source)
  set(tests "")
  if(source MATCHES "^([^\n]+)\ntests ([^\n]+)$")
    set(source "${CMAKE_MATCH_1}")
    set(tests "${CMAKE_MATCH_2}")
  endif()
  math(EXPR from "${find_at} + 12")
  math(EXPR length "${put_at} - ${from}")
  string(SUBSTRING "${text}" ${from} ${length} before)
  math(EXPR from "${put_at} + 10")
  string(SUBSTRING "${text}" ${from} -1 after)

  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${source})
  file(READ ${PROJECT_SOURCE_DIR}/${source} code)
  string(FIND "${code}" "${before}" first)
  string(FIND "${code}" "${before}" last REVERSE)
  if(first LESS 0 OR NOT first EQUAL last)
    message(FATAL_ERROR "${mutation}: expected its text exactly once in ${source}. The code has "
      "changed: bring the mutation up to date, do not drop it.")
  endif()
  string(REPLACE "${before}" "${after}" code "${code}")
  file(GLOB_RECURSE present ${folder}/src/*)  # a source that was moved is planted elsewhere now
  list(REMOVE_ITEM present ${folder}/${source})
  if(present)
    file(REMOVE ${present})
  endif()
  set(old "")
  if(EXISTS ${folder}/${source})
    file(READ ${folder}/${source} old)
  endif()
  if(NOT old STREQUAL code)
    file(WRITE ${folder}/${source} "${code}")
  endif()
  set(${planted} ${source} PARENT_SCOPE)
  set(${planted}_tests "${tests}" PARENT_SCOPE)
endfunction()
