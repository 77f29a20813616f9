// SPDX-License-Identifier: Apache-2.0
//
// Names of the templates that Atoll knows how to build by itself (src/template/base_recipe.h).
#pragma once

namespace atl::model {

inline constexpr char kBaseTemplate[] = "base";
inline constexpr char kInterpreterTemplate[] = "code-interpreter-v1";  // as the published clients name it

}  // namespace atl::model
