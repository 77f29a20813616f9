# SPDX-License-Identifier: Apache-2.0
"""IPython's kernel with what the code interpreter needs beside it.

- Output holds the code back when nobody takes it, and none of it is dropped: IPython's kernel would keep all of it
  in memory, and then lose what does not fit into its socket's queue.
- What other programs write to the standard descriptors belongs to the cell that started them.
- A request brings the environment that it runs with. Another name of the sandbox in it means that this is a copy.
- An interrupt ends the code, always and only the code (atoll_interrupts).
- Tables and charts are also handed over as data (atoll_results).
- It listens nowhere but in the folder of its sockets.
"""
import asyncio
import codecs
import contextlib
import fcntl
import os
import random
import select
import signal
import sys
import termios
import threading
import time

import zmq
from tornado.ioloop import IOLoop
from zmq.eventloop.zmqstream import ZMQStream
from ipykernel import kernelapp
from ipykernel.iostream import IOPubThread, OutStream
from ipykernel.ipkernel import IPythonKernel

import atoll_interrupts
import atoll_results

PIECE = 1 << 20  # characters in one message, and about as many that wait to be sent
QUEUED_MESSAGES = 64  # in the socket; and in the queue before it
NO_DROP = 69  # ZMQ_XPUB_NODROP: wait in place of dropping messages
SETTLE_LIMIT_S = 1.0
CHILD_LINGER_MS = 3000  # for a forked child's output to be taken
SANDBOX = "E2B_SANDBOX_ID"  # the variable that names the sandbox


class Stream(OutStream):
    """Standard output or error of the code."""

    flush_interval = 0.05

    def __init__(self, *arguments, **options):
        self._unsent = 0
        self._watch_lock = threading.Lock()
        super().__init__(*arguments, **options)

    def _watch_pipe_fd(self):
        """Takes what was written to the descriptor, in a thread of its own."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while self._should_watch:
            select.select([self._fid], [], [])
            # Read and passed on as one step, so that settle() finds it in the pipe or in the stream.
            with self._watch_lock:
                block = os.read(self._fid, 65536)
                if not block:
                    return
                self.write(decoder.decode(block))

    def settle(self):
        """Waits until what programs have written to the descriptor is in this stream."""
        limit = time.monotonic() + SETTLE_LIMIT_S
        while getattr(self, "_fid", None) is not None and time.monotonic() < limit:
            with self._watch_lock:
                waiting = fcntl.ioctl(self._fid, termios.FIONREAD, b"\0\0\0\0")
            if int.from_bytes(waiting, sys.byteorder) == 0:
                return
            time.sleep(0.001)

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if not self._is_master_process():
            return super().write(text)
        for start in range(0, len(text), PIECE):
            piece = text[start : start + PIECE]
            super().write(piece)
            self._unsent += len(piece)
            if self._unsent >= PIECE:
                self._send()
        return len(text)

    def flush(self):
        if self._is_master_process() and threading.current_thread() is threading.main_thread():
            self.settle()
        self._send()

    def _send(self):
        thread = self.pub_thread.thread if self.pub_thread else None
        if thread is None or not thread.is_alive() or threading.current_thread() is thread:
            return super().flush()
        if not self._is_master_process():
            return super().flush()
        self._unsent = 0
        self.pub_thread.schedule(self._flush)
        sent = threading.Event()
        self.pub_thread.schedule(sent.set)
        interrupted = False
        while thread.is_alive():
            try:
                if sent.wait(1):
                    break
            except KeyboardInterrupt:
                # Half a flush would leave the order of the output to chance.
                interrupted = True
        if interrupted:
            raise KeyboardInterrupt


class Publisher(IOPubThread):
    """Sends the output, in a thread of its own."""

    def _setup_pipe_in(self):
        """Takes the output of forked children; IPython's kernel would listen on a port, which everybody can reach."""
        self._pipe_uuid = os.urandom(16)
        self._pipe_address = self.socket.getsockopt_string(zmq.LAST_ENDPOINT) + "-children"
        pipe = self.socket.context.socket(zmq.PULL)
        pipe.linger = 0
        pipe.bind(self._pipe_address)
        self._pipe_in = ZMQStream(pipe, self.io_loop)
        self._pipe_in.on_recv(self._handle_pipe_msg)

    def _setup_pipe_out(self):
        context = zmq.Context()  # that of the parent does not outlive a fork
        pipe = context.socket(zmq.PUSH)
        pipe.linger = CHILD_LINGER_MS
        pipe.connect(self._pipe_address)
        return context, pipe

    def schedule(self, event):
        while len(self._events) > QUEUED_MESSAGES and self.thread.is_alive():
            if threading.current_thread() is self.thread or not self._is_master_process():
                break
            time.sleep(0.002)
        super().schedule(event)


def draw_anew():
    """A copy of a sandbox must not go on with the random numbers of the other one."""
    random.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


class Kernel(IPythonKernel):
    """Runs requests with the environment that they bring."""

    def __init__(self, **options):
        super().__init__(**options)
        self._globals = {}
        self._interrupts = atoll_interrupts.Interrupts(self.shell)

    async def execute_request(self, stream, ident, parent):
        asked = (parent.get("metadata") or {}).get("atoll") or {}
        call = asked.get("call", {})
        self._set_globals(asked.get("globals", self._globals))
        os.environ.update(call)
        try:
            with self._interrupts.cell():
                await super().execute_request(stream, ident, parent)
        finally:
            for name in call:
                if name in self._globals:
                    os.environ[name] = self._globals[name]
                else:
                    os.environ.pop(name, None)

    def _set_globals(self, wanted):
        if wanted == self._globals:
            return
        if wanted.get(SANDBOX) != self._globals.get(SANDBOX):
            draw_anew()
        for name in self._globals.keys() - wanted.keys():
            os.environ.pop(name, None)
        os.environ.update(wanted)
        self._globals = dict(wanted)

    def pre_handler_hook(self):
        """IPython's kernel would let interrupts come anywhere from here on."""

    def post_handler_hook(self):
        """See pre_handler_hook()."""

    def _cancel_on_sigint(self, future):
        return self._interrupts.task(future)

    async def do_execute(self, code, silent, *arguments, **options):
        try:
            return await super().do_execute(code, silent, *arguments, **options)
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            # It came where IPython does not take it for the code's: a task that had not begun.
            content = {"ename": type(error).__name__, "evalue": str(error), "traceback": []}
            self.send_response(self.iopub_socket, "error", content)
            return {"status": "error", "execution_count": self.execution_count, **content}


class App(kernelapp.IPKernelApp):
    """The kernel's process."""

    def _bind_socket(self, s, port):
        if s.type == zmq.PUB:
            s.sndhwm = QUEUED_MESSAGES
            s.setsockopt(NO_DROP, 1)
        return super()._bind_socket(s, port)

    def init_iopub(self, context):
        kernelapp.IOPubThread = Publisher
        super().init_iopub(context)

    def init_signal(self):
        """The kernel has its own handler (atoll_interrupts). This one is for the time before."""
        signal.signal(signal.SIGINT, lambda number, frame: None)

    def start(self):
        loop = IOLoop.current()
        start = loop.start

        def start_again():
            while True:
                with contextlib.suppress(KeyboardInterrupt):  # of a task of the code beside the cell
                    return start()

        loop.start = start_again
        super().start()

    def init_shell(self):
        super().init_shell()
        atoll_results.install(self.shell)


def main():
    options = {
        "outstream_class": "atoll_kernel.Stream",
        "kernel_class": Kernel,
    }
    app = App.instance(**options)
    app.config.HistoryManager.enabled = False  # no database in the user's home
    app.initialize(sys.argv[1:])
    app.start()
