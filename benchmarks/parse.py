"""How fast a reply is read: 1 MB at once and in 4-character pieces, and whether time grows in line.

Comes in: nothing; a reply of prose, short blocks and long blocks is made up. Goes out: a table on stdout.
Targets: above 20 MB/s at once, above 2 MB/s in 4-character pieces, and four times the text in about four
times the time. Run: `python benchmarks/parse.py`.
"""

from __future__ import annotations

import time

from codeact_kernel.dialogue.tags import TagReader

MEGABYTE = 1_000_000
PROSE = "First I look at what is there: a < b, a list, and `<run_code>` as a word in a sentence.\n" * 4
CODE = """for row in rows:
    if row["size"] > 10 and row["name"] != "<b>":
        print(f"{row['name']} -> {row}")
"""


def make_reply(size: int) -> str:
    """A reply of about this many characters: prose, and blocks of 4 and of 400 lines."""
    round_ = (
        f'{PROSE}\n<run_code timeout="30s">\n{CODE}</run_code>\n'
        f"{PROSE}\n<run_code heartbeat=5s>\n{CODE * 130}</run_code>\n"
    )
    return (round_ * (size // len(round_) + 1))[:size]


def replies(size: int) -> dict[str, str]:
    """Replies of one kind only, the worst of each kind."""
    return {
        "a mix": make_reply(size),
        "prose": (PROSE * (size // len(PROSE) + 1))[:size],
        "one block": f"<run_code>\n{CODE * (size // len(CODE))}</run_code>\n",
        "short blocks": "<run_code>\nprint(1)\n</run_code>\n" * (size // 32),
        "closing tags inside lines": "<run_code>\n" + "# </run_code> " * (size // 14),
        "white space": "<run_code>\n" + " " * size,
        "angle brackets": "<run_code>\n" + "><" * (size // 2),
        "opening tags that do not end": f'<run_code id="{">" * 1900}\n</run_code>\n' * (size // 1927),
        "blank lines of prose": "\n " * (size // 2),
    }


def seconds(pieces: list[str]) -> float:
    """Seconds to read a reply; the best of three goes, which other work on the machine disturbs least."""
    taken = []
    for _ in range(3):
        reader = TagReader(compiles=bool)
        begin = time.perf_counter()
        for piece in pieces:
            reader.feed(piece)
        reader.finish("stop")
        taken.append(time.perf_counter() - begin)
    return min(taken)


def cut(reply: str, size: int) -> list[str]:
    """A reply in pieces."""
    return [reply[at : at + size] for at in range(0, len(reply), size)]


def main() -> None:
    """Print the table."""
    print(f"{'reply':28} {'at once':>11} {'in 4s':>10} {'4 MB / 1 MB':>13}")
    large = replies(4 * MEGABYTE)
    for name, reply in replies(MEGABYTE).items():
        size = len(reply) / MEGABYTE
        once, small, four = seconds([reply]), seconds(cut(reply, 4)), seconds(cut(large[name], 4))
        print(f"{name:28} {size / once:6.1f} MB/s {size / small:5.1f} MB/s {four / small:7.1f} times")


if __name__ == "__main__":
    main()
