# The version: the last git tag vX.Y.Z and what was committed since, or, where the sources are no git
# checkout of their own (an archive, a copy inside another project), the one in CMakeLists.txt.
#
#   0.2.0                    the tag v0.2.0
#   0.2.0+14.g4f3e2d1        14 commits later
#   0.2.0+14.g4f3e2d1.dirty  with changes that are not committed
#   0.1.0+g4f3e2d1           no tag yet
#
# The number X.Y.Z is found when CMake runs (again after a tag was added); the text at each build, into
# one small source of its own. So a commit compiles one file and links the program and the libraries.

# Sets DELTASANE_VERSION_NUMBER and DELTASANE_VERSION_TEXT in the caller.
function(deltasane_find_version number)
  set(text ${number})
  find_program(DELTASANE_GIT git)
  mark_as_advanced(DELTASANE_GIT)
  get_filename_component(source ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/.. REALPATH)
  set(home "")
  if(DELTASANE_GIT)
    execute_process(COMMAND ${DELTASANE_GIT} rev-parse --show-toplevel WORKING_DIRECTORY ${source}
      OUTPUT_VARIABLE home OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  if(home STREQUAL source)
    execute_process(COMMAND ${DELTASANE_GIT} describe --tags --match v[0-9]* --long --always --dirty
        --abbrev=7 WORKING_DIRECTORY ${source}
      OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(found MATCHES "^v([0-9]+[.][0-9]+[.][0-9]+)-([0-9]+)-(g[0-9a-f]+)(-dirty)?$")
      set(number ${CMAKE_MATCH_1})
      set(text ${number}+${CMAKE_MATCH_2}.${CMAKE_MATCH_3})
      if(CMAKE_MATCH_2 EQUAL 0 AND NOT CMAKE_MATCH_4)
        set(text ${number})
      endif()
    elseif(found MATCHES "^([0-9a-f]+)(-dirty)?$")
      set(text ${number}+g${CMAKE_MATCH_1})
    endif()
    if(found MATCHES "-dirty$")
      string(APPEND text .dirty)
    endif()
  endif()
  set(DELTASANE_VERSION_NUMBER ${number} PARENT_SCOPE)
  set(DELTASANE_VERSION_TEXT ${text} PARENT_SCOPE)
endfunction()

# deltasane_version: the text, for base/version.h.
function(deltasane_add_version)
  set(written ${PROJECT_BINARY_DIR}/version.cpp)
  add_custom_target(deltasane_write_version BYPRODUCTS ${written}
    COMMAND ${CMAKE_COMMAND} -DNUMBER=${PROJECT_VERSION} -DWRITTEN=${written}
      -P ${PROJECT_SOURCE_DIR}/cmake/write_version.cmake
    COMMENT "Looking for the version" VERBATIM)
  add_library(deltasane_version OBJECT ${written})
  set_target_properties(deltasane_version PROPERTIES UNITY_BUILD OFF
    POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(deltasane_version PRIVATE deltasane_compiler)
  add_dependencies(deltasane_version deltasane_write_version)
  # A tag makes CMake look again.
  if(DELTASANE_GIT AND EXISTS ${PROJECT_SOURCE_DIR}/.git)
    foreach(place refs/tags packed-refs)
      execute_process(COMMAND ${DELTASANE_GIT} rev-parse --git-path ${place}
        WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE
        ERROR_QUIET)
      get_filename_component(path "${path}" ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
      if(path AND EXISTS ${path})
        set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
      endif()
    endforeach()
  endif()
endfunction()
