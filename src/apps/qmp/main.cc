// SPDX-License-Identifier: Apache-2.0
//
// atoll-qmp: says one thing to the monitor of a QEMU and reads what comes back, in place of the runner, which
// parses nothing. Started by the runner inside the machine image, as a user of its own of the slot's range,
// without any right. Descriptors: 3 the monitor, 4 the file for the memory (to write), 5 the same (to
// change), 6 where one MonitorReply goes.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <optional>

#include "model/machine.h"
#include "model/qmp.h"

namespace {

using atl::model::QmpLine;

enum Place : int { kMonitor = 3, kFile, kFileAgain, kAnswer };

// Without QEMU's answer in this time the runner ends this program.
constexpr timespec kLook{0, 1'000'000};
constexpr std::size_t kHead = 64 * 1024;  // of the file: more than what lies before the memory's description
constexpr char kBlock[] = "m0";           // the memory backend (runner/microvm/child.cc)
constexpr int kMostRefusals = 1'000;      // of `cont`, one each look

[[noreturn]] void finish(bool done, const atl::model::MappedRam& memory, const char* why,
                         const char* more = "") {
  atl::model::MonitorReply reply{};
  reply.magic = atl::model::kMachineMagic;
  reply.done = done ? 1 : 0;
  reply.memory_offset = memory.pages_offset;
  reply.memory_bytes = memory.pages_bytes;
  reply.bitmap_offset = memory.bitmap_offset;
  std::snprintf(reply.why, sizeof reply.why, "%s%s%s", why, *more != '\0' ? ": " : "", more);
  static_cast<void>(!::write(kAnswer, &reply, sizeof reply));
  ::_exit(done ? 0 : 1);
}

// KERNEL: a PID 1 gets only those signals from itself for which it has a handler (pid_namespaces(7)).
void end_at_alarm() {
  struct sigaction action{};
  action.sa_handler = [](int) { ::_exit(1); };
  ::sigaction(SIGALRM, &action, nullptr);
}

// What is left to it: these calls, on the descriptors that it has.
void confine() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 11, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 10, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmsg, 9, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pread64, 8, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pwrite64, 7, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_nanosleep, 6, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_brk, 5, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
    finish(false, {}, "cannot confine the reader of QEMU's answers");
}

class Monitor {
 public:
  // The next line that is no event.
  QmpLine next() {
    while (true) {
      std::size_t end = buffer_.find('\n');
      if (end != buffer_.npos) {
        std::optional<QmpLine> line = atl::model::parse_qmp(std::string_view(buffer_).substr(0, end));
        buffer_.erase(0, end + 1);
        if (!line) finish(false, {}, "QEMU said something else than QMP");
        if (line->kind != QmpLine::Kind::kEvent) return *line;
        continue;
      }
      if (buffer_.size() > atl::model::kMaxQmpLine) finish(false, {}, "QEMU said too much");
      char bytes[4096];
      ssize_t n = ::read(kMonitor, bytes, sizeof bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) finish(false, {}, "QEMU closed its monitor");
      buffer_.append(bytes, static_cast<std::size_t>(n));
    }
  }

  // One of our own fixed texts; `file` goes with it when it is not -1.
  QmpLine say(const char* text, int file = -1) {
    iovec part{const_cast<char*>(text), std::strlen(text)};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    if (file >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* head = CMSG_FIRSTHDR(&message);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(sizeof file);
      std::memcpy(CMSG_DATA(head), &file, sizeof file);
    }
    if (::sendmsg(kMonitor, &message, MSG_NOSIGNAL) != static_cast<ssize_t>(part.iov_len))
      finish(false, {}, "QEMU does not listen");
    return next();
  }

  void require(const char* text, int file = -1) {
    QmpLine line = say(text, file);
    if (line.kind != QmpLine::Kind::kReturn) finish(false, {}, "QEMU refused a command", line.reason.c_str());
  }

 private:
  std::string buffer_;
};

// Pages that the map names would be read at the start; the memory's own are mapped from the file instead, and
// read when they are used.
// Where they lie; nullopt where that cannot be found.
std::optional<atl::model::MappedRam> unlist_pages() {
  static char head[kHead];
  ssize_t size = ::pread(kFileAgain, head, sizeof head, 0);
  if (size <= 0) return std::nullopt;
  auto found = atl::model::find_mapped_ram({head, static_cast<std::size_t>(size)}, kBlock);
  if (!found) return std::nullopt;
  static const char zeros[4096] = {};
  for (unsigned long long done = 0; done < found->bitmap_bytes;) {
    unsigned long long left = found->bitmap_bytes - done;
    ssize_t n = ::pwrite(kFileAgain, zeros, left < sizeof zeros ? left : sizeof zeros,
                         static_cast<off_t>(found->bitmap_offset + done));
    if (n <= 0) return std::nullopt;
    done += static_cast<unsigned long long>(n);
  }
  return found;
}

// Lets a machine go on that was stopped; QEMU's last answer. What is being written out would stop it again at
// its end, so that is called off and waited for. Where it was just done, `cont` is refused a moment longer
// ("Migration is not finalized yet"; qmp_cont() of QEMU).
QmpLine go_on(Monitor& monitor) {
  static_cast<void>(monitor.say(R"({"execute":"migrate_cancel"})"));
  for (int refusals = 0;;) {
    QmpLine line = monitor.say(R"({"execute":"query-migrate"})");
    const std::string& is = line.status;
    if (is.empty() || is == "completed" || is == "failed" || is == "cancelled") {
      line = monitor.say(R"({"execute":"cont"})");
      if (line.kind == QmpLine::Kind::kReturn || ++refusals >= kMostRefusals) return line;
    }
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &kLook, nullptr);
  }
}

[[noreturn]] void save(Monitor& monitor) {
  monitor.require(R"({"execute":"stop"})");
  // One of an earlier attempt, if any.
  static_cast<void>(monitor.say(R"({"execute":"remove-fd","arguments":{"fdset-id":9}})"));
  QmpLine begun = monitor.say(R"({"execute":"add-fd","arguments":{"fdset-id":9}})", kFile);
  if (begun.kind == QmpLine::Kind::kReturn)
    begun = monitor.say(R"({"execute":"migrate","arguments":{"uri":"file:/dev/fdset/9"}})");
  std::string why = begun.kind == QmpLine::Kind::kReturn ? "" : begun.reason;
  while (why.empty()) {
    QmpLine line = monitor.say(R"({"execute":"query-migrate"})");
    if (line.status == "completed") {
      if (auto memory = unlist_pages()) finish(true, *memory, "");
      why = "the memory is not where it should have been put";
    }
    if (line.kind != QmpLine::Kind::kReturn || line.status == "failed" || line.status == "cancelled")
      why = line.reason.empty() ? "it did not say why" : line.reason;
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &kLook, nullptr);
  }
  static_cast<void>(go_on(monitor));
  finish(false, {}, "QEMU could not write the memory out", why.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view what = argc == 2 ? argv[1] : "";
  if (what == "--version") return std::puts("atoll-qmp " ATOLL_VERSION) < 0;
  if (what != "save" && what != "cont") {
    std::fputs("atoll-qmp: speaks with a machine for atoll-runner; of no use elsewhere\n", stderr);
    return 2;
  }
  end_at_alarm();
  confine();
  Monitor monitor;
  if (monitor.next().kind != QmpLine::Kind::kGreeting) finish(false, {}, "QEMU did not greet");
  monitor.require(R"({"execute":"qmp_capabilities"})");
  if (what == "save") save(monitor);
  QmpLine last = go_on(monitor);
  if (last.kind == QmpLine::Kind::kReturn) finish(true, {}, "");
  finish(false, {}, "QEMU does not let the machine go on", last.reason.c_str());
}
