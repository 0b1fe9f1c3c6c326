"""What walls hold: hostile programs behind them, as root's child and as an ordinary user's."""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from servers import facts_of
from walls_bench import AS_ROOT, POOL, Place

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock and seccomp are Linux's")

ESCAPE = Path(__file__).parents[1] / "escape"
LIMITS = {"data": 1 << 30, "file_size": 64 << 20, "open_files": 256, "processes": 200}

STOPPED = [
    "become_root", "call_as_a_32_bit_program", "call_as_an_x32_program", "call_what_is_too_new", "change_the_root",
    "compare_with_the_host", "connect_by_multipath", "connect_elsewhere", "connect_through_ipv6",
    "connect_to_an_abstract_socket", "connect_to_loopback", "connect_while_sending",
    "connect_while_sending_a_message", "copy_memory_of_the_host", "empty_a_file_outside", "get_new_privileges",
    "have_capabilities", "have_pages_at_fixed_places", "join_the_hosts_namespaces", "limit_the_host",
    "list_a_folder_outside", "load_a_module",
    "make_a_program_that_lends_its_owners_rights",
    "open_a_program_that_lends_its_owners_rights", "open_one_in_the_new_way",
    "make_a_file_in_a_folder_that_lends_its_group", "make_a_device", "make_a_file_outside", "make_a_folder_in_the_home",
    "make_a_mount_namespace", "make_a_packet_socket", "make_a_ping_socket", "make_a_raw_socket",
    "make_a_user_namespace", "make_a_user_namespace_in_the_new_way", "make_a_user_namespace_with_a_child",
    "make_a_vsock", "make_netlink_sockets", "make_sockets_of_other_families", "mount_in_the_new_way",
    "mount_something", "move_a_file_outside", "open_a_disk", "open_anothers_terminal",
    "open_a_file_outside_for_writing", "open_bpf",
    "open_core_pattern_for_writing", "open_io_uring", "open_other_ways_to_a_program_of_the_system",
    "open_performance_events", "open_userfaultfd", "raise_a_limit", "read_a_file_outside",
    "read_another_kernels_connection", "read_every_command_line", "read_every_environment",
    "read_the_hosts_environment", "read_the_hosts_files_through_its_descriptors", "read_the_hosts_memory",
    "read_the_hosts_root", "read_through_a_handle", "read_through_a_hard_link", "read_through_a_link",
    "read_through_our_own_root", "remove_a_file_outside", "restart_the_machine", "see_the_hosts_processes",
    "send_to_an_abstract_socket", "send_udp", "ask_for_a_name", "serve_tcp", "signal_everybody", "signal_the_host",
    "signal_the_host_by_a_descriptor", "start_too_many_processes", "take_a_descriptor_of_the_host",
    "take_a_tree_in_the_new_way", "take_too_much_memory", "trace_a_child", "trace_the_host",
    "type_into_a_terminal", "type_into_a_terminal_with_a_number_that_is_too_long", "unmount_something",
    "use_kernel_keys", "watch_files", "write_into_another_kernels_folder", "write_too_large_a_file",
]  # fmt: skip
"""What Landlock of ABI 6 and the filter stop, for every user."""
BY_ANOTHER_USER = [
    "change_the_mode_of_a_file_outside", "change_the_owner_of_a_file_outside", "change_the_times_of_a_file_outside",
    "give_the_host_other_processors", "slow_down_the_host",
]  # fmt: skip
"""What is only stopped where the process has a user of its own."""
NOT_HELD = [
    "connect_to_a_named_socket", "connect_to_another_kernel", "see_the_size_of_a_file_outside",
    "watch_a_folder_outside", "share_memory_with_others_of_the_user", "take_too_much_shared_memory",
    "serve_tcp_without_binding",
]  # fmt: skip
"""What is not: where everybody's mode lets it."""
MACHINES = {
    # What not every machine has: modules, ping for everybody, disks that can be opened, programs that the system runs.
    "load_a_module", "open_anothers_terminal", "make_a_ping_socket",
    "open_a_disk", "open_other_ways_to_a_program_of_the_system",
    "open_performance_events", "compare_with_the_host", "open_userfaultfd", "open_io_uring",
    "call_as_a_32_bit_program", "watch_files", "make_a_vsock", "connect_by_multipath",
}  # fmt: skip
REAL = [
    *[name for name in STOPPED if name not in {
        # The first two want another kind of system, the third would reach everybody on the machine and the fourth
        # unmount something, the others need limits.
        "call_as_an_x32_program", "call_what_is_too_new", "signal_everybody", "unmount_something", "make_a_device",
        "start_too_many_processes", "take_too_much_memory", "write_too_large_a_file",
    }],
    *BY_ANOTHER_USER, *NOT_HELD,
]  # fmt: skip
"""What gets through where nothing stands in its way."""


@pytest.fixture(scope="module")
def folder():
    """Where everybody can pass: pytest's own folders are closed."""
    made = Path(tempfile.mkdtemp(prefix="walls-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def place(folder):
    place = Place(folder)
    shutil.copytree(ESCAPE, folder / "code" / "escape", ignore=shutil.ignore_patterns("__pycache__"))
    return place


def spec_for(place, facts, as_user):
    """All walls; for root with a user of its own in a workspace that is lent to it."""
    workspace = Path(facts["workspace"])
    spec = {
        "limits": LIMITS,
        "oom_score_adj": 500,
        "session": True,
        "landlock": place.landlock(workspace),
        "seccomp": {"network": False},
    }
    if not as_user and AS_ROOT:
        spec["enter"] = {"workspace": str(workspace), "uid": POOL, "gid": POOL, "expose": place.roots}
        spec |= {"uid": POOL, "gid": POOL}
    return spec


def try_all(place, facts, spec, names=(), **more):
    program = [place.python, "-I", "-c", START, str(place.folder / "code" / "escape"), *names]
    command = place.command(spec, program) if spec else program
    done = place.start(command, input=json.dumps(facts | {"room": 1 << 20, **LIMITS}), **more)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


START = """
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
runpy.run_path(sys.path[0] + "/attacks.py", run_name="__main__")
"""


@pytest.fixture(
    scope="module",
    params=[pytest.param(False, id="root", marks=pytest.mark.skipif(not AS_ROOT, reason="this is not root")),
            pytest.param(True, id="user")],
)  # fmt: skip
def tried(request, place):
    """What became of every attack."""
    as_user = request.param
    room = place.folder / ("user" if as_user else "root")
    room.mkdir()
    with facts_of(room, POOL if as_user and AS_ROOT else -1) as facts:
        names = [*STOPPED, *BY_ANOTHER_USER, *NOT_HELD]
        yield as_user, try_all(place, facts, spec_for(place, facts, as_user), names, as_user=as_user)


@pytest.mark.parametrize("attack", STOPPED)
def test_this_is_stopped(attack, tried):
    assert tried[1][attack].startswith("stopped: "), tried[1][attack]


@pytest.mark.parametrize("attack", BY_ANOTHER_USER)
def test_this_is_stopped_by_a_user_of_its_own_only(attack, tried):
    as_user, said = tried
    assert said[attack].startswith("got through" if as_user else "stopped: "), said[attack]


@pytest.mark.parametrize("attack", NOT_HELD)
def test_this_is_not_held_and_the_list_says_so(attack, tried):
    """When it is held one day, the list of what is not has to be changed."""
    assert tried[1][attack] == "got through"


@pytest.mark.skipif(not AS_ROOT, reason="this is not root")
def test_without_walls_these_attacks_get_through(place):
    """Else what stopped them may not have been the walls."""
    room = place.folder / "open"
    room.mkdir()
    with facts_of(room) as facts:
        said = try_all(place, facts, None, REAL, env={"HOME": str(room), "PATH": os.environ["PATH"]})
    stopped = {name: how for name, how in said.items() if how != "got through"}
    assert {name: how for name, how in stopped.items() if name not in MACHINES} == {}
