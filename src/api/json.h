// SPDX-License-Identifier: Apache-2.0
//
// JSON of request bodies, by the names that all routes use.
#pragma once

#include "http/json.h"
#include "model/record.h"

namespace atl::api {

namespace json = boost::json;
using http::Fields;
using http::parse_json;

}  // namespace atl::api
