"""A page that does what it is told, as the browser does."""

from __future__ import annotations

import copy

from codeact_kernel.lab.cells import Cells


def units(text, at):
    """The text before a place that JavaScript counts."""
    return text.encode("utf-16-le", "surrogatepass")[: 2 * at].decode("utf-16-le", "surrogatepass")


class Page:
    """Takes operations; `shown` is what a person sees."""

    def __init__(self):
        self.cells, self.questions, self.bar = {}, {}, {}

    def take(self, operations):
        for operation in copy.deepcopy(operations):
            getattr(self, f"do_{operation.pop('op')}")(**operation)

    def do_cell(self, id, **about):
        if id in self.cells:
            return
        about |= {"state": "", "outputs": []}
        under = about["under"]
        if under is None:
            self.cells[id] = about
            return
        names = list(self.cells)
        at = names.index(under) + 1
        while at < len(names) and self.cells[names[at]]["depth"] >= about["depth"]:
            at += 1
        items = list(self.cells.items())
        self.cells = dict([*items[:at], (id, about), *items[at:]])

    def do_source(self, id, at, text):
        self.cells[id]["source"] = units(self.cells[id]["source"], at) + text

    def do_state(self, id, **about):
        self.cells[id] |= about

    def do_outputs(self, id, at, outputs):
        kept = self.cells[id]["outputs"][:at]
        for output in outputs:
            last = kept[-1] if kept else {}
            if (
                output["output_type"] == "stream" == last.get("output_type")
                and last["name"] == output["name"]
            ):
                last["text"] += output["text"]
            else:
                kept.append(output)
        self.cells[id]["outputs"] = kept

    def do_bar(self, **about):
        self.bar = about

    def do_ask(self, question, **about):
        self.questions[question] = about

    def do_asked(self, question, answer):
        del self.questions[question]

    @property
    def shown(self):
        return [
            (c["kind"], c["depth"], c["source"], c["state"], c["block"], c["outputs"])
            for c in self.cells.values()
        ]


class Shown:
    """The cells of a run, and a page that follows."""

    def __init__(self, protocol="tags"):
        self.now = 100.0
        self.cells = Cells("ck-1", "the task", protocol, wall=lambda: self.now)
        self.page = Page()
        self.told = []

    def __call__(self, *events):
        for event in events:
            self.cells(event)
        self.follow()

    def follow(self):
        if (taken := self.cells.take()) is not None:
            self.told.append(taken[0])
            self.page.take(taken[1])

    def anew(self):
        """A page that comes only now."""
        page = Page()
        page.take(self.cells.snapshot()[1])
        return page
