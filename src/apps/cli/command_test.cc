// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "apps/cli/completion.h"
#include "apps/cli/env_lines.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/guest_client.h"
#include "apps/cli/help.h"
#include "apps/cli/shell_quote.h"
#include "apps/cli/terminal.h"

namespace atl::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::CaptureStdout;
using testing::internal::GetCapturedStderr;
using testing::internal::GetCapturedStdout;

// A small tree of the same kind as the real one.
class CommandTest : public testing::Test {
 protected:
  CommandTest() {
    CLI::App& run = commands_.add(nullptr, "run", "run it", "  atoll run ls", [this](const Globals& globals) {
      json_ = globals.json;
      return Result<int>(7);
    });
    run.add_option("-T,--template", template_);
    commands_.add_list(run, "-e,--env", "K=V", &env_, "variable");
    run.add_flag("-t,--tty", tty_);
    commands_.take_rest(run, "COMMAND", &words_);
    CLI::App& exec =
        commands_.add(nullptr, "exec", "run there", "", [](const Globals&) { return Result<int>(8); });
    exec.add_option("-u,--user", user_);
    exec.add_option("ID", id_)->required();
    commands_.take_rest(exec, "COMMAND", &words_);
    commands_.add(nullptr, "ls", "list", "",
                  [](const Globals&) -> Result<int> { return make_error(Code::kNotFound, "no such thing"); });
    CLI::App& group = commands_.add(nullptr, "key", "keys", "", nullptr);
    commands_.add(&group, "create", "make one", "", [](const Globals&) { return Result<int>(9); })
        .add_option("NAME", id_)
        ->required();
  }

  int run(std::vector<std::string> arguments) {
    CaptureStdout();
    CaptureStderr();
    int status = commands_.run(std::move(arguments));
    out_ = GetCapturedStdout();
    err_ = GetCapturedStderr();
    return status;
  }

  Commands commands_;
  std::vector<std::string> words_, env_;
  std::string template_, user_, id_, out_, err_;
  bool tty_ = false, json_ = false;
};

TEST_F(CommandTest, TheRestBelongsToTheCommandThatIsRun) {
  EXPECT_EQ(run({"run", "-T", "x", "python3", "-c", "print(1)", "-T", "y", "--help", "--json"}), 7);
  EXPECT_EQ(template_, "x");
  EXPECT_FALSE(json_);
  EXPECT_THAT(words_, ElementsAre("python3", "-c", "print(1)", "-T", "y", "--help", "--json"));
}

TEST_F(CommandTest, NamesOfOurCommandsAreNothingSpecialInTheRest) {
  EXPECT_EQ(run({"run", "ls", "key", "create"}), 7);
  EXPECT_THAT(words_, ElementsAre("ls", "key", "create"));
  EXPECT_EQ(run({"run", "run", "run"}), 7);
  EXPECT_THAT(words_, ElementsAre("run", "run"));
}

TEST_F(CommandTest, HelpIsACommandToo) {
  EXPECT_EQ(run({"help", "run"}), 0);
  EXPECT_THAT(out_, HasSubstr("atoll run"));
  EXPECT_EQ(run({"help"}), 0);
  EXPECT_THAT(out_, HasSubstr("COMMAND"));
}

TEST_F(CommandTest, WrongUseIsToldInPlainWords) {
  EXPECT_EQ(run({"--json", "ls"}), kExitAtoll);
  EXPECT_THAT(err_, HasSubstr("options stand behind the command"));
  EXPECT_EQ(run({"run", "-T", "a", "-T", "b", "ls"}), kExitAtoll);
  EXPECT_THAT(err_, HasSubstr("atoll: --template may be given only once"));
}

TEST_F(CommandTest, DoubleDashEndsOurOptionsOnce) {
  EXPECT_EQ(run({"run", "-t", "--", "-x", "--", "y"}), 7);
  EXPECT_TRUE(tty_);
  EXPECT_THAT(words_, ElementsAre("-x", "--", "y"));
  EXPECT_EQ(run({"run", "git", "checkout", "--", "file"}), 7);
  EXPECT_THAT(words_, ElementsAre("git", "checkout", "--", "file"));
  EXPECT_EQ(run({"run", "--", "ls"}), 7);
  EXPECT_THAT(words_, ElementsAre("ls"));
}

TEST_F(CommandTest, ListOptionsTakeOneValueEach) {
  EXPECT_EQ(run({"run", "-e", "A=1", "--env", "B=2", "cmd"}), 7);
  EXPECT_THAT(env_, ElementsAre("A=1", "B=2"));
  EXPECT_THAT(words_, ElementsAre("cmd"));
}

TEST_F(CommandTest, OptionsMayStandBeforeOrAfterTheOperand) {
  EXPECT_EQ(run({"exec", "-u", "root", "id1", "cat", "-u"}), 8);
  EXPECT_EQ(user_, "root");
  EXPECT_EQ(id_, "id1");
  EXPECT_THAT(words_, ElementsAre("cat", "-u"));
}

TEST_F(CommandTest, AMistypedOptionIsNotTakenForTheCommand) {
  EXPECT_EQ(run({"run", "--tempalte", "x", "ls"}), kExitAtoll);
  EXPECT_THAT(err_, HasSubstr("'--tempalte' is no option of 'atoll run'"));
  EXPECT_THAT(err_, HasSubstr("did you mean '--template'?"));
}

TEST_F(CommandTest, AMistypedCommandGetsASuggestion) {
  EXPECT_EQ(run({"exce", "x"}), kExitAtoll);
  EXPECT_THAT(err_, HasSubstr("did you mean 'exec'?"));
  EXPECT_EQ(run({"key", "crate"}), kExitAtoll);
  EXPECT_THAT(err_, HasSubstr("did you mean 'create'?"));
}

TEST_F(CommandTest, AMissingOperandIsNamed) {
  EXPECT_EQ(run({"key", "create"}), kExitAtoll);
  EXPECT_THAT(err_, HasSubstr("NAME"));
  EXPECT_EQ(run({"key"}), kExitAtoll);
  EXPECT_THAT(err_, HasSubstr("create"));
}

TEST_F(CommandTest, ErrorsAreJsonWhenAskedFor) {
  EXPECT_EQ(run({"ls", "--json"}), kExitAtoll);
  EXPECT_EQ(out_, "");
  EXPECT_EQ(err_, "{\"error\":{\"code\":\"not_found\",\"message\":\"no such thing\"}}\n");
  EXPECT_EQ(run({"ls", "--json", "--what"}), kExitAtoll);
  EXPECT_THAT(err_, HasSubstr("{\"error\":{\"code\":\"usage\""));
}

TEST_F(CommandTest, HelpGoesToStandardOutputAndSucceeds) {
  EXPECT_EQ(run({"run", "--help"}), kExitOk);
  EXPECT_THAT(out_, HasSubstr("Usage: atoll run [OPTIONS] COMMAND"));
  EXPECT_THAT(out_, HasSubstr("Examples"));
  EXPECT_EQ(err_, "");
}

TEST(Registry, EverySubcommandTeachesWithAnExample) {
  Commands commands;
  register_all(commands);
  for (const CLI::App* app : commands.root().get_subcommands(nullptr)) {
    if (app->get_group().empty()) continue;
    EXPECT_THAT(help_text(*app, ""), HasSubstr("Examples")) << app->get_name();
    EXPECT_FALSE(app->get_description().empty()) << app->get_name();
  }
}

TEST(Completion, KnowsEverySubcommandAndItsOptions) {
  Commands commands;
  register_all(commands);
  for (const std::string& script : {bash_completion(commands.root()), zsh_completion(commands.root())}) {
    for (const CLI::App* app : commands.root().get_subcommands(nullptr)) {
      bool hidden = app->get_group().empty();
      EXPECT_EQ(script.find("'" + app->get_name() + "'") == std::string::npos, hidden) << app->get_name();
    }
    EXPECT_THAT(script, HasSubstr("--no-stdin"));
    EXPECT_THAT(script, HasSubstr("walked='template build'"));
    EXPECT_THAT(script, HasSubstr("--plain=loopback,anywhere"));
    EXPECT_THAT(script, HasSubstr("-T=@template"));
    EXPECT_EQ(script.find("--no-config"), std::string::npos) << "what --help hides is offered";
  }
  EXPECT_EQ(zsh_completion(commands.root()).find("path="), std::string::npos)
      << "a variable 'path' takes zsh's list of programs away";
}

TEST(Completion, BashOffersWhatFits) {
  Commands commands;
  register_all(commands);
  auto offered = [&](const std::string& words) {
    std::string script = bash_completion(commands.root()) + "COMP_WORDS=(atoll " + words +
                         "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _atoll; "
                         "echo \"${COMPREPLY[*]}\"";
    std::unique_ptr<FILE, int (*)(FILE*)> shell(::popen(("bash -c " + shell_quote(script)).c_str(), "r"),
                                                &::pclose);
    char line[4096] = "";
    return std::string(std::fgets(line, sizeof line, shell.get()) != nullptr ? line : "");
  };
  EXPECT_EQ(offered("ke"), "key\n");
  EXPECT_EQ(offered("key ''"), "create list revoke\n");
  EXPECT_EQ(offered("approvals ''"), "list show approve deny\n");
  EXPECT_EQ(offered("key create --role ''"), "member admin\n");
  EXPECT_EQ(offered("logs --level w"), "warn\n");
  EXPECT_EQ(offered("completion ''"), "bash zsh\n");
  EXPECT_EQ(offered("up --config /etc/hostn"), "/etc/hostname\n");
  EXPECT_EQ(offered("ps --instance ''"), "\n") << "ids do not fit there";
}

TEST(EnvLines, QuotesForTheShellAndUnsetsWhatWouldWin) {
  Target target;
  target.api_url = target.sandbox_url = "http://127.0.0.1:7400";
  target.api_key = Secret("e2b_00");
  target.ca_file = "/home/a b/ca.pem";
  target.domain = "atoll.localhost:7400";
  EXPECT_EQ(shell_lines(env_lines(target, Transport::kPlain)),
            "export E2B_API_URL=http://127.0.0.1:7400\nexport E2B_SANDBOX_URL=http://127.0.0.1:7400\n"
            "export E2B_API_KEY=e2b_00\n");
  target.api_url = "https://127.0.0.1:7400";
  EXPECT_THAT(shell_lines(env_lines(target, Transport::kPlain)), HasSubstr("NODE_EXTRA_CA_CERTS"))
      << "where only TLS is served, the certificate is needed for addresses too";
  std::string tls = shell_lines(env_lines(target, Transport::kTls));
  EXPECT_THAT(tls, HasSubstr("unset E2B_API_URL E2B_SANDBOX_URL\n"));
  EXPECT_THAT(tls, HasSubstr("export NODE_EXTRA_CA_CERTS='/home/a b/ca.pem'\n"));
  EXPECT_THAT(tls, HasSubstr("export SSL_CERT_FILE='/home/a b/ca-bundle.pem'\n"));
  EXPECT_THAT(tls, HasSubstr("export E2B_DOMAIN=atoll.localhost:7400\n"));
}

TEST(EscapeFilter, LeavesOnEnterTildeDotOnly) {
  auto typed = [](std::string_view text) {
    EscapeFilter filter;
    return filter.feed(text);
  };
  EXPECT_TRUE(typed("~.").leave);
  EXPECT_TRUE(typed("ls\r~.").leave);
  EXPECT_EQ(typed("ls\r~.").pass, "ls\r");
  EXPECT_FALSE(typed("x~.").leave);
  EXPECT_EQ(typed("x~.").pass, "x~.");
  EXPECT_EQ(typed("~~").pass, "~");
  EXPECT_EQ(typed("~a").pass, "~a");
  EXPECT_EQ(typed("\r~").pass, "\r") << "held back until the next key";
}

TEST(EscapeFilter, WorksAcrossPieces) {
  EscapeFilter filter;
  EXPECT_EQ(filter.feed("\r").pass, "\r");
  EXPECT_EQ(filter.feed("~").pass, "");
  EXPECT_TRUE(filter.feed(".").leave);
}

TEST(ExitStatus, IsTheCommandsOwnOrTellsHowItEnded) {
  using How = ProcessEnd::How;
  auto status = [](How how, int code, int signal) { return exit_status({how, code, signal, ""}); };
  EXPECT_EQ(status(How::kExited, 0, 0), 0);
  EXPECT_EQ(status(How::kExited, 42, 0), 42);
  EXPECT_EQ(status(How::kSignalled, -1, 11), 139);
  EXPECT_EQ(status(How::kSignalled, -1, 0), 137);
  EXPECT_EQ(status(How::kTimedOut, -1, 9), kExitTimedOut);
  EXPECT_EQ(status(How::kOutOfMemory, -1, 9), 137);
  EXPECT_EQ(status(How::kLost, 0, 0), kExitAtoll);
}

}  // namespace
}  // namespace atl::cli
