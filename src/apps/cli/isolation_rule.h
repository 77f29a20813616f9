// SPDX-License-Identifier: Apache-2.0
//
// What a template or a tenant says about isolation, as flags and as text.
#pragma once

#include <string>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "base/result.h"

namespace CLI {
class App;
}

namespace atl::cli {

// Words as they are typed: a tier, a risk, or "none"; empty: left as it is.
struct IsolationChange {
  std::string standard, minimum;
};
// Declares --isolation and --min-isolation.
void add_isolation_change(CLI::App& app, IsolationChange& change);
// The fields of a request. kInvalid when nothing is to be changed.
Result<boost::json::object> change_json(const IsolationChange& change);
// Adds the fields that are given.
void put_isolation(boost::json::object& body, const IsolationChange& change);
// "medium, at least container", "at least gvisor", or "-", from the answer of the API.
std::string rule_text(const boost::json::value& row);

}  // namespace atl::cli
