# Installs a build, moves what was installed, and builds and runs examples/embed
#
#   with find_package, against the archive and against the shared library,
#   with pkg-config, where that is installed,
#   with add_subdirectory. The objects of the large layers are taken from the build that is tested (take_object),
#   so this costs seconds; the other layers are compiled as a part of the example.
cmake_minimum_required(VERSION 3.25)
set(folder ${BUILD}/package_test)
set(prefix ${folder}/moved)
set(model ${SOURCE}/models/arithmetic-sane-3.safetensors)

function(succeeds)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}: expected exit code 0, found ${result}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(completes_a_prompt program)
  succeeds(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${prefix}/${LIBDIR} ${program} ${model} "12 + 30 =")
  if(NOT output MATCHES "^ 42[^\n]*\nposition [0-9]+\n$")
    message(FATAL_ERROR "${program}: expected ' 42' and a position, found '${output}'")
  endif()
endfunction()

# builds(NAME OPTIONS...): examples/embed in a build folder of its own.
function(builds name)
  set(built ${folder}/${name})
  succeeds(${CMAKE_COMMAND} -S ${SOURCE}/examples/embed -B ${built} -G Ninja
    -DCMAKE_MAKE_PROGRAM=${NINJA} -DCMAKE_CXX_COMPILER=${CXX} ${ARGN})
  succeeds(${CMAKE_COMMAND} --build ${built})
  completes_a_prompt(${built}/embed)
endfunction()

file(REMOVE_RECURSE ${folder})
succeeds(${CMAKE_COMMAND} --install ${BUILD} --prefix ${folder}/first)
file(RENAME ${folder}/first ${prefix})
foreach(file bin/deltasane include/deltasane/deltasane.h ${LIBDIR}/libdeltasane.a ${LIBDIR}/libdeltasane.so
    ${LIBDIR}/pkgconfig/deltasane.pc share/man/man1/deltasane.1 share/bash-completion/completions/deltasane
    share/zsh/site-functions/_deltasane share/fish/vendor_completions.d/deltasane.fish
    share/doc/deltasane/LICENSE share/doc/deltasane/README.md share/doc/deltasane/CHANGELOG.md)
  if(NOT EXISTS ${prefix}/${file})
    message(FATAL_ERROR "cmake --install: expected ${file}, found nothing")
  endif()
endforeach()
succeeds(${prefix}/bin/deltasane --version)

# Outside of the shared library there is the public API, and nothing else.
succeeds(${NM} -D --defined-only -f posix ${prefix}/${LIBDIR}/libdeltasane.so)
string(REGEX REPLACE "(^|\n)(_ZN|_ZNK|_ZT[ISV]N)9deltasane2v0[^\n]*" "" others "${output}")
string(REGEX REPLACE "(^|\n)DELTASANE_0[^\n]*" "" others "${others}")
string(STRIP "${others}" others)
if(others OR NOT output MATCHES "_ZN9deltasane2v05Model4open")
  message(FATAL_ERROR "libdeltasane.so: expected deltasane::v0 and nothing else, found ${others}")
endif()

builds(installed -DCMAKE_PREFIX_PATH=${prefix})
builds(installed_shared -DCMAKE_PREFIX_PATH=${prefix} -DEMBED_LIBRARY=deltasane::deltasane_shared)

find_program(pkg_config pkg-config)
if(pkg_config)
  set(ask ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${prefix}/${LIBDIR}/pkgconfig ${pkg_config})
  succeeds(${ask} --cflags --libs deltasane)
  separate_arguments(flags UNIX_COMMAND "${output}")
  succeeds(${CXX} -std=c++17 ${SOURCE}/examples/embed/main.cpp ${flags} -o ${folder}/by_pkg_config)
  completes_a_prompt(${folder}/by_pkg_config)
endif()

builds(subdirectory -DDELTASANE_FOLDER=${SOURCE} -DDELTASANE_HEADERS=${HEADERS}
  -DCMAKE_UNITY_BUILD=${UNITY} -DCMAKE_UNITY_BUILD_BATCH_SIZE=${BATCH}
  "-DCMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CURRENT_LIST_DIR}/take_object\\\;${BUILD}")
