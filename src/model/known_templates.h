// SPDX-License-Identifier: Apache-2.0
//
// Names of the templates that Atoll knows how to build by itself (src/template/base_recipe.h).
#pragma once

#include <array>
#include <string_view>

namespace atl::model {

inline constexpr char kBaseTemplate[] = "base";
inline constexpr char kInterpreterTemplate[] = "code-interpreter-v1";  // as the published clients name it

// Those that are built when somebody asks for a sandbox of them (model/first_use.h). `base` is not among
// them: `atoll up` builds it, or was told not to.
inline constexpr std::array<std::string_view, 1> kFirstUseTemplates{kInterpreterTemplate};

}  // namespace atl::model
