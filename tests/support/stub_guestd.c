// SPDX-License-Identifier: Apache-2.0
//
// Stands in for the guest daemon in tests of the runner: speaks no protocol, but does the least that its
// place asks for. Each connection brings one line; it is given to /bin/sh, and the output goes back. PID 1
// leaves no zombies.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// model::GuestBoot (src/model/guest_boot.h), which this C program cannot include.
struct boot {
  unsigned magic, version;
  unsigned char token[32];
  int listen_fd;
  unsigned char rest[68];
  int ready_fd, settle_fd;
};

// As the daemon does where it is handed no socket (the gvisor tier).
static int listen_here(void) {
  int one = 1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(49983)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(fd, (struct sockaddr*)&address, sizeof address) != 0 || listen(fd, 64) != 0) _exit(4);
  return fd;
}

// The line "@settle": what the daemon does before a pause that keeps only the disk.
static void settle(int connection, int fd) {
  char failed = 1;
  int done = write(fd, "", 1) == 1 && read(fd, &failed, 1) == 1 && failed == 0;
  send(connection, done ? "settled\n" : "failed\n", done ? 8 : 7, MSG_NOSIGNAL);
  _exit(0);
}

static void serve(int connection, int settle_fd) {
  char line[4096];
  size_t used = 0;
  while (used + 1 < sizeof line) {
    ssize_t n = read(connection, line + used, 1);
    if (n <= 0 || line[used] == '\n') break;
    ++used;
  }
  line[used] = 0;
  if (strcmp(line, "@settle") == 0) settle(connection, settle_fd);
  dup2(connection, 0);
  dup2(connection, 1);
  dup2(connection, 2);
  signal(SIGCHLD, SIG_DFL);
  char* environment[] = {"PATH=/bin:/usr/bin:/sbin:/usr/sbin", NULL};
  execle("/bin/sh", "sh", "-c", line, (char*)NULL, environment);
  _exit(127);
}

int main(int argc, char** argv) {
  struct boot boot;
  if (argc != 3 || strcmp(argv[1], "--boot-fd") != 0) return 2;
  if (read(atoi(argv[2]), &boot, sizeof boot) != sizeof boot || boot.magic != 0x544f4f42) return 3;
  close(atoi(argv[2]));  // what is not the guest's own cannot come back with its memory
  if (boot.listen_fd < 0) boot.listen_fd = listen_here();
  if (boot.ready_fd >= 0 && (write(boot.ready_fd, "", 1) != 1 || close(boot.ready_fd) != 0)) return 5;
  unlink("/tmp/.atoll-boot");
  signal(SIGCHLD, SIG_IGN);
  for (;;) {
    int connection = accept4(boot.listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (connection < 0) {
      struct pollfd item = {boot.listen_fd, POLLIN, 0};  // the socket does not block
      poll(&item, 1, -1);
      continue;
    }
    if (fork() == 0) serve(connection, boot.settle_fd);
    close(connection);
  }
}
