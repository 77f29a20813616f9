# SPDX-License-Identifier: Apache-2.0
# atoll_library(NAME [LINK libs...] [EXTRA patterns...])
#   One static library from every *.cc of the current folder that is neither a test nor main.cc, and one test program
#   NAME_test from its *_test.cc files. LINK is the layering law: a folder sees only what it lists.
include(GoogleTest)

function(atoll_library name)
  cmake_parse_arguments(ARG "" "" "LINK;EXTRA;TEST_LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc ${ARG_EXTRA})
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test|/main)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")

  if(sources)
    add_library(atoll_${name} STATIC ${sources})
    target_link_libraries(atoll_${name} PRIVATE atoll_warnings PUBLIC atoll_fmt ${ARG_LINK})
    target_include_directories(atoll_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  else()
    add_library(atoll_${name} INTERFACE)
    target_link_libraries(atoll_${name} INTERFACE atoll_fmt ${ARG_LINK})
    target_include_directories(atoll_${name} INTERFACE ${PROJECT_SOURCE_DIR}/src)
  endif()

  if(BUILD_TESTING AND tests)
    find_package(GTest REQUIRED)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE atoll_warnings atoll_${name} ${ARG_TEST_LINK}
      GTest::gmock GTest::gtest_main)
    target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    gtest_discover_tests(${name}_test TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60 PROPERTIES LABELS unit TIMEOUT 120)
  endif()
endfunction()

# atoll_program(NAME SOURCE [STATIC] LINK libs...)
function(atoll_program name source)
  cmake_parse_arguments(ARG "STATIC" "" "LINK" ${ARGN})
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE atoll_warnings ${ARG_LINK})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  if(ARG_STATIC AND NOT ATOLL_SANITIZE)
    target_link_options(${name} PRIVATE -static -Wl,--gc-sections)
  endif()
endfunction()
