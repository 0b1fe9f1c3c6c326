"""Objects that live in one kernel, used from another."""

from __future__ import annotations

import tempfile

import pytest
from talk import block, delegate, play, told, when

pytestmark = pytest.mark.kernel

DATABASE = """
import sqlite3
db = sqlite3.connect(':memory:')
db.execute('create table t (x)')
db.executemany('insert into t values (?)', [(i,) for i in range(5)])
def total():
    return db.execute('select sum(x) from t').fetchone()[0]
"""
PAGE = """
import asyncio, threading
class Page:
    def __init__(self):
        self.url, self.lock, self.visits = 'about:blank', threading.Lock(), []
    async def goto(self, url, timeout=1):
        await asyncio.sleep(0.01)
        self.url = url
        self.visits.append(threading.current_thread().name)
        return f'<title>{url}</title>'
    async def fails(self):
        raise KeyError('no such element')
    def locator(self, what):
        return Locator(self, what)
class Locator:
    def __init__(self, page, what):
        self.page, self.what = page, what
    async def text(self):
        return f'{self.what} of {self.page.url}'
page = Page()
"""


async def test_calls_of_a_proxy_run_in_the_parent_s_kernel_and_copies_come_back(tmp_path, monkeypatch):
    folder = tempfile.mkdtemp()
    monkeypatch.setattr(tempfile, "tempdir", folder)
    count = f"import glob\nprint('parcels:', len(glob.glob('{folder}/ck-parcels-*/*/*')))"
    model, *_ = await play(
        tmp_path,
        {
            "ROOT": when(
                block(DATABASE) + "\n" + delegate("SCOUT", name="scout", namespace="db, total"),
                ("agent_result", block(f"print(total())\n{count}", id="total")),
                ('id="total"', "Done."),
            ),
            "SCOUT": [
                block("print(db)\nprint(total(), db.total_changes, type(db.execute('select 1')).__name__)"),
                block(
                    "db.execute('insert into t values (?)', (90,))\nprint(db.execute('select x from t').fetchall())"
                ),
                block(
                    "try:\n    db.execute('nonsense')\nexcept Exception as e:\n    print(type(e).__name__, e)"
                ),
                block("with db: pass"),
                block("db.row_factory = 1"),
                "Done.",
            ],
        },
    )
    said = told(model, "SCOUT")
    assert "<proxy of a sqlite3.Connection; its calls run in the main lane of the agent's kernel>" in said
    assert "10 5 Proxy" in said
    assert "[(0,), (1,), (2,), (3,), (4,), (90,)]" in said
    assert 'OperationalError near "nonsense": syntax error' in said
    assert "context manager protocol" in said
    assert "takes no assignments" in said
    # What calls have brought and taken is gone, and the namespace with its sub-agent.
    assert "100\nparcels: 0" in told(model, "ROOT")


async def test_an_asynchronous_object_is_used_in_the_async_lane(tmp_path):
    model, *_ = await play(
        tmp_path,
        {
            "ROOT": when(
                block(PAGE) + "\n" + delegate("SCOUT", name="scout", namespace="page"),
                ("agent_result", block("print(page.url, page.visits)", id="look")),
                ('id="look"', "Done."),
            ),
            "SCOUT": [
                block("print(page, page.url)\nprint(await page.goto('x.org', timeout=2), page.url)"),
                block("print(await page.locator('h1').text())"),
                block("try:\n    await page.fails()\nexcept KeyError as e:\n    print('KeyError', e)"),
                block("print(await asyncio.gather(*(page.goto(str(i)) for i in range(5))))"),
                "Done.",
            ],
        },
    )
    said = told(model, "SCOUT")
    assert (
        "<proxy of a __main__.Page; its calls run in the async lane of the agent's kernel> about:blank"
        in said
    )
    assert "<title>x.org</title> x.org" in said
    assert "h1 of x.org" in said
    assert "KeyError 'no such element'" in said
    assert "async lane" in told(model, "ROOT")


async def test_a_call_that_would_wait_for_itself_is_an_error(tmp_path):
    wait = DATABASE + "import asyncio\nprint(asyncio.run(self.run_agent('SCOUT', namespace=['db'])))"
    model, *_ = await play(
        tmp_path,
        {
            "ROOT": [block(wait, id="waits", lane="main"), "Done."],
            "SCOUT": [block("print(db.total_changes)"), "Done."],
        },
    )
    assert "this call would wait for itself: it runs in the main lane of the agent's kernel, where" in told(
        model, "SCOUT"
    )


async def test_a_proxy_goes_on_to_a_grandchild_and_home_again(tmp_path):
    model, *_ = await play(
        tmp_path,
        {
            "ROOT": when(
                block(DATABASE) + "\n" + delegate("CHILD", name="child", namespace="db"),
                ("agent_result", block("print('the same:', child is db)", id="look")),
                ('id="look"', "Done."),
            ),
            "CHILD": when(
                delegate("GRAND", name="grand", namespace="db"),
                ("agent_result", block("self.return_value(db)", id="back")),
                ('id="back"', "Done."),
            ),
            "GRAND": [block("print(db.total_changes, db)"), "Done."],
        },
    )
    assert "5 <proxy of a sqlite3.Connection; its calls run in the main lane of the agent's kernel>" in told(
        model, "GRAND"
    )
    assert "the same: True" in told(model, "ROOT")


async def test_a_proxy_whose_agent_has_ended_says_so(tmp_path):
    model, *_ = await play(
        tmp_path,
        {
            "ROOT": [
                delegate("CHILD", name="child"),
                block("print(child)\nchild.total_changes"),
                "Done.",
            ],
            "CHILD": [block(DATABASE + "self.return_value(db)"), "Done."],
        },
    )
    assert "the agent in whose kernel the object lives has ended" in told(model, "ROOT")
