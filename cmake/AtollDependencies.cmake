# SPDX-License-Identifier: Apache-2.0
# Every library that Atoll stands on, as one imported target each. All come from the distribution.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
# Static, because the guest daemon is; one kind of Boost.JSON for all programs.
set(Boost_USE_STATIC_LIBS ON)
# By Boost's own files: CMake's way to find it is on its way out, and warns on Debian 13.
find_package(Boost 1.81 CONFIG REQUIRED COMPONENTS json)
find_package(OpenSSL 3.0 REQUIRED)
find_package(fmt REQUIRED)
pkg_check_modules(NGHTTP2 REQUIRED IMPORTED_TARGET libnghttp2)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(MNL REQUIRED IMPORTED_TARGET libmnl)
pkg_check_modules(NFTABLES REQUIRED IMPORTED_TARGET libnftables)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)
pkg_check_modules(ARCHIVE REQUIRED IMPORTED_TARGET libarchive)
pkg_check_modules(IDN2 REQUIRED IMPORTED_TARGET libidn2)
pkg_check_modules(RE2 REQUIRED IMPORTED_TARGET re2)
pkg_check_modules(CARES REQUIRED IMPORTED_TARGET libcares)
pkg_check_modules(BROTLI REQUIRED IMPORTED_TARGET libbrotlidec libbrotlienc)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)

# By name and not by path, so that a static program gets the archive and others the shared library.
set_property(TARGET PkgConfig::SODIUM PROPERTY INTERFACE_LINK_LIBRARIES sodium)
set_property(TARGET PkgConfig::ZLIB PROPERTY INTERFACE_LINK_LIBRARIES z)
# Its -pthread would not fit the shared precompiled headers; Threads::Threads says what is needed.
set_property(TARGET PkgConfig::RE2 PROPERTY INTERFACE_COMPILE_OPTIONS "")

# fmt is compiled once, here: the distribution ships no static library, and the guest daemon is static.
add_library(atoll_fmt STATIC ${PROJECT_SOURCE_DIR}/cmake/fmt.cc)

# Asio is compiled once, in src/async.
add_library(atoll_asio INTERFACE)
target_link_libraries(atoll_asio INTERFACE Boost::headers Threads::Threads)
target_compile_definitions(atoll_asio INTERFACE
  BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_NO_TS_EXECUTORS)

# llhttp comes as C sources (package node-llhttp on Debian 12, libllhttp-dev on Debian 13).
find_path(LLHTTP_SOURCE_DIR llhttp.c PATHS /usr/share/llhttp NO_DEFAULT_PATH)
find_path(LLHTTP_INCLUDE_DIR llhttp.h PATHS /usr/share/include/llhttp /usr/include)
if(LLHTTP_SOURCE_DIR)
  add_library(atoll_llhttp STATIC
    ${LLHTTP_SOURCE_DIR}/api.c ${LLHTTP_SOURCE_DIR}/http.c ${LLHTTP_SOURCE_DIR}/llhttp.c)
  target_include_directories(atoll_llhttp SYSTEM PUBLIC ${LLHTTP_INCLUDE_DIR})
else()
  find_library(LLHTTP_LIBRARY NAMES libllhttp.a llhttp REQUIRED)
  add_library(atoll_llhttp INTERFACE)
  target_include_directories(atoll_llhttp SYSTEM INTERFACE ${LLHTTP_INCLUDE_DIR})
  target_link_libraries(atoll_llhttp INTERFACE ${LLHTTP_LIBRARY})
endif()
