# Language, warnings and sanitizers: the same for every target of the project. What is set here holds
# in this folder and below, so a project that contains this one keeps its own.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Layers are position-independent (layer.cmake), for the shared library. Hidden symbols cannot be replaced from
# outside, so their calls are direct and inlined as in any other code.
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(deltasane_compiler INTERFACE)
target_include_directories(deltasane_compiler INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(deltasane_compiler INTERFACE Threads::Threads)
target_compile_options(deltasane_compiler INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wno-psabi -Werror=return-type>)
# std::stable_sort of libstdc++ 12 calls a function that is deprecated; Clang says so of whoever sorts.
target_compile_options(deltasane_compiler INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-deprecated-declarations>)
# GCC collects its garbage only beyond 500 MB, which takes 6 % less time.
target_compile_options(deltasane_compiler INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=500000>)

if(DELTASANE_SANITIZE)
  target_compile_options(deltasane_compiler INTERFACE
    -fsanitize=${DELTASANE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(deltasane_compiler INTERFACE -fsanitize=${DELTASANE_SANITIZE})
  # GCC 13 takes frames from a heap that does not align vectors of 64 bytes, and sees reads past the end
  # in what it has instrumented itself.
  target_compile_options(deltasane_compiler INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds>)
  if(DELTASANE_SANITIZE MATCHES address)
    target_compile_options(deltasane_compiler INTERFACE
      $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=asan-use-after-return=0>)
  endif()
endif()

if(DELTASANE_CUDA)
  if(NOT CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES 80-real 86-real 89-real 90 120)
  endif()
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has C++20
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  find_package(CUDAToolkit 12.4 REQUIRED)
endif()
target_compile_definitions(deltasane_compiler INTERFACE
  DELTASANE_CUDA_BUILT=$<BOOL:${DELTASANE_CUDA}>)
