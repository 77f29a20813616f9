// SPDX-License-Identifier: Apache-2.0
//
// Memory that is given back before its owner ends.
#pragma once

#include <string>

namespace atl {

// Empties `text` and gives its memory back. To assign an empty string would not: the library copies what is
// short into the memory that is there.
inline void free_text(std::string& text) { std::string().swap(text); }

}  // namespace atl
