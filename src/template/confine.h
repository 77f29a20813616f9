// SPDX-License-Identifier: Apache-2.0
//
// The inner walls of the child that parses archives.
#pragma once

#include "base/result.h"

namespace atl::templates {

// For ever, for this process: Landlock (only files below "/"), an allow-list of system calls whose breach
// ends the process, and bounds on memory and processor time. A kernel without Landlock gives the other walls:
// "/" is then still only the work folder.
Result<void> confine_parser();

}  // namespace atl::templates
