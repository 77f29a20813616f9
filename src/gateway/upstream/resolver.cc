// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/resolver.h"

#include <unordered_map>

#include "async/event.h"
#include "base/fair_share.h"
#include "gateway/upstream/answer_cache.h"
#include "gateway/upstream/dns_channel.h"

namespace atl::gateway {
namespace {

using Addresses = std::vector<IpAddress>;

// Both families take turns, so that one that does not work here costs one try and not many.
Addresses in_turns(const Addresses& received) {
  Addresses out, families[2];
  for (const auto& address : received) families[address.is_v4() ? 0 : 1].push_back(address);
  for (std::size_t i = 0; out.size() < kMaxAddressesPerName; ++i) {
    if (i >= families[0].size() && i >= families[1].size()) break;
    for (const auto& family : families) {
      if (i < family.size() && out.size() < kMaxAddressesPerName) out.push_back(family[i]);
    }
  }
  return out;
}

Error unresolved(Code code, const std::string& name, std::string_view why) {
  return make_error(code, "resolve {}: {}", name, why).with_word("name_unresolved");
}

Result<Addresses> verdict(const std::string& name, const DnsAnswer& answer) {
  if (!answer.addresses.empty()) return in_turns(answer.addresses);
  switch (answer.status) {
    case ARES_SUCCESS:
    case ARES_ENODATA:
    case ARES_ENOTFOUND:
    case ARES_ENONAME:
      return make_error(Code::kNotFound, "resolve {}: the name has no address", name)
          .with_word("name_not_found");
    case ARES_ETIMEOUT: return unresolved(Code::kDeadline, name, "the DNS servers do not answer");
    default: return unresolved(Code::kUnavailable, name, ares_strerror(answer.status));
  }
}

class CaresResolver final : public Resolver, public std::enable_shared_from_this<CaresResolver> {
 public:
  CaresResolver(async::Executor executor, ResolverOptions options)
      : executor_(executor), options_(std::move(options)), channel_(std::make_shared<DnsChannel>(executor)) {}
  ~CaresResolver() override { channel_->stop(); }

  Result<void> start() { return channel_->start(options_.servers, options_.hosts_file); }

  Task<Result<Addresses>> resolve(std::string name, std::string asker) override {
    if (const auto* known = cache_.find(name, Steady::now())) co_return *known;
    std::shared_ptr<Question> question;
    if (auto asked = questions_.find(name); asked != questions_.end()) {
      question = asked->second;
    } else {
      CO_TRY(question, ask(name, std::move(asker)));
    }
    auto until = Steady::now() + options_.limit;
    while (!question->answer) {
      (void)co_await question->answered.wait_until(until);
      if (!question->answer && Steady::now() >= until)
        co_return unresolved(Code::kDeadline, name, "the DNS servers do not answer in time");
    }
    co_return *question->answer;
  }

 private:
  struct Question {
    Question(const async::Executor& executor, std::string who, FairShare::Part part)
        : answered(executor), asker(std::move(who)), share(std::move(part)) {}
    async::Event answered;
    std::string asker;
    std::optional<FairShare::Part> share;  // until it is answered
    std::optional<Result<Addresses>> answer;
  };

  Result<std::shared_ptr<Question>> ask(const std::string& name, std::string asker) {
    auto share = under_way_.take(asker, 1);
    if (!share) {
      return make_error(Code::kExhausted, "resolve {}: too many names are being looked up", name)
          .with_word("too_many_names")
          .with_hint("try again when the others are known");
    }
    auto question = std::make_shared<Question>(executor_, std::move(asker), *std::move(share));
    questions_.emplace(name, question);
    channel_->ask(name, [self = weak_from_this(), name, question](const DnsAnswer& answer) {
      question->answer = verdict(name, answer);
      question->share.reset();
      question->answered.notify_all();
      if (auto resolver = self.lock()) resolver->keep(name, *question, answer);
    });
    return question;
  }

  void keep(const std::string& name, const Question& question, const DnsAnswer& dns) {
    questions_.erase(name);
    const Result<Addresses>& answer = *question.answer;
    Steady::duration life = options_.failure;
    if (answer.ok())
      life = std::clamp<Steady::duration>(std::chrono::seconds(dns.seconds), options_.least, options_.most);
    cache_.keep(name, question.asker, answer, Steady::now() + life);
  }

  async::Executor executor_;
  ResolverOptions options_;
  std::shared_ptr<DnsChannel> channel_;
  AnswerCache cache_;
  FairShare under_way_{kMaxQuestions, kMaxQuestionsPerAsker};
  std::unordered_map<std::string, std::shared_ptr<Question>> questions_;
};
}  // namespace

Result<std::shared_ptr<Resolver>> make_resolver(async::Executor executor, ResolverOptions options) {
  auto made = std::make_shared<CaresResolver>(std::move(executor), std::move(options));
  TRY_VOID(made->start());
  return std::shared_ptr<Resolver>(std::move(made));
}

}  // namespace atl::gateway
