# deltasane_layer(NAME [COLD] USES lower layers... SOURCES files... [COLD_SOURCES files...]
#   [LINKS other targets...])
#
# One static library per folder of src/. What may use what is checked by the test `house`. COLD: nothing
# in it takes time when it runs, so little is spent on optimising it. COLD_SOURCES: nothing in these.
function(deltasane_layer name)
  cmake_parse_arguments(arg "COLD" "" "USES;SOURCES;COLD_SOURCES;LINKS" ${ARGN})
  set(used deltasane_compiler ${arg_LINKS})
  foreach(layer IN LISTS arg_USES)
    list(APPEND used deltasane_${layer})
  endforeach()
  add_library(deltasane_${name} STATIC ${arg_SOURCES})
  target_link_libraries(deltasane_${name} PUBLIC ${used} PRIVATE deltasane_headers)
  set_target_properties(deltasane_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  if(arg_COLD)
    deltasane_optimise_little(deltasane_${name})
  endif()
  if(arg_COLD_SOURCES)
    add_library(deltasane_${name}_cold OBJECT ${arg_COLD_SOURCES})
    target_link_libraries(deltasane_${name}_cold PRIVATE ${used} deltasane_headers)
    deltasane_optimise_little(deltasane_${name}_cold)
    deltasane_add_objects(deltasane_${name} deltasane_${name}_cold)
  endif()
endfunction()

# Objects of another target that a layer's library holds, too.
function(deltasane_add_objects target objects)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
  set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  set_property(TARGET ${target} APPEND PROPERTY DELTASANE_OBJECTS ${objects})
endfunction()

function(deltasane_optimise_little target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Og>)
endfunction()

# deltasane_cuda_sources(NAME SOURCES files... [LINKS other targets...]): what a layer has more of in
# a build with CUDA.
function(deltasane_cuda_sources name)
  if(NOT DELTASANE_CUDA)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  target_sources(deltasane_${name} PRIVATE ${arg_SOURCES})
  # Each is compiled alone, with names of its own; CMake from 3.31 on would join them.
  set(kernels ${arg_SOURCES})
  list(FILTER kernels INCLUDE REGEX "[.]cu$")
  set_source_files_properties(${kernels} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(deltasane_${name} PUBLIC CUDA::cudart_static ${arg_LINKS})
endfunction()
