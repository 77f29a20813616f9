// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/leftovers.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "base/units.h"
#include "sys/cgroup.h"
#include "sys/files.h"

namespace atl::cli {
namespace {

// A question NFT_MSG_GETTABLE with the table's name (nf_tables_getlink of the kernel's UAPI: nf_tables.h).
struct TableQuestion {
  nlmsghdr header;
  nfgenmsg family;
  nlattr attribute;
  char name[32];
};

void find_cgroups(const Config& config, std::vector<std::string>& out) {
  auto mountinfo = sys::read_file("/proc/self/mountinfo", 4 * kMiB);
  if (!mountinfo.ok()) return;
  for (const sys::Hierarchy& hierarchy : sys::find_hierarchies(*mountinfo)) {
    std::string parent = hierarchy.root + "/" + config.instance;
    struct stat info{};
    if (::stat(parent.c_str(), &info) != 0) continue;
    auto names = sys::list_directory(parent);
    for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
      std::string child = parent + "/" + name;
      if (::stat(child.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) out.push_back("cgroup " + child);
    }
  }
}

void find_links(const Config& config, std::vector<std::string>& out) {
  auto names = sys::list_directory("/sys/class/net");
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!name.starts_with("atl")) continue;
    auto slot = parse_number<std::uint32_t>(std::string_view(name).substr(3));
    bool ours = slot && *slot >= config.slot_first && *slot - config.slot_first < config.slot_count;
    if (ours) out.push_back("network link " + name);
  }
}

void find_mounts(const Config& config, std::vector<std::string>& out) {
  auto mountinfo = sys::read_file("/proc/self/mountinfo", 4 * kMiB);
  if (!mountinfo.ok()) return;
  for (std::string_view line : split(*mountinfo, '\n')) {
    auto fields = split(line, ' ');
    if (fields.size() < 5) continue;
    bool ours = fields[4].starts_with(config.data_dir + "/") || fields[4].starts_with(config.run_dir + "/");
    if (ours) out.push_back("mount " + printable(fields[4]));
  }
}

void find_loops(const Config& config, std::vector<std::string>& out) {
  auto devices = sys::list_directory("/sys/block");
  if (!devices.ok()) return;
  for (const std::string& device : *devices) {
    auto file = sys::read_file("/sys/block/" + device + "/loop/backing_file");
    if (file.ok() && file->starts_with(config.data_dir + "/")) out.push_back("loop device " + device);
  }
}

void find_records(const Config& config, std::vector<std::string>& out) {
  auto names = sys::list_directory(config.run_dir + "/sandboxes");
  if (!names.ok()) return;
  for (const std::string& name : *names) out.push_back("record of sandbox " + printable(name));
}

}  // namespace

Result<bool> firewall_table_exists(const std::string& name) {
  sys::Fd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
  if (!fd) return Error::from_errno(errno, "open a netlink socket to the firewall");
  TableQuestion question{};
  if (name.size() >= sizeof question.name) return make_error(Code::kInvalid, "the table name is too long");
  std::memcpy(question.name, name.data(), name.size());
  question.attribute.nla_type = NFTA_TABLE_NAME;
  question.attribute.nla_len = static_cast<std::uint16_t>(sizeof(nlattr) + name.size() + 1);
  question.family.nfgen_family = NFPROTO_INET;
  question.family.version = NFNETLINK_V0;
  question.header.nlmsg_len =
      static_cast<std::uint32_t>(offsetof(TableQuestion, attribute) + NLA_ALIGN(question.attribute.nla_len));
  question.header.nlmsg_type = (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETTABLE;
  question.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
  if (::send(fd.get(), &question, question.header.nlmsg_len, 0) < 0)
    return Error::from_errno(errno, "ask the firewall");
  alignas(nlmsghdr) char answer[4096];
  ssize_t n = ::recv(fd.get(), answer, sizeof answer, 0);
  if (n < static_cast<ssize_t>(sizeof(nlmsghdr)))
    return Error::from_errno(n < 0 ? errno : EIO, "read the firewall's answer");
  nlmsghdr header{};
  std::memcpy(&header, answer, sizeof header);
  if (header.nlmsg_type != NLMSG_ERROR) return true;
  nlmsgerr failure{};
  std::memcpy(&failure, answer + NLMSG_HDRLEN, sizeof failure);
  if (failure.error == 0) return true;
  if (failure.error == -ENOENT) return false;
  return Error::from_errno(-failure.error, "look up the firewall table " + name);
}

std::vector<std::string> find_leftovers(const Config& config) {
  std::vector<std::string> out;
  find_cgroups(config, out);
  find_links(config, out);
  find_mounts(config, out);
  find_loops(config, out);
  find_records(config, out);
  auto table = firewall_table_exists(config.instance);
  if (table.ok() && *table) out.push_back("firewall table inet " + config.instance);
  return out;
}

}  // namespace atl::cli
