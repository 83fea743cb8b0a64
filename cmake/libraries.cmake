# deltasane_libraries(LAYERS layers...): what other projects link.
#
#   deltasane::deltasane         libdeltasane.a, one archive with the objects of all these layers
#   deltasane::deltasane_shared  libdeltasane.so, the same objects; only deltasane::v0 is exported
#
# No target of a layer shows outside: whoever links these gets include/, threads and, in a build with CUDA,
# NVIDIA's libraries.
function(deltasane_libraries)
  cmake_parse_arguments(arg "" "" "LAYERS" ${ARGN})
  set(objects $<TARGET_OBJECTS:deltasane_version>)
  foreach(layer IN LISTS arg_LAYERS)
    get_target_property(more deltasane_${layer} DELTASANE_OBJECTS)
    foreach(part IN LISTS more ITEMS deltasane_${layer})
      if(TARGET ${part})
        list(APPEND objects $<TARGET_OBJECTS:${part}>)
      endif()
    endforeach()
  endforeach()

  set(needed Threads::Threads)
  if(DELTASANE_CUDA)
    list(APPEND needed CUDA::cudart_static CUDA::cublasLt)
  endif()
  add_library(deltasane_static STATIC ${objects})
  add_library(deltasane_shared SHARED ${objects})
  add_library(deltasane::deltasane ALIAS deltasane_static)
  add_library(deltasane::deltasane_shared ALIAS deltasane_shared)
  set_target_properties(deltasane_static PROPERTIES EXPORT_NAME deltasane)
  foreach(library deltasane_static deltasane_shared)
    set_target_properties(${library} PROPERTIES OUTPUT_NAME deltasane LINKER_LANGUAGE CXX)
    target_link_libraries(${library} PRIVATE ${needed})
    target_compile_features(${library} INTERFACE cxx_std_17)
    target_include_directories(${library} INTERFACE
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  endforeach()

  # Until 1.0 a minor version may change the interface.
  set_target_properties(deltasane_shared PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  set(exports ${PROJECT_SOURCE_DIR}/cmake/exports.map)
  set_target_properties(deltasane_shared PROPERTIES LINK_DEPENDS ${exports})
  target_link_options(deltasane_shared PRIVATE LINKER:--version-script=${exports})
  if(DELTASANE_SANITIZE)
    target_link_options(deltasane_shared PRIVATE -fsanitize=${DELTASANE_SANITIZE})
  else()
    target_link_options(deltasane_shared PRIVATE LINKER:--no-undefined)
  endif()
endfunction()
