# SPDX-License-Identifier: Apache-2.0
"""SIGINT ends the code of the cell that runs, and touches nothing else of the kernel."""
import asyncio
import contextlib
import signal
import sys

from IPython.core.events import EventManager


# What is raised. Known by itself, since a traceback of where code was is long work that nobody waits for.
Interrupt = type("KeyboardInterrupt", (KeyboardInterrupt,), {})


class Interrupts:
    """Where an interrupt may become an exception.

    IPython's kernel lets it come anywhere while it handles a request, and ignores it otherwise. So it was lost before the
    code, and behind it it took the reply away, for which a client then waited for ever. Here it is raised below the
    code of the cell, or below a callback that runs when the cell has ended, whose exceptions are handled. One that comes before the
    code has begun is raised when it begins. Between two cells it means nothing.
    """

    def __init__(self, shell):
        self._shell = shell
        self._in_cell = False
        self._task = None  # of a cell that awaits
        self._cancelled = False
        self._watching = False
        self._code_globals = None
        shell.set_custom_exc((Interrupt, asyncio.CancelledError), self._show)
        signal.signal(signal.SIGINT, self._handle)

    @contextlib.contextmanager
    def cell(self):
        """While a cell runs. Code may have set a handler of its own, which ends with it."""
        signal.signal(signal.SIGINT, self._handle)
        self._in_cell = True
        self._cancelled = False
        try:
            yield
        finally:
            self._in_cell = False
            if self._watching:
                self._watching = False
                sys.setprofile(None)

    @contextlib.contextmanager
    def task(self, task):
        """While the cell is a task of the event loop."""
        self._task = task
        try:
            yield
        finally:
            self._task = None

    def _handle(self, number, frame):
        if not self._in_cell:
            return
        if self._is_code(frame):
            raise Interrupt
        task = self._task
        if task is not None and asyncio.current_task(task.get_loop()) is not task:
            self._cancelled = True
            task.get_loop().call_soon_threadsafe(task.cancel)
        else:
            # Until a function of the code is called, which the code itself is.
            self._watching = True
            self._code_globals = self._shell.user_global_ns
            sys.setprofile(self._watch)

    def _watch(self, frame, event, argument):
        if event == "call" and frame.f_globals is self._code_globals:
            self._watching = False
            sys.setprofile(None)
            raise Interrupt

    def _show(self, shell, kind, value, trace, tb_offset=None):
        if kind is Interrupt or self._cancelled:
            shell._showtraceback(kind, value, [])
        else:
            shell.showtraceback((kind, value, trace))

    def _is_code(self, frame):
        code_globals = self._shell.user_global_ns
        while frame is not None:
            if frame.f_globals is code_globals:
                return True
            caller = frame.f_back
            if caller is not None and caller.f_code is EventManager.trigger.__code__:
                return True
            frame = caller
        return False
