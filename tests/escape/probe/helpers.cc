// SPDX-License-Identifier: Apache-2.0
#include "helpers.h"

#include <arpa/inet.h>
#include <linux/keyctl.h>
#include <linux/securebits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "probe.h"

namespace atl::escape {
namespace {

[[noreturn]] void sleep_for_ever() {
  for (;;) ::pause();
}

int posture() {
  int death_signal = 0;
  raw(SYS_prctl, PR_GET_PDEATHSIG, &death_signal, 0, 0, 0);
  mode_t mask = ::umask(0);
  long keyring = raw(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0);
  int keyring_error = keyring < 0 ? errno : 0;
  std::printf(
      "{\"securebits\":%ld,\"dumpable\":%ld,\"death_signal\":%d,\"umask\":\"%03o\",\"no_new_privs\":%ld,"
      "\"seccomp\":%ld,\"keyring_errno\":\"%s\"}\n",
      raw(SYS_prctl, PR_GET_SECUREBITS, 0, 0, 0, 0), raw(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0),
      death_signal, mask, raw(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0),
      raw(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0), keyring_error != 0 ? ::strerrorname_np(keyring_error) : "");
  return 0;
}

int hold(const std::string& text) {
  static char kept[256];
  std::strncpy(kept, text.c_str(), sizeof kept - 1);
  raw(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
  std::printf("%d\n", ::getpid());
  std::fflush(stdout);
  sleep_for_ever();
}

[[noreturn]] void serve(long listener, const std::string& answer) {
  std::printf("listening\n");
  std::fflush(stdout);
  for (;;) {
    long client = raw(SYS_accept4, listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    char request[2048];
    raw(SYS_read, client, request, sizeof request);
    raw(SYS_write, client, answer.data(), answer.size());
    std::printf("hit\n");
    std::fflush(stdout);
    raw(SYS_close, client);
  }
}

int serve_abstract(const std::string& name) {
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::memcpy(where.sun_path + 1, name.data(), name.size());
  long fd = raw(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (raw(SYS_bind, fd, &where, offsetof(sockaddr_un, sun_path) + 1 + name.size()) < 0) return 1;
  raw(SYS_listen, fd, 8);
  serve(fd, "neighbour");
}

int serve_tcp(const std::string& address, int port, const std::string& text) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_aton(address.c_str(), &where.sin_addr);
  long fd = raw(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int one = 1;
  raw(SYS_setsockopt, fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (raw(SYS_bind, fd, &where, sizeof where) < 0) return 1;
  raw(SYS_listen, fd, 64);
  serve(fd, "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(text.size()) +
                "\r\nConnection: close\r\n\r\n" + text);
}

int threads(int count) {
  for (int i = 0; i < count; ++i) {
    pthread_t thread{};
    pthread_create(&thread, nullptr, [](void*) -> void* { sleep_for_ever(); }, nullptr);
  }
  std::printf("%d\n", ::getpid());
  std::fflush(stdout);
  sleep_for_ever();
}

}  // namespace

int run_helper(std::string_view verb, const std::vector<std::string>& arguments) {
  auto at = [&](std::size_t i) { return i < arguments.size() ? arguments[i] : std::string(); };
  if (verb == "posture") return posture();
  if (verb == "hold") return hold(at(0));
  if (verb == "serve-abstract") return serve_abstract(at(0));
  if (verb == "serve-tcp") return serve_tcp(at(0), std::atoi(at(1).c_str()), at(2));
  if (verb == "threads") return threads(std::atoi(at(0).c_str()));
  std::fprintf(stderr,
               "usage: escape_probe list | run [ID...] [key=value...] | posture | hold | serve-abstract | "
               "serve-tcp | threads\n");
  return 2;
}

}  // namespace atl::escape
