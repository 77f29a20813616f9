// SPDX-License-Identifier: Apache-2.0
//
// Copying files and directories between this machine and a sandbox.
#pragma once

#include <memory>
#include <string>

#include "apps/cli/guest_client.h"
#include "apps/cli/output.h"

namespace atl::cli {

struct CopyCount {
  std::uint64_t files = 0;
  std::uint64_t directories = 0;
  std::uint64_t bytes = 0;
  std::uint64_t skipped = 0;  // neither file nor directory nor link; each is named on standard error
};

// `source` as a file or a directory with all that is in it. An existing directory `target`, or one with a
// slash at its end, takes the source's name below it. Modes and symbolic links are kept (upload), set-uid
// bits are not.
Task<Result<CopyCount>> copy_into_sandbox(std::shared_ptr<GuestClient> guest, std::string source,
                                          std::string target);
// Links to files are copied as files, links to directories are skipped: a link of a sandbox means nothing
// here.
Task<Result<CopyCount>> copy_out_of_sandbox(std::shared_ptr<GuestClient> guest, std::string source,
                                            std::string target);
// Standard input to one file; one file to standard output.
Task<Result<CopyCount>> copy_from_stdin(std::shared_ptr<GuestClient> guest, std::string target);
Task<Result<CopyCount>> copy_to_stdout(std::shared_ptr<GuestClient> guest, std::string source);

}  // namespace atl::cli
