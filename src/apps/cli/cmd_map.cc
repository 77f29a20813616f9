// SPDX-License-Identifier: Apache-2.0
//
// atoll map: run one program over many inputs, each in a sandbox of its own, some at a time.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include "apps/cli/exit_codes.h"
#include "apps/cli/files.h"
#include "apps/cli/output.h"
#include "apps/cli/parse.h"
#include "apps/cli/registry.h"
#include "apps/cli/sandbox_api.h"
#include "async/event.h"
#include "base/bytes.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/units.h"
#include "sys/files.h"

namespace atl::cli {
namespace {

constexpr std::size_t kMaxInputBytes = 64 * kMiB;
constexpr std::size_t kMaxOutput = 16 * kMiB;  // kept of one run and stream, until its turn to be printed
constexpr std::size_t kAhead = 256;            // runs that may be done before one that is printed earlier
constexpr std::chrono::seconds kMargin(60);    // that a sandbox lives longer than its program may
constexpr std::string_view kMark = "{}";

constexpr char kExamples[] =
    "  # a line of input in place of {}, four sandboxes at a time; output in the order of the input\n"
    "  cat urls.txt | atoll map -j 4 sh -c 'curl -s {} | wc -c'\n"
    "  # without {} the line is the program's standard input; one JSON object a line as the answer\n"
    "  atoll map --json --from cases.txt python3 -c 'print(int(input()) ** 2)'\n"
    "\n"
    "  A run whose sandbox is lost is tried again; one whose program fails is not.\n"
    "  Exit status: 0 when every program ended with 0, else 1; 125 Atoll failed.";

struct Options {
  std::string template_name = "base";
  std::vector<std::string> env, command;
  std::string from, directory, user, timeout = "10m", risk, isolation;
  std::size_t parallel = 4;
  unsigned retries = 2;
  bool no_internet = false;
};

// One input and what became of it.
struct Run {
  std::string input;
  std::string out, err;
  std::string failure;  // of Atoll, not of the program
  int status = 0;
  unsigned attempts = 0;
  bool cut = false;  // output is missing
  bool done = false;
};

// All of one call. Lives until every task has ended.
struct Map {
  Map(Session& s, const Options& o) : session(s), options(o), changed(s.executor()), progress("map") {}
  Session& session;
  const Options& options;
  std::shared_ptr<ApiClient> api;
  CreateOptions create;
  ProcessSpec spec;
  bool as_json = false;
  std::vector<Run> runs;
  std::size_t next = 0;     // not begun
  std::size_t printed = 0;  // all before are on our standard output
  std::size_t finished = 0;
  std::size_t lost = 0;     // sandboxes
  std::size_t again = 0;    // runs that were tried again for that
  std::size_t holding = 0;  // sandboxes that are ours now, or about to be
  std::size_t given_back = 0;
  int signal = 0;
  std::vector<ProcessStream*> running;  // told of the signal
  async::Event changed;
  Progress progress;
};

// A program's specification for one input.
ProcessSpec spec_for(const Map& map, const Run& run) {
  ProcessSpec spec = map.spec;
  bool marked = false;
  for (std::string& argument : spec.arguments) {
    for (std::size_t at = 0; (at = argument.find(kMark, at)) != std::string::npos; at += run.input.size()) {
      argument.replace(at, kMark.size(), run.input);
      marked = true;
    }
  }
  spec.open_stdin = !marked;
  return spec;
}

void keep_output(Run& run, std::string& where, std::string_view data) {
  std::size_t room = kMaxOutput - std::min(where.size(), kMaxOutput);
  run.cut = run.cut || data.size() > room;
  where.append(data.substr(0, room));
}

// What the program's start was refused for is no loss of its sandbox: it would be refused again.
bool is_refusal(const Error& error) {
  return error.code() == Code::kInvalid || error.code() == Code::kDenied;
}

// The program in one sandbox. True when it has ended; false when the sandbox was lost.
Task<Result<bool>> follow(Run& run, ProcessStream& process, const ProcessSpec& spec) {
  if (spec.open_stdin) {
    // A program that does not read its input may have ended, which the next event tells.
    std::string line = run.input + "\n";
    (void)co_await process.write(std::move(line));
    (void)co_await process.close_stdin();
  }
  for (;;) {
    auto event = co_await process.next();
    if (!event.ok()) {
      if (is_refusal(event.error())) co_return std::move(event).error();
      co_return false;
    }
    if (event->kind == ProcessEvent::Kind::kStdout) keep_output(run, run.out, event->data);
    if (event->kind == ProcessEvent::Kind::kStderr) keep_output(run, run.err, event->data);
    if (event->kind == ProcessEvent::Kind::kEnded) {
      run.status = exit_status(event->end);
      co_return event->end.how != ProcessEnd::How::kLost;
    }
  }
}

// The same from its start on. A signal that comes before the program is among those that run finds nothing to
// interrupt, so it is looked for here.
Task<Result<bool>> run_in(Map& map, Run& run, GuestClient& guest) {
  ProcessSpec spec = spec_for(map, run);
  auto process = co_await guest.start(spec);
  if (!process.ok() && is_refusal(process.error())) co_return std::move(process).error();
  if (!process.ok() || map.signal != 0) co_return false;
  map.running.push_back(process->get());
  auto ended = co_await follow(run, **process, spec);
  std::erase(map.running, process->get());
  co_return ended;
}

bool is_full(const Error& error) { return error.word() == "quota" || error.word() == "capacity"; }

// Where there is no room for as many as were asked for, the end of one makes room for the next.
Task<Result<std::shared_ptr<GuestClient>>> create_when_there_is_room(Map& map) {
  while (true) {
    std::size_t before = map.given_back;
    ++map.holding;  // also while it is made: those refused meanwhile wait for it, and do not give up
    auto guest = co_await create_sandbox(map.api, map.create, map.options.user);
    if (guest.ok()) co_return guest;
    --map.holding;
    map.changed.notify_all();
    if (!is_full(guest.error())) co_return guest;
    while (map.given_back == before && map.holding > 0 && map.signal == 0) co_await map.changed.wait();
    if (map.given_back == before || map.signal != 0) co_return guest;
  }
}

Task<> give_back(Map& map, std::string sandbox) {
  (void)co_await kill_sandbox(map.api, std::move(sandbox));
  --map.holding;
  ++map.given_back;
  map.changed.notify_all();
}

// One attempt. True when the run is over, false when another sandbox should try.
Task<bool> attempt(Map& map, Run& run) {
  ++run.attempts;
  run.failure.clear();
  run.out.clear();
  run.err.clear();
  run.cut = false;
  auto guest = co_await create_when_there_is_room(map);
  if (!guest.ok()) {
    run.failure = guest.error().message();
    co_return true;
  }
  Result<bool> ended = false;
  if (map.signal == 0) ended = co_await run_in(map, run, **guest);
  co_await give_back(map, (*guest)->sandbox());
  if (!ended.ok()) {
    run.failure = ended.error().message();
    co_return true;
  }
  if (*ended) co_return true;
  if (map.signal != 0) co_return true;
  ++map.lost;
  run.failure = fmt::format("{} sandboxes were lost", run.attempts);
  bool over = run.attempts > map.options.retries;
  if (!over) ++map.again;
  co_return over;
}

// As text where it is some, as the command's other events have it.
void put_output(json::object& line, const std::string& name, const std::string& data) {
  if (valid_utf8(data))
    line[name] = data;
  else
    line[name + "_base64"] = base64_encode(data);
}

void print_run(const Map& map, const Run& run) {
  if (map.as_json) {
    json::object line{{"input", run.input}, {"exit_code", run.status}, {"attempts", run.attempts}};
    put_output(line, "stdout", run.out);
    put_output(line, "stderr", run.err);
    if (run.cut) line["cut"] = true;
    if (!run.failure.empty()) line["error"] = run.failure;
    write_out(json::serialize(line) + "\n");
    return;
  }
  write_out(run.out);
  write_err(run.err);
  if (run.cut)
    print_note(fmt::format("{}: output behind the first {} MiB is missing", printable(run.input),
                           kMaxOutput / kMiB));
  if (!run.failure.empty()) print_note(fmt::format("{}: {}", printable(run.input), printable(run.failure)));
}

void print_ready(Map& map) {
  while (map.printed < map.runs.size() && map.runs[map.printed].done) {
    Run& run = map.runs[map.printed++];
    map.progress.clear();
    print_run(map, run);
    free_text(run.out);
    free_text(run.err);
  }
  map.progress.update(fmt::format("{} of {} done", map.finished, map.runs.size()));
}

Task<> work(Map& map) {
  while (map.signal == 0 && map.next < map.runs.size()) {
    if (map.next >= map.printed + kAhead) {
      co_await map.changed.wait();
      continue;
    }
    Run& run = map.runs[map.next++];
    bool over = false;
    while (!over && map.signal == 0) over = co_await attempt(map, run);
    run.done = true;
    ++map.finished;
    print_ready(map);
    map.changed.notify_all();
  }
}

int summary(const Map& map) {
  std::size_t failed = 0;
  for (const Run& run : map.runs) failed += run.done && (run.status != 0 || !run.failure.empty()) ? 1 : 0;
  if (map.signal != 0) return kExitSignalBase + map.signal;
  if (failed > 0) print_note(fmt::format("{} of {} runs failed", failed, map.runs.size()));
  if (map.lost > 0)
    print_note(fmt::format("{} sandboxes were lost; {} times a run was tried again", map.lost, map.again));
  return failed == 0 ? kExitOk : kExitUnhealthy;
}

Task<Result<int>> run_map(Session& session, Map& map, std::string instance) {
  CO_TRY(map.api, ApiClient::open(session, instance));
  session.on_signals({SIGINT, SIGTERM, SIGHUP}, [&map](int number) {
    map.signal = number;
    for (ProcessStream* process : map.running) process->interrupt();
    map.changed.notify_all();
  });
  async::Scope workers(session.executor());
  for (std::size_t i = 0; i < map.options.parallel; ++i) workers.spawn("map", work(map));
  co_await workers.join();
  map.progress.clear();
  co_return summary(map);
}

Result<std::vector<Run>> read_inputs(const Options& options) {
  std::string text;
  if (options.from.empty() || options.from == "-") {
    TRY(text, sys::read_all(STDIN_FILENO, kMaxInputBytes));
  } else {
    TRY(text, sys::read_file(options.from, kMaxInputBytes));
  }
  std::vector<Run> runs;
  for (std::string_view line : split(text, '\n')) {
    if (!line.empty()) runs.emplace_back().input = line;
  }
  return runs;
}

Result<void> fill(Map& map, const Globals& globals) {
  const Options& options = map.options;
  if (options.command.empty()) {
    return make_error(Code::kInvalid, "say which command to run")
        .with_word("usage")
        .with_hint("for example: seq 10 | atoll map sh -c 'echo $(({} * {}))'");
  }
  map.as_json = globals.json;
  map.create.template_name = options.template_name;
  map.create.internet = !options.no_internet;
  map.create.risk = options.risk;
  map.create.isolation = options.isolation;
  TRY(std::chrono::seconds limit, parse_duration(options.timeout));
  map.create.lifetime = limit + kMargin;
  map.spec.limit = limit;
  map.spec.command = options.command.front();
  map.spec.arguments.assign(options.command.begin() + 1, options.command.end());
  map.spec.directory = options.directory;
  TRY(map.spec.environment, parse_env(options.env));
  TRY(map.runs, read_inputs(options));
  return success();
}

Result<int> map_command(const Options& options, const Globals& globals) {
  return Session().run([&](Session& session) -> Task<Result<int>> {
    Map map(session, options);
    CO_TRY_VOID(fill(map, globals));
    co_return co_await run_map(session, map, globals.instance);
  });
}

}  // namespace

void register_map(Commands& commands) {
  auto options = std::make_shared<Options>();
  CLI::App& app =
      commands.add(nullptr, "map", "run a command over many inputs, each in a sandbox of its own", kExamples,
                   [options](const Globals& globals) { return map_command(*options, globals); });
  app.add_option("-j,--parallel", options->parallel, "sandboxes at the same time (default: 4)")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1000}));
  app.add_option("--from", options->from,
                 "read the inputs from this file, a line each (default: standard input)")
      ->type_name("FILE");
  app.add_option("--retries", options->retries, "tries more for a run whose sandbox is lost (default: 2)")
      ->type_name("N");
  app.add_option("-T,--template", options->template_name, "what the sandboxes start from (default: base)")
      ->type_name("NAME");
  commands.add_list(app, "-e,--env", "KEY=VALUE", &options->env, "set a variable; KEY alone passes yours on");
  app.add_option("-w,--workdir", options->directory, "directory to run in")->type_name("DIR");
  app.add_option("-u,--user", options->user, "user to run as")->type_name("NAME");
  app.add_option("--timeout", options->timeout, "end a run after this time (default: 10m)")
      ->type_name("TIME");
  app.add_flag("--no-internet", options->no_internet, "close the sandboxes' network");
  add_isolation_options(app, options->risk, options->isolation);
  commands.take_rest(app, "COMMAND [ARGUMENT...]", &options->command);
}

}  // namespace atl::cli
