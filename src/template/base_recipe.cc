// SPDX-License-Identifier: Apache-2.0
#include "template/base_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/log.h"
#include "base/text.h"
#include "template/jail.h"

namespace atl::templates {
namespace {

// Of every recipe.
constexpr std::string_view kPackages =
    "bash,build-essential,ca-certificates,curl,git,iproute2,less,nano,netbase,nodejs,npm,procps,python3,"
    "python3-pip,"
    "python3-venv,python-is-python3,sudo,unzip,xz-utils,zip";

constexpr Recipe kRecipes[] = {
    {model::kBaseTemplate, "1", "", 1024, false},
    {model::kInterpreterTemplate, "2",
     ",python3-ipykernel,python3-matplotlib,python3-numpy,python3-pandas,python3-pil,python3-requests,"
     "python3-scipy,python3-sklearn,python3-bs4,python3-openpyxl,esbuild,node-acorn,r-base-core,r-cran-"
     "irkernel,"
     "default-jre-headless",
     2048, true},
};

// Settings that decide how a download reaches a server, and nothing else: no hooks, no paths, no trust.
constexpr std::array<std::string_view, 7> kDownloadKeys = {
    "Acquire::http::",  "Acquire::https::",   "Acquire::Check-Valid-Until", "Acquire::Check-Date",
    "Acquire::Retries", "Acquire::ForceIPv4", "Acquire::ForceIPv6"};

bool wanted_option(std::string_view key) {
  // A proxy found by a program: that program is not in the tree. Certificates of the host: apt finds them by
  // itself.
  if (key.find("AutoDetect") != std::string_view::npos || key.find("Auto-Detect") != std::string_view::npos)
    return false;
  return std::any_of(kDownloadKeys.begin(), kDownloadKeys.end(),
                     [&](auto start) { return key.starts_with(start); });
}

bool of_suite(std::string_view release, std::string_view suite) {
  return release == suite || release == fmt::format("{}-updates", suite) ||
         release == fmt::format("{}-security", suite);
}

// Output of a program of the host; what it printed until then when it fails.
std::string output_of(const std::string& work, const std::vector<std::string>& argv) {
  JailSpec jail;
  jail.work = work;
  jail.view = View::kHost;
  std::string text;
  Result<void> done =
      run_program(jail, argv, {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=/tmp"},
                  [&](std::string_view line) { text += std::string(line) + "\n"; });
  if (!done.ok()) log::warn("cannot read this host's apt settings", {{"error", done.error().message()}});
  return text;
}

}  // namespace

std::vector<std::string> mirror_lines(std::string_view targets, std::string_view suite) {
  std::set<std::string> lines;
  for (std::string_view line : split(targets, '\n')) {
    std::vector<std::string_view> parts = split(line, ' ');
    if (parts.size() < 3 || !of_suite(parts[1], suite) || parts[2] != "main") continue;
    if (!parts[0].starts_with("http://") && !parts[0].starts_with("https://")) continue;
    lines.insert(fmt::format("deb {} {} main", parts[0], parts[1]));
  }
  // Without the suite itself the rest is of no use.
  bool complete = std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.ends_with(fmt::format(" {} main", suite));
  });
  return complete ? std::vector<std::string>(lines.begin(), lines.end()) : std::vector<std::string>();
}

std::vector<std::string> download_options(std::string_view dump) {
  std::vector<std::string> options;
  for (std::string_view line : split(dump, '\n')) {
    std::size_t space = line.find(' ');
    if (space == std::string_view::npos || !line.ends_with("\";") || line.ends_with(" \"\";")) continue;
    if (wanted_option(line.substr(0, space))) options.emplace_back(line);
  }
  return options;
}

AptHost read_apt_host(const std::string& suite, const std::string& work) {
  AptHost host;
  host.sources =
      mirror_lines(output_of(work, {"/usr/bin/apt-get", "indextargets", "--format",
                                    "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"}),
                   suite);
  host.options = download_options(output_of(work, {"/usr/bin/apt-config", "dump", "Acquire"}));
  return host;
}

const Recipe* find_recipe(std::string_view name) {
  auto found = std::find_if(std::begin(kRecipes), std::end(kRecipes),
                            [&](const Recipe& recipe) { return recipe.name == name; });
  return found == std::end(kRecipes) ? nullptr : found;
}

std::string recipe_names() {
  std::string names;
  for (const Recipe& recipe : kRecipes) names += fmt::format("{}{}", names.empty() ? "" : ", ", recipe.name);
  return names;
}

std::vector<std::string> recipe_command(const Recipe& recipe, const std::string& suite, const AptHost& host) {
  std::string work = kJailWork;
  // Mode "root" is root of the jail. /sys cannot be mounted there and is not needed.
  std::vector<std::string> argv = {"/usr/bin/mmdebstrap", "--mode=root", "--variant=minbase",
                                   "--format=directory", "--skip=chroot/mount/sys,output/dev,check/empty",
                                   fmt::format("--include={}{}", kPackages, recipe.packages),
                                   // Some packages cannot be set up without folders for manual pages.
                                   "--essential-hook=for n in 1 2 3 4 5 6 7 8; do mkdir -p "
                                   "\"$1/usr/share/man/man$n\"; done"};
  // dpkg need not sync each file: the image is synced as a whole, and a broken build is thrown away.
  for (std::string_view option :
       {"force-unsafe-io", "path-exclude=/usr/share/man/*", "path-exclude=/usr/share/doc/*",
        "path-include=/usr/share/doc/*/copyright", "path-exclude=/usr/share/locale/*"}) {
    argv.push_back(fmt::format("--dpkgopt={}", option));
  }
  if (!host.options.empty()) argv.push_back("--aptopt=" + work + "/apt.conf");
  argv.push_back("--customize-hook=sh " + work + "/finish.sh \"$1\"");
  argv.push_back(suite);
  argv.push_back(work + "/tree");
  if (!host.sources.empty()) argv.push_back(work + "/sources.list");
  return argv;
}

std::string recipe_script(const Recipe& recipe, const std::string& suite) {
  constexpr std::string_view kScript = R"sh(set -eu
root="$1"
# Nothing of the host stays: its mirrors, proxies and build options are replaced by Debian's own servers.
rm -f "$root"/etc/apt/apt.conf.d/99mmdebstrap "$root"/etc/dpkg/dpkg.cfg.d/99mmdebstrap
rm -rf "$root"/etc/apt/sources.list.d/*
cat >"$root/etc/apt/sources.list" <<END
deb http://deb.debian.org/debian @SUITE@ main
deb http://deb.debian.org/debian @SUITE@-updates main
deb http://deb.debian.org/debian-security @SUITE@-security main
END
# apt's own download user cannot be entered from every sandbox; the sandbox is the wall here.
echo 'APT::Sandbox::User "root";' >"$root/etc/apt/apt.conf.d/10atoll"
echo 'Acquire::Languages "none";' >>"$root/etc/apt/apt.conf.d/10atoll"
chroot "$root" useradd --create-home --uid 1000 --user-group --shell /bin/bash user
# A sandbox belongs to one user, so pip may install into the system's Python (PEP 668).
rm -f "$root"/usr/lib/python3*/EXTERNALLY-MANAGED
# No init system runs inside, so packages must not try to start services.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
printf 'sandbox\n' >"$root/etc/hostname"
printf '127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n' >"$root/etc/hosts"
rm -f "$root/etc/resolv.conf"
: >"$root/etc/resolv.conf"
echo 'LANG=C.UTF-8' >"$root/etc/default/locale"
# Some packages fail to install when the folders for manual pages are missing.
for section in 1 2 3 4 5 6 7 8; do mkdir -p "$root/usr/share/man/man$section"; done
rm -f "$root"/etc/ssh/ssh_host_* "$root"/var/lib/dbus/machine-id
rm -f "$root"/var/lib/dpkg/*-old "$root"/var/cache/debconf/*-old
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/cache/ldconfig/*
mkdir -p "$root/var/cache/apt/archives/partial" "$root/var/lib/apt/lists/partial"
find "$root/var/log" -type f -delete
)sh";
  // The program carries its kernels. matplotlib looks at every font when it is imported for the first time:
  // here.
  constexpr std::string_view kInterpreterScript = R"sh(
ours="$root/usr/lib/atoll/interpreter"
mkdir -p "$ours" "$root/etc/atoll"
cp /mnt/atoll-interpreter "$ours/atoll-interpreter"
"$ours/atoll-interpreter" --unpack "$ours"
chmod -R u=rwX,go=rX "$ours"
chroot "$root" python3 -m compileall -q /usr/lib/atoll/interpreter
chroot --userspec=user "$root" env HOME=/home/user python3 -c 'import matplotlib.pyplot'
cat >"$root/etc/atoll/start.json" <<END
{"command":"/usr/lib/atoll/interpreter/atoll-interpreter","user":"user","listen":[49999],"ready":"/ready"}
END
)sh";
  std::string script(kScript);
  if (recipe.interpreter) script += kInterpreterScript;
  for (std::size_t at; (at = script.find("@SUITE@")) != std::string::npos;) script.replace(at, 7, suite);
  return script;
}

std::string host_suite(std::string_view os_release) {
  for (std::string_view line : split(os_release, '\n')) {
    if (!line.starts_with("VERSION_CODENAME=")) continue;
    std::string_view name = line.substr(line.find('=') + 1);
    if (std::find(std::begin(kSuites), std::end(kSuites), name) != std::end(kSuites))
      return std::string(name);
  }
  return std::string(kSuites[0]);
}

}  // namespace atl::templates
