// SPDX-License-Identifier: Apache-2.0
//
// The Jupyter messaging protocol 5.3: requests to a kernel, and what it says. Pure. Messages carry no
// signature: the sockets lie in a folder that only the sandbox's user can enter.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>

#include "base/result.h"
#include "guest/interpreter/zmtp.h"

namespace atl::guest::interpreter::jupyter {

// A request as it goes to a shell or control socket.
struct Request {
  std::string id;  // answers name it as their parent
  std::vector<std::string> parts;
};
// `content` and `metadata` are JSON objects as text.
Request make_request(std::string_view session, std::string_view type, std::string_view content,
                     std::string_view metadata);
// Content of an execute_request. `silent` code leaves no trace in history and count.
std::string execute_content(std::string_view code, bool silent);

// What a kernel said.
struct Heard {
  std::string type;
  std::string parent;  // id of the request that it belongs to
  boost::json::object content;
  bool cut = false;  // it was larger or deeper than is read, and `content` is empty
};
// kCorrupt for what is no message of the protocol.
Result<Heard> parse_heard(zmtp::Message message);

// The connection file of a kernel whose sockets are unix sockets `<prefix>-1` to `<prefix>-5`.
std::string connection_file(std::string_view prefix);
inline constexpr int kShell = 1, kIopub = 2, kStdin = 3, kControl = 4, kHeartbeat = 5;

}  // namespace atl::guest::interpreter::jupyter
