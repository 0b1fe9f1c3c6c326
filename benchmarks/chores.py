"""Three tasks for an agent, with their tools, and how each is done: by JSON tool calls and by blocks.

Comes in: nothing; the files, orders and the transcript are made up, the same each time. Goes out: `Task`s, for
`round_trips.py`.
"""

from __future__ import annotations

import random
import re
from collections import Counter as Tally
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

FILES, ORDERS, PRODUCTS, WORDS = 200, 1000, 60, 18_000
"""The transcript's words are two hours of talk, at 150 a minute."""
RANDOM = random.Random(6)
VOCABULARY = re.findall(
    r"\w+",
    """the a of to and in that it is was for on are with as they at be this have from or one had by word but not what
    all were we when your can said there use an each which she do how their if will up other about out many then them
    some so her would make like him into time has look two more write go see number no way could people my than first
    been call who its now find long down day did get come made may part kernel block agent tool report budget""",
)
TITLES = [
    "Setup",
    "Usage",
    "Options",
    "Examples",
    "Limits",
    "History",
    "See also",
    "Background",
    "Errors",
    "Tests",
]

Calls = list[tuple[str, dict[str, Any]]]
Way = Generator[Calls, list[Any], str]
"""What a model calls, a list for each reply; gets the results; returns its answer."""


def prose(words: int) -> str:
    """Sentences of that many words."""
    said = [RANDOM.choice(VOCABULARY) for _ in range(words)]
    for at in range(0, words, 14):
        said[at] = said[at].capitalize()
        said[min(at + 13, words - 1)] += "."
    return " ".join(said)


def note(number: int) -> str:
    """A Markdown file of about 500 words."""
    parts = [f"# Note {number}", prose(40)]
    for title in RANDOM.sample(TITLES, RANDOM.randint(3, 7)):
        parts += [f"## {title}", prose(90)]
    return "\n\n".join(parts)


@dataclass
class World:
    """What the tools work on."""

    notes: dict[str, str] = field(default_factory=lambda: {f"notes/{n:03}.md": note(n) for n in range(FILES)})
    orders: list[dict[str, Any]] = field(
        default_factory=lambda: [
            {
                "id": 70_000 + n,
                "customer": f"C{RANDOM.randint(100, 999)}",
                "product": f"P{RANDOM.randrange(PRODUCTS):02}",
                "quantity": RANDOM.randint(1, 500),
                "date": f"2026-{RANDOM.randint(1, 12):02}-{RANDOM.randint(1, 28):02}",
            }
            for n in range(ORDERS)
        ]
    )
    products: list[dict[str, Any]] = field(
        default_factory=lambda: [
            {"id": f"P{n:02}", "name": f"{prose(2)} {n}", "price": RANDOM.randint(100, 99_999) / 100}
            for n in range(PRODUCTS)
        ]
    )
    transcript: str = field(default_factory=lambda: prose(WORDS))
    records: dict[str, dict[str, str]] = field(default_factory=lambda: {"lead-7": {"owner": "May"}})

    def list_files(self, folder: str) -> list[str]:
        """The paths of the files in a folder."""
        return [path for path in self.notes if path.startswith(folder)]

    def read_file(self, path: str) -> str:
        """The text of a file."""
        return self.notes[path]

    def list_orders(self) -> list[dict[str, Any]]:
        """All orders."""
        return self.orders

    def list_products(self) -> list[dict[str, Any]]:
        """All products, with their prices."""
        return self.products

    def get_document(self, name: str) -> str:
        """The text of a document."""
        return self.transcript

    def update_record(self, record: str, field: str, value: str) -> None:
        """Set a field of a record."""
        self.records[record][field] = value


@dataclass
class Task:
    """One of the tasks, with its tools, and how each side does it."""

    name: str
    text: str
    tools: list[Callable[..., Any]]
    calls: Callable[[], Way]
    blocks: list[str]
    answer: str
    """The right one; it is part of what is said at the end."""
    done: Callable[[], bool] = lambda: True
    """Whether the tools have been left as they should be."""


def headings(world: World) -> Task:
    """Counted over all files."""
    text = (
        f"Count the level-2 headings of the {FILES} Markdown files in notes: which three are the most frequent, and "
        "how often does each occur?"
    )

    def counted(texts: list[str]) -> str:
        tally = Tally(title for note in texts for title in re.findall(r"^## (.+)$", note, re.MULTILINE))
        return ", ".join(f"{title} {count}" for title, count in tally.most_common(3))

    def calls() -> Way:
        (paths,) = yield [("list_files", {"folder": "notes"})]
        texts = yield [("read_file", {"path": path}) for path in paths]
        return f"The most frequent headings: {counted(texts)}."

    blocks = [
        """paths = list_files("notes")
print(len(paths), paths[:3])
print(read_file(paths[0])[:600])""",
        """import re
from collections import Counter
found = Counter(title for path in paths for title in re.findall(r"^## (.+)$", read_file(path), re.M))
print(", ".join(f"{title} {count}" for title, count in found.most_common(3)))""",
        "The most frequent headings: {}.",
    ]
    tools = [world.list_files, world.read_file]
    return Task(f"headings of {FILES} files", text, tools, calls, blocks, counted([*world.notes.values()]))


def orders(world: World) -> Task:
    """Joined over two tools."""
    text = "Which five orders are worth the most, quantity times the product's price? Name order, product and value."

    def largest(orders: list[dict[str, Any]], products: list[dict[str, Any]]) -> str:
        of = {product["id"]: product for product in products}
        valued = [(order["quantity"] * of[order["product"]]["price"], order) for order in orders]
        best = sorted(valued, key=lambda pair: -pair[0])[:5]
        return "; ".join(f"{order['id']} {of[order['product']]['name']} {value:.2f}" for value, order in best)

    def calls() -> Way:
        both = yield [("list_orders", {}), ("list_products", {})]
        return f"The largest orders: {largest(*both)}."

    blocks = [
        """orders, products = list_orders(), list_products()
print(len(orders), orders[0], len(products), products[0])""",
        """of = {product["id"]: product for product in products}
valued = [(order["quantity"] * of[order["product"]]["price"], order) for order in orders]
best = sorted(valued, key=lambda pair: -pair[0])[:5]
print("; ".join(f"{o['id']} {of[o['product']]['name']} {value:.2f}" for value, o in best))""",
        "The largest orders: {}.",
    ]
    tools = [world.list_orders, world.list_products]
    answer = largest(world.orders, world.products)
    return Task(f"largest of {ORDERS:,} orders", text, tools, calls, blocks, answer)


def copying(world: World) -> Task:
    """From one tool to another."""
    text = "Put the text of the document kickoff into the field notes of the record lead-7."

    def calls() -> Way:
        (document,) = yield [("get_document", {"name": "kickoff"})]
        yield [("update_record", {"record": "lead-7", "field": "notes", "value": document})]
        return "The record lead-7 has the text now."

    blocks = [
        """text = get_document("kickoff")
update_record("lead-7", "notes", text)
print(len(text))""",
        "The record lead-7 has the text now.",
    ]
    tools = [world.get_document, world.update_record]

    def done() -> bool:
        return world.records["lead-7"].pop("notes", None) == world.transcript

    return Task(f"copy of {WORDS:,} words", text, tools, calls, blocks, "lead-7 has the text", done)
