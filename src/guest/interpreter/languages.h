// SPDX-License-Identifier: Apache-2.0
//
// Which languages this sandbox has, and how their kernels are started.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "guest/interpreter/kernel.h"

namespace atl::guest::interpreter {

// The one name of a language: "js" → "javascript", "" → "python".
std::string language_name(std::string_view asked);

// Where kernels are looked for.
struct KernelPlaces {
  std::string ours;                // folder of our kernel programs
  std::vector<std::string> specs;  // folders of Jupyter kernel specifications, the first one wins
  std::string root;                // put before the paths of programs; empty but in tests
};
KernelPlaces standard_places(std::string ours, const std::string& home);

// Reads the disk. kInvalid, with the languages that there are, for one that is not installed.
Result<KernelSpec> find_kernel(const KernelPlaces& places, const std::string& language);
// A kernel.json of Jupyter, as far as it is used here.
Result<KernelSpec> parse_kernel_spec(std::string_view text);

}  // namespace atl::guest::interpreter
