# SPDX-License-Identifier: Apache-2.0
# Language level, warnings, and the compiler cache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# No library here is shared, and a precompiled header fits programs and libraries only if both are compiled alike.
set(CMAKE_CXX_COMPILE_OPTIONS_PIC -fPIE)

option(ATOLL_WERROR "Treat warnings as errors" OFF)
option(ATOLL_BENCH "Build the programs under bench/" OFF)

add_library(atoll_warnings INTERFACE)
target_compile_options(atoll_warnings INTERFACE
  -Wall -Wextra -Wconversion -Wno-sign-conversion -Wshadow -Wnon-virtual-dtor
  -Wold-style-cast -Wimplicit-fallthrough -Wno-missing-field-initializers
  $<$<BOOL:${ATOLL_WERROR}>:-Werror>)

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_CURRENT_LIST_DIR}/compile-cached ${PROJECT_SOURCE_DIR})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  # clang's precompiled headers carry a time stamp unless told not to; with it ccache never hits.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
endif()

if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_compile_options(-g1)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()
add_link_options(-fuse-ld=lld-19)
