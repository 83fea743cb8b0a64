# deltasane_layer(NAME [COLD] USES lower layers... SOURCES files... [LINKS other targets...])
#
# One static library per folder of src/. What may use what is checked by the test `house`. COLD: nothing
# in it takes time when it runs, so little is spent on optimising it.
function(deltasane_layer name)
  cmake_parse_arguments(arg "COLD" "" "USES;SOURCES;LINKS" ${ARGN})
  add_library(deltasane_${name} STATIC ${arg_SOURCES})
  target_link_libraries(deltasane_${name} PUBLIC deltasane_compiler ${arg_LINKS})
  target_link_libraries(deltasane_${name} PRIVATE deltasane_headers)
  foreach(used IN LISTS arg_USES)
    target_link_libraries(deltasane_${name} PUBLIC deltasane_${used})
  endforeach()
  if(arg_COLD)
    target_compile_options(deltasane_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# deltasane_cuda_sources(NAME SOURCES files... [LINKS other targets...]): what a layer has more of in
# a build with CUDA.
function(deltasane_cuda_sources name)
  if(NOT DELTASANE_CUDA)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  target_sources(deltasane_${name} PRIVATE ${arg_SOURCES})
  target_link_libraries(deltasane_${name} PUBLIC CUDA::cudart_static ${arg_LINKS})
endfunction()
