"""What the wrappers at the source make of a fork; each in a process of its own, which they change for good."""

import subprocess
import sys
import textwrap

START = """
import ctypes, os, signal, sys, threading
from functools import partial
from codeact_kernel.inkernel import forked, guard, spawning
from codeact_kernel.inkernel.children import Children
from codeact_kernel.inkernel.pipes import READER

def adopt():
    children = Children(READER, lambda seconds, function: None, lambda request: set())
    spawning._adopt_fork(children, signal.default_int_handler)

def told_by_a_copy(tell):
    pid = os.fork()
    if pid == 0:
        tell()
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)
"""


def said_by(code):
    done = subprocess.run(
        [sys.executable, "-c", START + textwrap.dedent(code)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_copy_knows_what_it_is_though_an_exception_was_on_its_way_to_its_thread():
    said = said_by("""
        # From C, with no bytecode in between: as if another thread had sent it while this one was in `fork`.
        send = partial(ctypes.pythonapi.PyThreadState_SetAsyncExc, ctypes.c_ulong(threading.get_ident()))
        os.register_at_fork(after_in_child=partial(send, ctypes.py_object(KeyboardInterrupt)))
        adopt()
        told_by_a_copy(lambda: print(forked.is_copy()))
    """)
    assert said == "True\n"


def test_a_copy_does_not_wait_for_who_was_about_to_interrupt():
    said = said_by("""
        adopt()
        mine = guard.Guard()
        # Whoever interrupts holds the lock at this moment, and is not there in the copy.
        os.register_at_fork(before=mine._lock.acquire, after_in_parent=mine._lock.release)
        mine.call(object(), told_by_a_copy, lambda: (mine.close(), print("closed")))
    """)
    assert said == "closed\n"
