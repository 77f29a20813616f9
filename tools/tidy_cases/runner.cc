// SPDX-License-Identifier: Apache-2.0
// judged as src/runner/sample.cc
// good
#include <sys/mount.h>

#include "base/result.h"
#include "model/sandbox.h"
#include "sys/fd.h"
// bad layer
#include "async/task.h"
// bad layer
#include "http/message.h"
