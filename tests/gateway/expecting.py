# SPDX-License-Identifier: Apache-2.0
"""How a check says that it has failed, or that it cannot be made here."""


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Failed(what)
