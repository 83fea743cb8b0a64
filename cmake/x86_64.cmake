# Cross-compiles for x86-64 on another machine; tests run in an emulator, which has AVX2 and no AVX-512.
# Debian: g++-x86-64-linux-gnu, qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_CXX_COMPILER x86_64-linux-gnu-g++)
# Shared libraries: Debian's static libm for other machines names files that do not exist.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-x86_64 -cpu max -L /usr/x86_64-linux-gnu)
