# CPU instruction sets. One row here, one enumerator in kernel/isa.h and one test of the processor
# in kernel/isa.cpp are all that an instruction set needs.
#
# deltasane_isa_sources(TARGET files...) compiles each file once per instruction set of this
# machine's family, with DELTASANE_ISA naming it, and adds the objects to TARGET. Such a file must
# not emit code that other files share (the linker could keep the wide copy for everyone): it
# includes plain declarations only, and the test `isa_symbols` looks.

set(isa_flags_portable "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(DELTASANE_ISAS portable neon neon_dot neon_mm)
  set(isa_flags_neon "-march=armv8-a+simd")
  set(isa_flags_neon_dot "-march=armv8.2-a+dotprod")
  set(isa_flags_neon_mm "-march=armv8.2-a+dotprod+i8mm+bf16+fp16fml")
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
  set(DELTASANE_ISAS portable avx2 avx2_dot avx512 avx512_dot avx512_amx)
  set(isa_flags_avx2 "-mavx2 -mfma -mf16c")
  set(isa_flags_avx2_dot "${isa_flags_avx2} -mavxvnni")
  set(isa_flags_avx512 "-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512")
  set(isa_flags_avx512_dot "${isa_flags_avx512} -mavx512vnni")
  set(isa_flags_avx512_amx "${isa_flags_avx512_dot} -mavx512bf16 -mamx-tile -mamx-bf16")
else()
  set(DELTASANE_ISAS portable)
endif()

# Kernels of floats only: sets that add nothing for floats are left out.
set(DELTASANE_FLOAT_ISAS ${DELTASANE_ISAS})
list(REMOVE_ITEM DELTASANE_FLOAT_ISAS neon_dot neon_mm avx2_dot avx512_dot avx512_amx)

function(deltasane_float_isa_sources target)
  deltasane_sources_for("${DELTASANE_FLOAT_ISAS}" ${target} ${ARGN})
endfunction()

function(deltasane_isa_sources target)
  deltasane_sources_for("${DELTASANE_ISAS}" ${target} ${ARGN})
endfunction()

function(deltasane_sources_for isas target)
  foreach(isa IN LISTS isas)
    set(objects ${target}_isa_${isa})
    if(NOT TARGET ${objects})
      add_library(${objects} OBJECT)
      set_target_properties(${objects} PROPERTIES UNITY_BUILD OFF)  # their headers are small
      target_link_libraries(${objects} PRIVATE deltasane_compiler)
      separate_arguments(flags UNIX_COMMAND "${isa_flags_${isa}}")
      target_compile_options(${objects} PRIVATE ${flags})
      # a * b + c is fused in every kernel or in none, however it is written, so that tiles and what is left beside
      # them round alike. Clang must be told to; GCC 13 on x86 must be told not to leave out chains of narrow vectors.
      target_compile_options(${objects} PRIVATE
        $<$<CXX_COMPILER_ID:Clang>:-ffp-contract=fast>
        $<$<CXX_COMPILER_ID:GNU>:--param=avoid-fma-max-bits=0>)
      target_compile_definitions(${objects} PRIVATE DELTASANE_ISA=${isa})
      deltasane_add_objects(${target} ${objects})
    endif()
    target_sources(${objects} PRIVATE ${ARGN})
  endforeach()
endfunction()
