# SPDX-License-Identifier: Apache-2.0
# What a release is hardened with. Each flag is cheap; together they turn many memory bugs into a clean abort.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options(-g1 -fstack-protector-strong -fstack-clash-protection -fcf-protection
    -ftrivial-auto-var-init=zero)
  add_compile_definitions(_FORTIFY_SOURCE=2 _GLIBCXX_ASSERTIONS ATOLL_NO_FAULT_POINTS)
  add_link_options(-Wl,-z,relro -Wl,-z,now)
  set(CMAKE_CXX_FLAGS_RELEASE "-O2")
  set(CMAKE_C_FLAGS_RELEASE "-O2")
endif()
