"""What a terminal shows in the end: an endless sheet on which control sequences are obeyed.

Comes in: the characters that a program wrote to a terminal. Goes out: the lines that are left.
"""

from __future__ import annotations

import re

from rich.cells import cell_len

_TOKEN = re.compile(r"\x1b\[([0-9;?]*)([@-~])|\x1b\][^\x07]*\x07|\x1b[=>78]|[^\x1b]", re.DOTALL)


class Paper:
    """A sheet of a width."""

    def __init__(self, width):
        self._width = width
        self._rows = [{}]
        self._row = self._column = 0

    def write(self, text):
        for token in _TOKEN.finditer(text):
            if token[2]:
                self._obey(token[2], [int(n) for n in re.findall(r"\d+", token[1])])
            elif token[0][0] != "\x1b":
                self._put(token[0])
        return self

    @property
    def lines(self):
        return [
            "".join(row.get(n, " ") for n in range(max(row, default=-1) + 1)).rstrip() for row in self._rows
        ]

    def _put(self, char):
        if char == "\r":
            self._column = 0
        elif char == "\n":
            self._down(1)
        elif char == "\b":
            self._column = max(0, self._column - 1)
        elif char >= " ":
            if self._column + cell_len(char) > self._width:
                self._column = 0
                self._down(1)
            self._rows[self._row][self._column] = char
            if cell_len(char) == 2:
                self._rows[self._row][self._column + 1] = ""
            self._column += cell_len(char)

    def _obey(self, command, numbers):
        count = numbers[0] if numbers else 1
        erase = numbers[0] if numbers else 0
        match command:
            case "A":
                self._row = max(0, self._row - count)
            case "B":
                self._down(count)
            case "C":
                self._column = min(self._width - 1, self._column + count)
            case "D":
                self._column = max(0, self._column - count)
            case "G":
                self._column = count - 1
            case "K":
                row = self._rows[self._row]
                keep = {0: range(self._column), 1: range(self._column + 1, self._width), 2: range(0)}[erase]
                self._rows[self._row] = {n: char for n, char in row.items() if n in keep}
            case "J":
                assert erase == 0, "the whole screen is never cleared"
                self._obey("K", [])
                del self._rows[self._row + 1 :]
            case "m" | "h" | "l" | "n" | "q":
                pass
            case _:
                raise AssertionError(f"an unknown sequence: {numbers} {command}")

    def _down(self, count):
        self._row += count
        while len(self._rows) <= self._row:
            self._rows.append({})
