// SPDX-License-Identifier: Apache-2.0
#include "guest/labels.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "net/tcp.h"

namespace atl::guest {
namespace {

constexpr char kVariable[] = "ATOLL_LABEL";
constexpr std::string_view kLoopback = "127.";

Error unsupported() {
  return make_error(Code::kUnsupported,
                    "label_unsupported: commands cannot have labels in this sandbox; that needs tier "
                    "container, the gateway, and a host that can")
      .with_word("label_unsupported");
}

}  // namespace

// Control comes from the host's address of the slot, which nobody inside can have. The access token says
// nothing: it comes inside, with code for the interpreter.
LabelRight label_right(const http::RequestHead& request) {
  auto peer = net::parse_endpoint(request.peer);
  bool inside = !peer.ok() || peer->address == model::kGuestAddress || peer->address.starts_with(kLoopback) ||
                peer->address.find(':') != std::string::npos;
  return inside ? LabelRight::kNo : LabelRight::kYes;
}

Result<std::uint32_t> choose_label(const Settings& settings, const model::GuestBoot& boot,
                                   const std::string& asked,
                                   const std::map<std::string, std::string>& environment, LabelRight right) {
  auto variable = environment.find(kVariable);
  const std::string& label = !asked.empty() || variable == environment.end() ? asked : variable->second;
  if (label.empty() && variable == environment.end()) return 0;
  if (boot.cgroup_fd <= 0) return unsupported();
  if (right == LabelRight::kNo) {
    return make_error(
               Code::kDenied,
               "label_refused: only clients outside of the sandbox start commands with labels, or speak "
               "to them")
        .with_word("label_refused");
  }
  auto known = std::find(settings.labels.begin(), settings.labels.end(), label);
  if (known != settings.labels.end()) return static_cast<std::uint32_t>(known - settings.labels.begin()) + 1;
  return make_error(Code::kNotFound,
                    "label_unknown: this sandbox has no label '{}'; name it in `labels` of its create, or by "
                    "PUT /v1/sandboxes/ID/labels",
                    printable(label))
      .with_word("label_unknown");
}

Result<sys::Fd> open_label(const model::GuestBoot& boot, std::uint32_t label) {
  std::string path = fmt::format("label-{}/cgroup.procs", label);
  sys::Fd fd(::openat(boot.cgroup_fd, path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd && errno == ENOENT) return unsupported();  // it cannot be made any more
  if (!fd) return Error::from_errno(errno, fmt::format("open the group of label {}", label));
  return fd;
}

}  // namespace atl::guest
