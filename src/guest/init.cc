// SPDX-License-Identifier: Apache-2.0
#include "guest/init.h"

#include <fcntl.h>
#include <linux/random.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <limits>

#include "base/log.h"
#include "guest/limits.h"
#include "guest/posix.h"
#include "model/slot_address.h"

namespace atl::guest {
namespace {

constexpr std::size_t kRandomBytes = 32;
constexpr std::size_t kTokenDigits = 64;
constexpr std::int64_t kClockToleranceMs = 100;

// KERNEL: only RNDADDENTROPY counts the bytes as entropy, and it needs CAP_SYS_ADMIN (random(4)). A plain
// write mixes them in without counting, which is what matters for a clone: its pool differs from its twin's.
void add_entropy(const std::string& random) {
  if (random.empty()) return;
  Fd fd(::open("/dev/urandom", O_WRONLY | O_CLOEXEC));
  if (!fd) return log::warn("cannot open /dev/urandom", {{"errno", errno}});
  // struct rand_pool_info: bits of entropy, bytes, then the bytes themselves.
  struct {
    int entropy_bits;
    int size;
    std::array<char, kRandomBytes> bytes;
  } pool = {static_cast<int>(random.size() * 8), static_cast<int>(random.size()), {}};
  std::memcpy(pool.bytes.data(), random.data(), random.size());
  if (::ioctl(fd.get(), RNDADDENTROPY, &pool) == 0) {
    ::ioctl(fd.get(), RNDRESEEDCRNG,
            0);  // at once, not when the kernel would: a copy must not go on as its twin
    return;
  }
  auto written = write_full(fd.get(), random);
  if (!written.ok()) log::warn("cannot mix random bytes in", {{"why", written.error().message()}});
}

// A container shares the host's clock and may not set it: then it is right already.
void set_clock(std::int64_t time_ms) {
  struct timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::int64_t difference = now.tv_sec * 1000 + now.tv_nsec / 1'000'000 - time_ms;
  if (difference < kClockToleranceMs && difference > -kClockToleranceMs) return;
  struct timespec wanted = {time_ms / 1000, time_ms % 1000 * 1'000'000};
  if (::clock_settime(CLOCK_REALTIME, &wanted) != 0)
    log::debug("the clock cannot be set here", {{"off_ms", difference}});
}

void set_host_name(const std::string& name) {
  if (name.empty()) return;
  if (::sethostname(name.data(), name.size()) != 0)
    log::debug("the host name cannot be set here", {{"errno", errno}});
}

// Programs find the sandbox's identity here when they do not get its environment.
void write_identity(const std::string& directory, const Settings& settings) {
  if (directory.empty()) return;
  ::mkdir(directory.c_str(), 0755);
  const std::array<std::pair<const char*, std::string_view>, 4> files = {
      {{".E2B_SANDBOX", "true"},
       {".E2B_SANDBOX_ID", settings.sandbox},
       {".E2B_TEMPLATE_ID", settings.template_id},
       {".E2B_TEAM_ID", settings.team}}};
  for (const auto& [name, content] : files) {
    auto written = write_small_file(fmt::format("{}/{}", directory, name), content, 0644);
    if (!written.ok())
      log::warn("cannot write an identity file", {{"file", name}, {"why", written.error().message()}});
  }
}

// In place of what was given before: that is worth nothing any more. A program that has it in its environment
// finds the new one in the file.
void take_gateway(const std::string& directory, InitRequest& request) {
  Settings& settings = request.settings;
  settings.gateway_environment = std::move(request.gateway_environment);
  settings.gateway_environment["ATOLL_TOKEN"] = request.gateway_token;
  if (directory.empty()) return;
  std::string path = directory + "/.ATOLL_TOKEN";
  // Whoever reads it meanwhile has the one or the other, whole.
  auto written = write_small_file(path + ".new", request.gateway_token, 0644);
  if (written.ok() && ::rename((path + ".new").c_str(), path.c_str()) == 0) return;
  log::warn("cannot write the token of the sandbox", {{"file", path}, {"errno", errno}});
}

// A sandbox that cannot write these files is served all the same: what the gateway opens then fails in it.
void trust(const Authority& authority, Settings& settings) {
  auto installed = install_authority("", authority);
  if (!installed.ok())
    log::warn("the gateway's authority is not trusted", {{"why", installed.error().message()}});
  add_trust_variables(settings.environment);
}

}  // namespace

Result<InitRequest> parse_init(std::string_view text) {
  TRY(auto message, parse_message(text));
  Fields fields(message);
  InitRequest out;
  Settings& settings = out.settings;
  settings.generation = fields.integer("generation", 0, std::numeric_limits<std::int64_t>::max()).value_or(0);
  settings.sandbox = fields.text("sandboxId");
  settings.template_id = fields.text("templateId");
  settings.team = fields.text("teamId");
  settings.environment = fields.text_map("envs", kMaxVariables);
  settings.access_token = Secret(fields.text("accessToken"));
  settings.default_user = fields.text("defaultUser");
  settings.workdir = fields.text("workdir");
  settings.labels = fields.texts("labels", model::kMaxLabels);
  out.time_ms = fields.integer("timestampMs", 0, std::numeric_limits<std::int64_t>::max());
  out.random = fields.bytes("random");
  out.host_name = fields.text("hostname");
  out.keep_environment = fields.boolean("keepEnvironment");
  out.internal_token = fields.text("internalToken");
  if (!out.random.empty() && out.random.size() != kRandomBytes)
    fields.fail("random", fmt::format("must be {} bytes in base64", kRandomBytes));
  bool hex = out.internal_token.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!out.internal_token.empty() && (!hex || out.internal_token.size() != kTokenDigits))
    fields.fail("internalToken", fmt::format("must be {} hexadecimal digits", kTokenDigits));
  if (!settings.workdir.empty() && settings.workdir.front() != '/')
    fields.fail("workdir", "must be an absolute path");
  if (auto authority = fields.object("authority")) {
    out.authority = {authority->text("pem"), authority->text("hash")};
    if (auto fine = check_authority(out.authority); !fine) fields.fail("authority", fine.error().message());
  }
  if (auto gateway = fields.object("gateway")) {
    out.gateway_token = gateway->text("token");
    out.gateway_environment = gateway->text_map("envs", kMaxVariables);
  }
  if (out.host_name.size() > 64) fields.fail("hostname", "must have at most 64 characters");
  auto all = settings.environment;
  all.insert(out.gateway_environment.begin(), out.gateway_environment.end());
  for (const auto& [name, value] : all) {
    bool bad = name.empty() || name.find('=') != std::string::npos || name.find('\0') != std::string::npos ||
               value.find('\0') != std::string::npos;
    if (bad) fields.fail("envs", "a name is empty or contains '=', or an entry contains a NUL byte");
  }
  if (fields.failure()) return *fields.failure();
  return out;
}

Task<> serve_init(Guest& guest, Exchange& exchange) {
  auto text = co_await exchange.read_all(kMaxInitBytes);
  Result<InitRequest> request = text.ok() ? parse_init(*text) : Result<InitRequest>(text.error());
  // A child that goes on from its parent's memory counts its own generations.
  bool child = request.ok() && !request->internal_token.empty();
  if (request.ok() && !child && request->settings.generation < guest.settings.generation)
    request = make_error(Code::kConflict, "generation {} is older than the present {}",
                         request->settings.generation, guest.settings.generation);
  if (!request.ok()) {
    co_await respond_error(exchange, request.error());
    co_return;
  }
  add_entropy(request->random);
  // Outside of a sandbox (by hand, in tests) the clock and the name are the host's.
  if (::getpid() == 1) {
    if (request->time_ms) set_clock(*request->time_ms);
    set_host_name(request->host_name);
  }
  write_identity(guest.options.run_directory, request->settings);
  if (request->keep_environment) {
    bool booted = guest.settings.generation == 0;
    if (booted) guest.settings.environment = kept_environment(guest.options.kept_file);
    request->settings.environment = std::move(guest.settings.environment);
  } else {
    keep_environment(guest.options.kept_file, request->settings.environment);
  }
  if (request->gateway_token.empty()) {
    request->settings.gateway_environment = std::move(guest.settings.gateway_environment);
  } else {
    take_gateway(guest.options.run_directory, *request);
  }
  if (!request->authority.pem.empty()) trust(request->authority, request->settings);
  if (child) guest.options.internal_token = std::move(request->internal_token);
  guest.settings = std::move(request->settings);
  guest.processes.release_clocks();
  guest.batches.release();
  http::ResponseHead head;
  head.status = 204;
  co_await respond(exchange, std::move(head), "");
}

}  // namespace atl::guest
