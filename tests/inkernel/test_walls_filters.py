"""The filters of system calls: the bytes that are shipped, and what they say of each call, on every architecture."""

import ctypes
import importlib.util
import struct
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("filters", ROOT / ".ci" / "filters.py")
filters = importlib.util.module_from_spec(spec)
spec.loader.exec_module(filters)

EVERY = [(architecture, kind) for architecture in filters.ARCHITECTURES for kind in filters.KINDS]
WHOLE = [(architecture, kind) for architecture, kind in EVERY if kind != "sealed"]
ALLOW, KILL, EPERM, ENOSYS = "allow", "kill", "EPERM", "ENOSYS"
ANSWERS = {0x7FFF0000: ALLOW, 0x80000000: KILL, 0x00050001: EPERM, 0x00050026: ENOSYS}
HIGH = 1 << 32


def judge(program, architecture, number, *arguments):
    """What a program says: the machine that seccomp runs it on, as far as it is used."""
    whole = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<iIQ6Q", number, architecture, 0, *(value % (1 << 64) for value in whole))
    steps = [struct.unpack_from("<HBBI", program, place) for place in range(0, len(program), 8)]
    place = value = 0
    while True:
        code, yes, no, operand = steps[place]
        place += 1
        if code == 0x20:
            value = struct.unpack_from("<I", data, operand)[0]
        elif code == 0x54:
            value &= operand
        elif code == 0x06:
            return ANSWERS[operand]
        else:
            holds = {0x15: value == operand, 0x25: value > operand, 0x45: bool(value & operand)}[code]
            place += yes if holds else no


@pytest.fixture(params=WHOLE, ids="-".join)
def asked(request):
    """Asks the shipped filter of an architecture and kind about a call by name."""
    return asking(*request.param)


@pytest.fixture(params=filters.ARCHITECTURES)
def sealed(request):
    return asking(request.param, "sealed")


def asking(architecture, kind):
    program = (filters.FOLDER / f"{architecture}-{kind}.bpf").read_bytes()
    column = list(filters.ARCHITECTURES).index(architecture)

    def ask(name, *arguments):
        number = name if isinstance(name, int) else filters.NUMBERS[name][column]
        return judge(program, filters.ARCHITECTURES[architecture], number, *arguments)

    ask.kind, ask.column = kind, column
    return ask


@pytest.mark.parametrize(("architecture", "kind"), EVERY)
def test_what_is_shipped_is_what_the_lists_make(architecture, kind):
    shipped = (filters.FOLDER / f"{architecture}-{kind}.bpf").read_bytes()
    assert shipped == filters.program(architecture, kind), "run python .ci/filters.py"


def test_nothing_else_is_shipped():
    assert {file.name for file in filters.FOLDER.iterdir()} == {f"{a}-{k}.bpf" for a, k in EVERY}


def test_the_numbers_are_those_that_libseccomp_knows():
    """Two lists that were written apart from each other."""
    try:
        libseccomp = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        pytest.skip("libseccomp is not installed here")
    resolve = libseccomp.seccomp_syscall_resolve_name_arch
    resolve.argtypes = [ctypes.c_uint32, ctypes.c_char_p]
    for name, numbers in filters.NUMBERS.items():
        for token, number in zip(filters.ARCHITECTURES.values(), numbers, strict=True):
            known = resolve(token, name.encode())
            # -1 is a call that this libseccomp is too old for; lower ones are of other architectures.
            assert known == (number if number is not None else known) or known == -1, name
            assert number is not None or known < 0, name


def test_most_of_the_list_is_refused_whatever_the_arguments(asked):
    judged = {
        "chmod", "clone", "clone3", "creat", "fchmod", "fchmodat", "fchmodat2", "ioctl", "mknod", "mknodat", "open",
        "openat", "openat2", "personality", "prlimit64", "sendmmsg", "sendmsg", "sendto", "socket", "socketpair",
    }  # fmt: skip
    for name, numbers in filters.NUMBERS.items():
        if name not in judged and numbers[asked.column] is not None:
            for argument in (0, 1, 0xFFFFFFFF, HIGH):
                assert asked(numbers[asked.column], *[argument] * 6) == EPERM, name


def test_every_way_through_a_program_ends_in_an_answer(asked):
    for number in range(-2, filters.LAST + 40):
        for argument in (0, 1, 2, 10, 16, 0x5412, 0xFFFFFFFF):
            asked(number, *[argument] * 6)


def test_ordinary_calls_are_allowed(asked):
    """Read, write, open, execve, futex, and all others that no list names."""
    listed = {number for numbers in filters.NUMBERS.values() for number in numbers}
    for number in range(filters.LAST + 1):
        if number not in listed:
            assert asked(number) == ALLOW, number


def test_calls_that_are_too_new_do_not_exist(asked):
    assert {asked(number) for number in (filters.LAST + 1, 1000, 0x40000000, 0x40000000 + 39, -1)} == {ENOSYS}


@pytest.mark.parametrize(("architecture", "kind"), EVERY)
def test_a_call_of_another_architecture_ends_the_process(architecture, kind):
    program = filters.program(architecture, kind)
    for token in (0x40000003, 0x40000028, *filters.ARCHITECTURES.values()):
        if token != filters.ARCHITECTURES[architecture]:
            assert judge(program, token, 1) == KILL


def test_clone_makes_processes_and_threads_and_no_namespaces(asked):
    assert asked("clone", 17) == ALLOW
    assert asked("clone", 0x003D0F00) == ALLOW  # a thread, as glibc makes it
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert asked("clone", flag | 17) == EPERM
        assert asked("clone", flag | 17 | HIGH) == EPERM
    assert asked("clone3", 0, 0) == ENOSYS


def test_only_the_commands_that_type_are_refused_of_ioctl(asked):
    assert {asked("ioctl", 0, command) for command in (0x5401, 0x5413, 0x5411, 0)} == {ALLOW}
    assert {asked("ioctl", 0, command) for command in (0x5412, 0x541C, 0x5412 | HIGH)} == {EPERM}


def test_personality_can_be_asked_and_not_changed(asked):
    assert {asked("personality", value) for value in (0xFFFFFFFF, 0, -1)} == {ALLOW}
    assert {asked("personality", value) for value in (8, 0x0040000, 0x0400000)} == {EPERM}


def test_limits_of_the_own_process_can_be_set_and_those_of_others_read(asked):
    assert asked("prlimit64", 0, 7, 0x7FFF0000, 0) == ALLOW
    assert asked("prlimit64", 99, 7, 0, 0x7FFF0000) == ALLOW
    assert asked("prlimit64", 99, 7, 0x7FFF0000, 0) == EPERM
    assert asked("prlimit64", 99, 7, HIGH, 0) == EPERM


def test_the_sockets_that_there_are(asked):
    nonblock, cloexec = 0o4000, 0o2000000
    internet = {
        "network": {"stream": ALLOW, "dgram": ALLOW, "mptcp": ALLOW},
        "tcp": {"stream": ALLOW, "dgram": EPERM, "mptcp": EPERM},
        "unix": {"stream": EPERM, "dgram": EPERM, "mptcp": EPERM},
    }[asked.kind]
    for family in (2, 10):
        for flags in (0, nonblock, cloexec, nonblock | cloexec):
            assert asked("socket", family, 1 | flags, 0) == internet["stream"]
            assert asked("socket", family, 1 | flags, 6) == internet["stream"]
            assert asked("socket", family, 2 | flags, 17) == internet["dgram"]
            assert asked("socket", family, 2 | flags, 1) == internet["dgram"]
            assert asked("socket", family, 1 | flags, 262) == internet["mptcp"]
            for kind in (3, 4, 5, 6, 10):
                assert asked("socket", family, kind | flags, 0) == EPERM
    assert (
        asked("socket", 1, 1, 0)
        == asked("socket", 1, 2 | cloexec, 0)
        == asked("socket", 1 | HIGH, 5)
        == ALLOW
    )
    assert asked("socket", 16, 3 | cloexec, 0) == ALLOW
    assert {asked("socket", 16, 3, protocol) for protocol in range(1, 23)} == {EPERM}
    for family in (*range(3, 10), *range(11, 16), *range(17, 50)):
        assert asked("socket", family, 1, 0) == EPERM
    assert {asked("socketpair", family, 1, 0) for family in (1, 1 | HIGH)} == {ALLOW}
    assert {asked("socketpair", family, 1, 0) for family in (0, 2, 30)} == {EPERM}


def test_no_connection_is_made_while_sending(asked):
    refused = ALLOW if asked.kind == "network" else EPERM
    for name, place in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
        arguments = [0] * 6
        assert asked(name, *arguments) == ALLOW
        arguments[place] = 0x4000
        assert asked(name, *arguments) == ALLOW
        arguments[place] |= 0x20000000
        assert asked(name, *arguments) == refused


def test_the_script_finds_a_file_that_is_not_what_the_lists_say(tmp_path):
    filters.main([], tmp_path)
    filters.main(["--check"], tmp_path)
    (tmp_path / "x86_64-tcp.bpf").write_bytes(b"")
    with pytest.raises(SystemExit, match=r"x86_64-tcp\.bpf"):
        filters.main(["--check"], tmp_path)


def test_no_file_gets_the_bits_that_lend_its_owners_rights(asked):
    """With the number of each argument that is a mode, and of the flags without which it means nothing."""
    places = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2}
    opening = {"open": (2, 1), "openat": (3, 2)}
    for name, place in places.items():
        if filters.NUMBERS[name][asked.column] is not None:
            for mode, answer in (
                (0o777, ALLOW),
                (0o1777, ALLOW),
                (0o4755, EPERM),
                (0o2755, EPERM),
                (0o6000, EPERM),
            ):
                assert asked(name, *[0] * place, mode) == answer, name
    for name, (place, flags) in opening.items():
        if filters.NUMBERS[name][asked.column] is not None:
            for flag, answer in ((0o100, EPERM), (0o20000000, EPERM), (0o2000000, ALLOW), (0, ALLOW)):
                arguments = [0] * 6
                arguments[place], arguments[flags] = 0o4755, flag
                assert asked(name, *arguments) == answer, name
                arguments[place] = 0o644
                assert asked(name, *arguments) == ALLOW, name
    assert asked("openat2") == ENOSYS


def test_a_sealed_kernel_makes_pairs_of_streams_and_no_other_unix_sockets(sealed):
    assert {sealed("socket", 1, kind, 0) for kind in (1, 2, 5)} == {EPERM}
    assert sealed("socket", 1 | HIGH, 1, 0) == EPERM
    assert sealed("socket", 2, 1, 0) == ALLOW
    assert sealed("socketpair", 1, 1 | 0o2000000, 0) == sealed("socketpair", 1, 5, 0) == ALLOW
    assert sealed("socketpair", 1, 2 | 0o2000000, 0) == EPERM
    assert {sealed(number) for number in (0, 1, 2, 3, 100, filters.LAST)} == {ALLOW}
