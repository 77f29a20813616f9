# SPDX-License-Identifier: Apache-2.0
"""IPython's kernel for the code interpreter: python_kernel.py -f CONNECTION_FILE"""
import os
import sys

ours = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = ours
# Nobody debugs over the interpreter's wire, and the debugger is a third of the kernel's start and memory.
sys.modules["debugpy"] = None
import atoll_kernel  # noqa: E402

del sys.modules["debugpy"]
sys.path[0] = ""  # modules of the code come from its directory, as in a notebook
atoll_kernel.main()
