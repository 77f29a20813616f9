// SPDX-License-Identifier: Apache-2.0
//
// What the daemon knows about its sandbox, and the parts that its services share.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/secret.h"
#include "guest/accounts.h"
#include "guest/batch.h"
#include "guest/process.h"
#include "guest/rest.h"
#include "guest/watch_table.h"
#include "guest/workers.h"
#include "model/guest_boot.h"

namespace atl::guest {

// What POST /init told. Empty before it.
struct Settings {
  std::int64_t generation = 0;
  std::string sandbox;
  std::string template_id;
  std::string team;
  std::map<std::string, std::string> environment;          // of every process, from create
  std::map<std::string, std::string> gateway_environment;  // below it: what the gateway gave
  Secret access_token;                                     // empty: not secured
  std::string default_user;                                // empty: "user" where it exists, else root
  std::string workdir;                                     // empty: the user's home
  std::vector<std::string> labels;                         // that commands may have, by number less one
};

// What main() was told.
struct Options {
  std::string internal_token;   // hex; internal calls must carry it
  model::GuestBoot boot{};      // descriptors and limits; -1 and 0 where there are none
  std::string run_directory;    // where /init writes its files; empty: nowhere
  std::string kept_file;        // on the disk: the environment, for the next boot; empty: nowhere
  std::string batch_directory;  // on the disk: what became of batches with a key; empty: nowhere
  Steady::duration subscriber_stall = kSubscriberStall;
};

// Everything of one daemon. Made once; the services refer to it.
struct Guest {
  Guest(async::Executor loop, Options given);

  async::Executor executor;
  Options options;
  Settings settings;
  AccountCache accounts;
  Workers file_workers;
  Workers spawn_workers;
  ProcessTable processes;
  WatchTable watches;
  BatchTable batches;
  Rest rest;
  std::size_t transfers = 0;  // uploads and downloads under way
  std::size_t requests = 0;   // of clients under way
  bool started = true;        // nobody need wait for the start command
  async::Event started_changed;
  Steady::time_point last_request = Steady::now();  // that ended
};

// The user of that name; empty means the default user. Blocks on the disk. kUnauthenticated for an unknown
// one.
Result<User> find_user(Guest& guest, const std::string& name, const std::string& default_user);

}  // namespace atl::guest
