# SPDX-License-Identifier: Apache-2.0
# IRkernel for the code interpreter: r_kernel.R --args CONNECTION_FILE
#
# An interrupt would end IRkernel wherever it comes outside the code, and tear what it sends. Here all of it runs with
# interrupts held back, except the code. One that comes before the code has begun is held for it; one that comes
# when the code has ended is dropped before the next request is read.
local({
  imports <- parent.env(asNamespace("IRkernel"))
  replace <- function(name, wrap) {
    old <- get(name, envir = imports)
    unlockBinding(name, imports)
    assign(name, wrap(old), envir = imports)
    lockBinding(name, imports)
  }
  drop_interrupts <- function() tryCatch(allowInterrupts(Sys.sleep(0)), interrupt = function(e) NULL)
  replace("zmq.poll", function(old) function(...) {
    found <- old(...)
    drop_interrupts()
    found
  })
  # IRkernel calls it once for its own ends, without an environment.
  replace("evaluate", function(old) function(input, envir, ...) {
    if (missing(envir)) old(input, ...) else allowInterrupts(old(input, envir, ...))
  })
  replace("zmq.send.multipart", function(old) function(...) suspendInterrupts(old(...)))
})
suspendInterrupts(IRkernel::main())
