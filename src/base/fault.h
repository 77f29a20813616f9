// SPDX-License-Identifier: Apache-2.0
//
// FAULT("create.row_written"): a named place at which a test can make this process die as if by kill -9.
//
// The environment variable ATOLL_FAULT names one place; the first thread that reaches it ends the whole
// process with SIGKILL, so nothing is flushed, released or unwound. Names are "<operation>.<what has just
// happened>". A release is compiled without these places. tests/fault finds the names by searching the
// sources, so write them as plain literals.
#pragma once

namespace atl {
void fault_point(const char* name);
}  // namespace atl

#ifdef ATOLL_NO_FAULT_POINTS
#define FAULT(name) static_cast<void>(0)
#else
#define FAULT(name) ::atl::fault_point(name)
#endif
