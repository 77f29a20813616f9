// SPDX-License-Identifier: Apache-2.0
//
// Copies a folder's tree into a TreeWriter, under the same rules as an archive.
#pragma once

#include "base/result.h"
#include "template/tree_writer.h"

namespace atl::templates {

// `source` is an open directory and stays the caller's. Never follows a link and never leaves the folder's
// file system. Extended attributes are not copied.
Result<void> read_folder(int source, TreeWriter& tree);

}  // namespace atl::templates
