// SPDX-License-Identifier: Apache-2.0
//
// Service: a server outside that the sandboxes of a tenant reach under a name, /svc/<name>/..., at the
// gateway's own address. It says where requests go and nothing else: rules and bindings count as for any
// other request to that host.
#pragma once

#include <string>

#include <boost/json.hpp>

#include "gateway/names/authority.h"

namespace atl::gateway::vault {

struct Service {
  std::string tenant;
  std::string name;  // canonical_name() of vault.h, beginning with a letter or digit
  std::string url;   // "https://api.example.com/v1", as it was given, without a slash at its end
  Authority authority{Host(IpAddress()), 0};
  bool secure = true;
  std::string base;  // the path of `url`; empty: none
};

// {"name": "models", "url": "https://api.example.com/v1"}. kInvalid names the field; unknown ones are
// refused. The host may be what policies refuse: that is found out by a request.
Result<Service> parse_service(const boost::json::object& text);
boost::json::object write_service(const Service& service);

}  // namespace atl::gateway::vault
