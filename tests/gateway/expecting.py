# SPDX-License-Identifier: Apache-2.0
"""How a check says that it has failed."""


class Failed(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failed(what)
