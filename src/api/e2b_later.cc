// SPDX-License-Identifier: Apache-2.0
//
// Calls of the E2B surface that a later version brings. They say so, with 501 and a word that programs can
// test; a call about an object that does not exist, or is another tenant's, still answers 404.
#include "api/create_request.h"
#include "api/e2b.h"

namespace atl::api {
namespace {

Task<Result<Answer>> builds(Services&, Call&) {
  co_return not_yet("template builds through the API", "use 'atoll template build' on the host");
}

Task<Result<Answer>> volumes(Services&, Call&) {
  co_return not_yet("volumes", "copy files in with the file API");
}

}  // namespace

std::vector<Route> e2b_later_routes() {
  return {
      {"POST", "/v3/templates", Auth::kKey, Body::kOptional, builds},
      {"POST", "/templates", Auth::kKey, Body::kOptional, builds},
      {"POST", "/v2/templates", Auth::kKey, Body::kOptional, builds},
      {"POST", "/templates/{templateID}", Auth::kKey, Body::kOptional, builds},
      {"PATCH", "/templates/{templateID}", Auth::kKey, Body::kOptional, builds},
      {"PATCH", "/v2/templates/{templateID}", Auth::kKey, Body::kOptional, builds},
      {"GET", "/templates/{templateID}/files/{hash}", Auth::kKey, Body::kNone, builds},
      {"POST", "/templates/{templateID}/builds/{buildID}", Auth::kKey, Body::kOptional, builds},
      {"POST", "/v2/templates/{templateID}/builds/{buildID}", Auth::kKey, Body::kOptional, builds},
      {"GET", "/templates/{templateID}/builds/{buildID}/status", Auth::kKey, Body::kNone, builds},
      {"GET", "/templates/{templateID}/builds/{buildID}/logs", Auth::kKey, Body::kNone, builds},
      {"POST", "/templates/tags", Auth::kKey, Body::kOptional, builds},
      {"DELETE", "/templates/tags", Auth::kKey, Body::kOptional, builds},
      {"GET", "/volumes", Auth::kKey, Body::kNone, volumes},
      {"POST", "/volumes", Auth::kKey, Body::kOptional, volumes},
      {"GET", "/volumes/{volumeID}", Auth::kKey, Body::kNone, volumes},
      {"DELETE", "/volumes/{volumeID}", Auth::kKey, Body::kNone, volumes},
  };
}

}  // namespace atl::api
