// SPDX-License-Identifier: Apache-2.0
//
// The JSON columns: maps and network rules. Only what the store itself has written is read back.
#pragma once

#include <optional>
#include <string>

#include "model/record.h"

namespace atl::store {

std::string encode_map(const model::StringMap& map);
Result<model::StringMap> decode_map(const std::string& text);

struct NetworkColumn {
  model::NetworkRules rules;
  model::Ingress ingress;
  std::vector<std::string> labels;  // of commands
};
std::string encode_network(const model::NetworkRules& rules, const model::Ingress& ingress,
                           const std::vector<std::string>& labels);
Result<NetworkColumn> decode_network(const std::string& text);

// A word about isolation; empty: none.
std::string encode_isolation(const std::optional<model::IsolationWord>& word);
// kCorrupt for what is no such word: a minimum must not get lost.
Result<std::optional<model::IsolationWord>> decode_isolation(const std::string& text);

}  // namespace atl::store
