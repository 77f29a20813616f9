// SPDX-License-Identifier: Apache-2.0
#include "gateway/upstream/resolver.h"

#include <list>
#include <unordered_map>

#include "async/event.h"
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

  Task<Result<Addresses>> resolve(std::string name) override {
    if (auto known = names_.find(name); known != names_.end()) {
      if (Steady::now() < known->second.until) co_return known->second.answer;
      forget(known);
    }
    auto [at, fresh] = questions_.try_emplace(name);
    if (fresh && questions_.size() > kMaxQuestions) {
      questions_.erase(at);
      co_return make_error(Code::kExhausted, "resolve {}: too many questions are under way", name);
    }
    if (fresh) at->second = std::make_shared<Question>(executor_);
    auto question = at->second;
    if (fresh) ask(name, question);
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
    explicit Question(const async::Executor& executor) : answered(executor) {}
    async::Event answered;
    std::optional<Result<Addresses>> answer;
  };
  struct Known {
    Result<Addresses> answer;
    Steady::time_point until;
    std::list<std::string>::iterator order;
  };

  void ask(const std::string& name, const std::shared_ptr<Question>& question) {
    channel_->ask(name, [self = weak_from_this(), name, question](const DnsAnswer& answer) {
      question->answer = verdict(name, answer);
      question->answered.notify_all();
      if (auto resolver = self.lock()) resolver->keep(name, answer, *question->answer);
    });
  }

  void keep(const std::string& name, const DnsAnswer& dns, const Result<Addresses>& answer) {
    questions_.erase(name);
    if (auto old = names_.find(name); old != names_.end()) forget(old);
    while (names_.size() >= kMaxNames) forget(names_.find(order_.front()));
    Steady::duration life = options_.failure;
    if (answer.ok())
      life = std::clamp<Steady::duration>(std::chrono::seconds(dns.seconds), options_.least, options_.most);
    auto order = order_.insert(order_.end(), name);
    names_.emplace(name, Known{answer, Steady::now() + life, order});
  }

  void forget(std::unordered_map<std::string, Known>::iterator at) {
    order_.erase(at->second.order);
    names_.erase(at);
  }

  async::Executor executor_;
  ResolverOptions options_;
  std::shared_ptr<DnsChannel> channel_;
  std::unordered_map<std::string, Known> names_;
  std::list<std::string> order_;  // oldest first
  std::unordered_map<std::string, std::shared_ptr<Question>> questions_;
};
}  // namespace

Result<std::shared_ptr<Resolver>> make_resolver(async::Executor executor, ResolverOptions options) {
  auto made = std::make_shared<CaresResolver>(std::move(executor), std::move(options));
  TRY_VOID(made->start());
  return std::shared_ptr<Resolver>(std::move(made));
}

}  // namespace atl::gateway
