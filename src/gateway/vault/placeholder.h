// SPDX-License-Identifier: Apache-2.0
//
// Placeholders: what a program inside holds where it insists on holding a key. One for each sandbox and
// credential; the gateway puts the value in its place on the way out, where a binding says that it may stand.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/vault/binding.h"
#include "gateway/vault/vault.h"
#include "http/message.h"

namespace atl::gateway::vault {

// "atollph" and 32 hexadecimal digits: 128 bits that nobody can guess. Only letters and digits, so that it
// stands in headers, URLs and JSON as it is.
inline constexpr std::string_view kPlaceholderMark = "atollph";
inline constexpr std::size_t kPlaceholderBytes = 39;
// More in one head, or in one body, are refused: kTooLarge, word "placeholder_too_often".
inline constexpr std::size_t kMostReplaced = 64;

// The placeholder of a credential in a sandbox. `root` is a key of the vault (Vault::derive("placeholders")):
// it is the same after a restart and after a rotation, and says nothing about others.
std::string placeholder_of(const Locked& root, std::string_view sandbox, std::string_view secret_id);

// A placeholder that may be resolved in the request at hand, with its value and the places it may stand in.
struct Resolvable {
  std::string text;
  CredentialPtr credential;
  std::string_view value;  // what to put in; lives in `credential` or in a token that the caller keeps
  Places places;
};

// Puts the values into the head: declared headers (also inside Basic), query keys and the path. kDenied, word
// "placeholder_unresolved" (403), when anything that looks like a placeholder of ours is left anywhere in it:
// unknown, of another sandbox, for another host, or in a place that was not declared.
Result<void> resolve_head(http::RequestHead& request, const std::vector<Resolvable>& all);

// kDenied, word "placeholder_in_encoded_body", when the body is compressed and a placeholder may stand in it:
// it could not be seen there, and would go out as it is.
Result<void> check_encoding(const http::RequestHead& request, const std::vector<Resolvable>& all);

// resolve_head for a body that comes in parts, cut anywhere. Values are JSON-escaped in JSON, and otherwise
// go in as they are. The body's length changes: send it chunked, or collect it first. Keeps at most
// kPlaceholderBytes back.
class BodyResolver {
 public:
  enum class Form : bool { kText, kJson };
  // `all` must stay valid.
  BodyResolver(const std::vector<Resolvable>& all, Form form);
  ~BodyResolver();
  BodyResolver(const BodyResolver&) = delete;
  BodyResolver& operator=(const BodyResolver&) = delete;

  // Appends to `out` what can go on. kDenied as above; nothing more may be sent then.
  Result<void> feed(std::string_view part, std::string& out);
  Result<void> finish(std::string& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Fails like resolve_head when `text` has something that looks like a placeholder of ours: for what is not
// resolved.
Result<void> refuse_placeholders(std::string_view text, std::string_view where);

}  // namespace atl::gateway::vault
