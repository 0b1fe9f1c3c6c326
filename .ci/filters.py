"""Makes the filters of `codeact_kernel/inkernel/walls/filters`: `python .ci/filters.py`, when a list changes.

Comes in: the lists below. Goes out: for each architecture and each kind of network a program for seccomp, as the
system takes it. With `--check` it writes nothing and ends with 1 where a file is not what the lists say; the tests
do the same. Written out here, and not by a library, so that the same lists give the same bytes on every machine.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "codeact_kernel" / "inkernel" / "walls" / "filters"
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
KINDS = ("network", "tcp", "unix", "sealed")
"""The first three: what sockets there are besides unix ones: internet ones, those that TCP needs, none. The last comes
on top of one of them, in a kernel that has its own sockets already, and lets no further unix sockets be made."""
LAST = 469
"""The newest call that was looked at. A newer one does not exist in here, as if the kernel were older."""

# The numbers of the calls, for x86_64 and aarch64. Past 423 all architectures have the same.
NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "_sysctl": (156, None),
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chmod": (90, None),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "creat": (85, None),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "finit_module": (313, 273),
    "get_kernel_syms": (177, None),
    "init_module": (175, 105),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "mount": (165, 40),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open": (2, None),
    "open_by_handle_at": (304, 265),
    "openat": (257, 56),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pivot_root": (155, 41),
    "prlimit64": (302, 261),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "query_module": (178, None),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "sendmmsg": (307, 269),
    "sendmsg": (46, 211),
    "sendto": (44, 206),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
    **{
        name: (number, number)
        for name, number in {
            "clone3": 435,
            "fchmodat2": 452,
            "fsconfig": 431,
            "fsmount": 432,
            "fsopen": 430,
            "fspick": 433,
            "io_uring_enter": 426,
            "io_uring_register": 427,
            "io_uring_setup": 425,
            "listmount": 458,
            "mount_setattr": 442,
            "move_mount": 429,
            "open_tree": 428,
            "open_tree_attr": 467,
            "openat2": 437,
            "pidfd_getfd": 438,
            "quotactl_fd": 443,
            "statmount": 457,
        }.items()
    },
}

NAMESPACES = 0x7E020000
"""The flags of `clone` that make a namespace: of mounts, cgroups, names, messages, users, processes, networks."""
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
"""They put what was never typed into a terminal's input."""
MSG_FASTOPEN = 0x20000000
"""Connects while it sends, past what Landlock looks at."""
PRIVILEGED = 0o6000
"""The set-user-id and set-group-id bits: with them a file lends its owner's rights to whoever executes it."""
CREATES = 0o100 | 0o20000000
"""O_CREAT and O_TMPFILE, without which the mode that is given with a file to open means nothing."""
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
STREAM, DGRAM, SEQPACKET, TYPES = 1, 2, 5, 0xF
TCP, ROUTE = 6, 0
"""Not MPTCP, which Landlock does not hold and which any TCP server understands; of netlink what tells addresses."""

LOAD, AND, JEQ, JGT, JSET, RETURN = 0x20, 0x54, 0x15, 0x25, 0x45, 0x06
ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
NUMBER, ARCHITECTURE = 0, 4

Program = list[tuple[int, int, int, int]]
"""Instructions: code, how many to skip where a comparison holds and where not, operand."""


def load(argument: int, *, high: bool = False) -> tuple[int, int, int, int]:
    """Take one half of an argument. Of an int the system looks at the low half only, and so does the filter."""
    return LOAD, 0, 0, 16 + 8 * argument + 4 * high


def one_of(*values: int) -> Program:
    """Allow what was loaded where it is one of these, refuse it where not."""
    tests = [(JEQ, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [*tests, (RETURN, 0, 0, EPERM), (RETURN, 0, 0, ALLOW)]


def none_of(*values: int, test: int = JEQ) -> Program:
    """Refuse what was loaded where it is one of these (or has one of these bits), allow it where not."""
    tests = [(test, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [*tests, (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, EPERM)]


def where(value: int, then: Program) -> Program:
    """Go this way where what was loaded has this value. All ways of a program end in it."""
    return [(JEQ, 0, len(then), value), *then]


def socket_rule(kind: str) -> Program:
    """What sockets may be made: family, type and protocol are the arguments."""
    internet: Program = [(RETURN, 0, 0, EPERM)]
    masked = [load(1), (AND, 0, 0, TYPES)]
    if kind == "network":
        internet = [*masked, *one_of(STREAM, DGRAM)]
    elif kind == "tcp":
        internet = [*masked, (JEQ, 1, 0, STREAM), (RETURN, 0, 0, EPERM), load(2), *one_of(0, TCP)]
    return [
        load(0),
        *where(UNIX, [(RETURN, 0, 0, ALLOW)]),
        *where(INET, internet),
        *where(INET6, internet),
        *where(NETLINK, [load(2), *one_of(ROUTE)]),
        (RETURN, 0, 0, EPERM),
    ]


def limits_rule() -> Program:
    """Limits of the own process, or a look at another's: with a limit on time a process can be ended."""
    looks = [load(2), (JEQ, 1, 0, 0), (RETURN, 0, 0, EPERM), load(2, high=True), *one_of(0)]
    return [load(0), *where(0, [(RETURN, 0, 0, ALLOW)]), *looks]


def mode_rule(mode: int, flags: int | None = None) -> Program:
    """Modes without the bits that lend rights. A kernel may own files on disk as root does: see `enter`."""
    judged = [load(mode), *none_of(PRIVILEGED, test=JSET)]
    if flags is None:
        return judged
    return [load(flags), (JSET, 1, 0, CREATES), (RETURN, 0, 0, ALLOW), *judged]


def rules(kind: str) -> dict[str, Program]:
    """What is done about each call of the list."""
    if kind == "sealed":
        # A pair that is no stream could be connected anew.
        pairs = [load(1), (AND, 0, 0, TYPES), *one_of(STREAM, SEQPACKET)]
        return {"socket": [load(0), *none_of(UNIX)], "socketpair": pairs}
    found: dict[str, Program] = {name: [(RETURN, 0, 0, EPERM)] for name in NUMBERS}
    found |= {
        "clone": [load(0), *none_of(NAMESPACES, test=JSET)],
        # Its flags lie in memory, where a filter cannot look. libc then takes `clone`.
        "clone3": [(RETURN, 0, 0, ENOSYS)],
        # So does its mode. Programs then take `openat`.
        "openat2": [(RETURN, 0, 0, ENOSYS)],
        "chmod": mode_rule(1),
        "fchmod": mode_rule(1),
        "fchmodat": mode_rule(2),
        "fchmodat2": mode_rule(2),
        "creat": mode_rule(1),
        "mknod": mode_rule(1),
        "mknodat": mode_rule(2),
        "open": mode_rule(2, flags=1),
        "openat": mode_rule(3, flags=2),
        "ioctl": [load(1), *none_of(TIOCSTI, TIOCLINUX)],
        "personality": [load(0), *one_of(0xFFFFFFFF, 0)],
        "prlimit64": limits_rule(),
        "socket": socket_rule(kind),
        "socketpair": [load(0), *one_of(UNIX)],
    }
    for name, flags in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
        found[name] = [load(flags), *none_of(MSG_FASTOPEN, test=JSET)]
        if kind == "network":
            del found[name]
    return found


def program(architecture: str, kind: str) -> bytes:
    """The filter for an architecture and a kind of network, as the system takes it.

    Args:
        architecture: One of `ARCHITECTURES`.
        kind: One of `KINDS`.

    Returns:
        Its instructions, eight bytes each.
    """
    column = list(ARCHITECTURES).index(architecture)
    steps: Program = [
        (LOAD, 0, 0, ARCHITECTURE),
        # A call of another architecture (32 bits) has other numbers.
        (JEQ, 1, 0, ARCHITECTURES[architecture]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
        # Those of x32 are among them: they begin at 2**30.
        (JGT, 0, 1, LAST),
        (RETURN, 0, 0, ENOSYS),
    ]
    for name, rule in sorted(rules(kind).items()):
        number = NUMBERS[name][column]
        if number is not None:
            steps += where(number, rule)
    steps.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


def main(arguments: list[str], folder: Path) -> None:
    """Write the files, or check them."""
    stale = []
    for architecture in ARCHITECTURES:
        for kind in KINDS:
            file = folder / f"{architecture}-{kind}.bpf"
            made = program(architecture, kind)
            if "--check" not in arguments:
                file.write_bytes(made)
                print(f"{file.name}: {len(made)} bytes")
            elif not file.exists() or file.read_bytes() != made:
                stale.append(file.name)
    if stale:
        sys.exit(f"not what the lists say: {', '.join(stale)}; run python .ci/filters.py")


if __name__ == "__main__":
    main(sys.argv[1:], FOLDER)
