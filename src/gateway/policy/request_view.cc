// SPDX-License-Identifier: Apache-2.0
#include "gateway/policy/request_view.h"

#include "http/json.h"

namespace atl::gateway::policy {
namespace {

constexpr std::int64_t kSecondsOfDay = 24 * 3600;

std::string clock_of(std::int64_t unix_seconds) {
  auto second = ((unix_seconds % kSecondsOfDay) + kSecondsOfDay) % kSecondsOfDay;
  return fmt::format("{:02}:{:02}", second / 3600, second / 60 % 60);
}

}  // namespace

const RequestPath& RequestView::path() {
  if (!path_) path_ = read_path(facts_.path);
  return *path_;
}

const std::string& RequestView::host() {
  if (!host_) host_ = facts_.at.authority.host.text();
  return *host_;
}

const std::string& RequestView::time() {
  if (!time_) time_ = clock_of(facts_.unix_seconds);
  return *time_;
}

Lookup RequestView::query(const std::string& key) {
  if (!query_) query_ = http::parse_query(facts_.query);
  if (!query_->ok()) return Lack::kUnclear;
  Lookup found = Lack::kAbsent;
  for (const auto& [name, value] : query_->value()) {
    if (name != key) continue;
    if (std::holds_alternative<Value>(found)) return Lack::kUnclear;
    found = Value(std::string_view(value));
  }
  return found;
}

Lookup RequestView::header(const std::string& name) {
  auto count = facts_.headers->count(name);
  if (count == 0) return Lack::kAbsent;
  if (count > 1) return Lack::kUnclear;
  return Value(*facts_.headers->find(name));
}

Lookup RequestView::json(const std::string& pointer) {
  if (!body_) {
    bool readable = facts_.body && facts_.body->size() <= kMaxJudgedBody;
    body_ = readable ? http::parse_json(*facts_.body)
                     : Result<boost::json::value>(Error(Code::kTooLarge, "no body to read"));
  }
  if (!body_->ok()) return Lack::kUnclear;
  boost::system::error_code error;
  const boost::json::value* at = body_->value().find_pointer(pointer, error);
  if (at == nullptr) return Lack::kAbsent;
  if (at->is_bool()) return Value(at->get_bool());
  if (at->is_int64()) return Value(at->get_int64());
  if (at->is_string()) return Value(std::string_view(at->get_string().data(), at->get_string().size()));
  return Lack::kUnclear;
}

}  // namespace atl::gateway::policy
