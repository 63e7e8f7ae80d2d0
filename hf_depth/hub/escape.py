"""Makes text from outside harmless in a card: it is shown, never read as Markdown or HTML."""

import html
import re


def one_line(text: object) -> str:
    """`text` with every run of white space as one space, so that it cannot end the front matter it stands in."""
    return " ".join(str(text).split())


def escape_markdown(text: object) -> str:
    """`text` on one line, with HTML and Markdown characters escaped; fit for a table cell.

    >>> escape_markdown("<b>a|b</b>")
    '&lt;b&gt;a\\\\|b&lt;/b&gt;'
    """
    return html.escape(re.sub(r"([\\`*_{}\[\]()#+!|~$])", r"\\\1", one_line(text)), quote=False)


def fence(text: object) -> str:
    """`text` as a block of code that nothing in it can close.

    >>> print(fence("ls"))
    ```bash
    ls
    ```
    """
    runs = re.findall(r"`+", str(text))
    ticks = "`" * max(3, 1 + max(map(len, runs), default=0))
    return f"{ticks}bash\n{text}\n{ticks}"
