"""Random programs of blocks, drawn and written.

A program is a few blocks of one reply. A block is a list of steps and an end; `write` makes of it the code, and the
model of what that code does.
"""

from __future__ import annotations

import program_steps as steps
from hypothesis import strategies as st
from program_steps import Block, Step, Written

STEPS = {
    steps.say: 4, steps.complain: 3, steps.say_much: 2, steps.pause: 4, steps.work: 2, steps.display: 2,
    steps.plot: 1, steps.redirected: 2, steps.in_thread: 2, steps.in_pool: 2, steps.in_tasks: 3,
    steps.left_running: 2, steps.child: 3, steps.process: 1,
}  # fmt: skip
"""Each kind of step, and how often it is drawn."""
KINDS = {step.__name__: step for step in STEPS}
IN_CAPTURE = ("say", "complain", "say_much", "pause", "work", "display")
ENDS = {
    "ends": (None, ""),
    "value": (None, ""),
    "raises": ("raise ValueError('wrong')", "ValueError: wrong"),
    "exits": ("raise SystemExit(3)", "SystemExit"),
    "quits": ("exit()", "the kernel and its names live on"),
    "does not parse": ("x = (1,", "SyntaxError"),
}


def _weighted(names) -> list[str]:
    return [name for name in names for _ in range(STEPS[KINDS[name]])]


def _steps(names):
    return st.lists(st.builds(Step, st.sampled_from(_weighted(names)), st.integers(0, 99)), max_size=6).map(
        tuple
    )


def _lanes(awaits):
    return st.none() | st.sampled_from(["async"] if awaits else ["main", "worker", "async"])


_NEEDS = st.sampled_from([0, 0, 0, 1, 2, 3])
_CANCELLED = st.none() | st.none() | st.none() | st.integers(0, 40)
_ORDINARY = st.booleans().flatmap(
    lambda awaits: st.builds(
        Block,
        _steps(KINDS),
        st.just(awaits),
        st.sampled_from(["ends", "ends", "ends", *ENDS]),
        _lanes(awaits),
        _NEEDS,
        cancelled=_CANCELLED,
    )
)
_CAPTURED = st.booleans().flatmap(
    lambda awaits: st.builds(
        Block,
        _steps(IN_CAPTURE),
        st.just(awaits),
        lane=_lanes(awaits),
        needs=_NEEDS,
        captured=st.just(True),
        cancelled=_CANCELLED,
    )
)
PROGRAMS = st.lists(st.one_of(*[_ORDINARY] * 7, _CAPTURED), min_size=1, max_size=8)


def write(program: list[Block], gate: str) -> list[Written]:
    """Write the code and the model of a program's blocks.

    Args:
        program: The blocks.
        gate: A word that no other program has.
    """
    written: list[Written] = []
    for number, block in enumerate(program):
        maker = written[number - block.needs] if 0 < block.needs <= number else None
        needed = any(0 < later.needs == at - number for at, later in enumerate(program))
        written.append(_write_block(block, f"{gate}b{number}", maker, needed=needed))
    return written


def _write_block(block: Block, name: str, maker: Written | None, *, needed: bool) -> Written:
    written = Written(block, name, maker)
    if needed:
        # It is still there when those who need its name come.
        written.add(f"while 'all of {written.gate}' not in gates:")
        written.pause(0.002)
        written.lines[-1] = "    " + written.lines[-1]
    if maker is not None:
        written.add(f"print(made_{maker.name})")
        written.prints(f"by {maker.name}\n")
    if block.awaits:
        written.add("await asyncio.sleep(0)")
    if needed:
        written.add(f"made_{name} = 'too early'")
    for number, step in enumerate(block.steps):
        KINDS[step.kind](written, f"{name}-{number}", step.number)
    code, written.sign = ENDS[block.end]
    if code is not None:
        written.add(code)
        written.status = "error"
    elif needed:
        written.add(f"made_{name} = 'by {name}'")
    if block.end == "does not parse":
        written.shown, written.errors, written.late, written.pictures = [], "", [], 0
    if block.end == "value":
        written.add(f"'{name}'")
        written.value = f"'{name}'"
    elif code is None:
        written.add("None")
    return written
