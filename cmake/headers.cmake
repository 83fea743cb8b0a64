# The header-only libraries: fmt, CLI11, nlohmann/json, toml++, xxhash.
# They come from the system, or from one folder (tools/collect_headers makes it) on machines
# that have no packages.

add_library(deltasane_headers INTERFACE)
target_compile_definitions(deltasane_headers INTERFACE FMT_HEADER_ONLY XXH_INLINE_ALL)
set(wanted nlohmann/json.hpp toml++/toml.h xxhash.h)
if(DELTASANE_CLI)
  list(APPEND wanted fmt/format.h CLI/CLI.hpp)
endif()
foreach(header IN LISTS wanted)
  if(DELTASANE_HEADERS)
    if(NOT EXISTS ${DELTASANE_HEADERS}/${header})
      message(FATAL_ERROR "DELTASANE_HEADERS=${DELTASANE_HEADERS}: expected ${header} in it, found "
        "nothing. Make the folder with tools/collect_headers where the packages are installed.")
    endif()
  else()
    string(MAKE_C_IDENTIFIER DELTASANE_FOLDER_OF_${header} variable)
    find_path(${variable} ${header})
    mark_as_advanced(${variable})
    if(NOT ${variable})
      message(FATAL_ERROR "${header} is not installed. Run tools/install_packages, or give a folder "
        "that holds it with -DDELTASANE_HEADERS=DIR.")
    endif()
  endif()
endforeach()
if(DELTASANE_HEADERS)
  target_include_directories(deltasane_headers SYSTEM INTERFACE ${DELTASANE_HEADERS})
endif()
