// SPDX-License-Identifier: Apache-2.0
// judged as src/api/sample.cc
// good
#include "control/directory.h"
// good
// system("in a comment")
const char* text = "strcpy(a, b) and ::close(1)";
// good
int close_all() { return file.close() + stream->close() + fs::close(x); }
// bad layer
#include "ingress/gateway.h"
// bad layer
#include "runner/slots.h"
// bad syscall
#include <sys/mount.h>
// bad syscall
#include <linux/openat2.h>
// bad syscall
long a() { return ::syscall(1); }
// bad banned
void a() { std::system("ls"); }
// bad banned
void a() { ::system("ls"); }
// bad banned
void a() { strcpy(x, y); }
// bad banned
void a() { std::sprintf(x, "%d", 1); }
// bad banned
void a() { auto* p = popen("ls", "r"); }
// bad banned
void a() { ::close(fd); }
// bad banned
void a() { buffer_ = std::string(); }
// good
void a() { std::string text = std::string(); }
// bad banned
void a() { std::thread(f).detach(); }
// bad text
int a = 1; // 	tab
// bad text
// TODO: later
// bad text
int trailing = 1;  
// bad text
int aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa = 1;
// good
void short_one() {
  x();
}
// bad length
void Thing::long_one(int a) const {
@LONG@
}
// good
class Thing {
  void a() {
    x();
  }
};
