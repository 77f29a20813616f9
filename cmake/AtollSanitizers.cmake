# SPDX-License-Identifier: Apache-2.0
# ATOLL_SANITIZE is a comma list for -fsanitize; ATOLL_FUZZ builds the libFuzzer targets.
set(ATOLL_SANITIZE "" CACHE STRING "Value for -fsanitize=, empty for none")
option(ATOLL_FUZZ "Build the libFuzzer targets" OFF)
option(ATOLL_COVERAGE "Instrument for source-based coverage" OFF)

if(ATOLL_SANITIZE)
  add_compile_options(-fsanitize=${ATOLL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ATOLL_SANITIZE})
  # Asio recycles coroutine frames by itself, which hides use-after-free from the sanitizers.
  add_compile_definitions(BOOST_ASIO_DISABLE_AWAITABLE_FRAME_RECYCLING ATOLL_SANITIZED)
endif()
if(ATOLL_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()
if(ATOLL_COVERAGE)
  add_compile_options(-fprofile-instr-generate -fcoverage-mapping)
  add_link_options(-fprofile-instr-generate)
endif()
