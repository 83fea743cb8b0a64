# cmake --install BUILD --prefix PREFIX: the program with its manual page and completions, the libraries with
# their header, and what CMake and pkg-config need to find them. All of it may be moved as a whole.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS deltasane_static deltasane_shared EXPORT deltasaneTargets
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# find_package(deltasane). Until 1.0 a minor version may change the interface.
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/deltasane)
install(EXPORT deltasaneTargets NAMESPACE deltasane:: DESTINATION ${package})
configure_package_config_file(cmake/deltasaneConfig.cmake.in deltasaneConfig.cmake
  INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(deltasaneConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/deltasaneConfig.cmake
  ${PROJECT_BINARY_DIR}/deltasaneConfigVersion.cmake DESTINATION ${package})

# pkg-config, with paths from where its file lies.
set(pc_folder ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
foreach(folder INCLUDEDIR LIBDIR)
  file(RELATIVE_PATH pc_${folder} ${pc_folder} ${CMAKE_INSTALL_FULL_${folder}})
endforeach()
set(pc_private -pthread)
if(DELTASANE_CUDA)
  set(pc_private "-L${CUDAToolkit_LIBRARY_DIR} -lcublasLt -lcudart_static -lrt -ldl -pthread")
endif()
configure_file(cmake/deltasane.pc.in deltasane.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/deltasane.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(NOT DELTASANE_CLI)
  return()
endif()
install(TARGETS deltasane)

# deltasane_written(NAME FOLDER ARGUMENTS...): what the program itself prints, as the file FOLDER/NAME.
set(written_files "")
macro(deltasane_written name folder)
  set(file ${PROJECT_BINARY_DIR}/share/${name})
  add_custom_command(OUTPUT ${file} DEPENDS deltasane COMMAND deltasane ${ARGN} > ${file} VERBATIM)
  list(APPEND written_files ${file})
  install(FILES ${file} DESTINATION ${folder})
endmacro()
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  message(STATUS "no manual page and no completions: the program cannot run on this machine")
else()
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share)
  deltasane_written(deltasane.1 ${CMAKE_INSTALL_MANDIR}/man1 manual)
  deltasane_written(deltasane ${CMAKE_INSTALL_DATADIR}/bash-completion/completions completion bash)
  deltasane_written(_deltasane ${CMAKE_INSTALL_DATADIR}/zsh/site-functions completion zsh)
  deltasane_written(deltasane.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d completion fish)
  add_custom_target(deltasane_share ALL DEPENDS ${written_files})
endif()
