"""Lets pages link to what lies outside docs/, such as ../../deploy/webhook.yaml, on the site too.

On a code host such a link leads to the file itself. A site has only docs/, so what is linked to
becomes a page of it below source/: Markdown as it is, any other file as a listing, a folder as the
list of what is in it. mkdocs calls the functions whose names begin with `on_`.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
_LINK = re.compile(
    r"^(```|~~~).*?^\1|`[^`\n]*`|(?<=\]\()(?![a-z]+:)([^)#\s]+)", re.MULTILINE | re.DOTALL
)
"""A link's path, in the second group; or code, in which nothing is a link."""
UNSEARCHED = "---\nsearch: {exclude: true}\n---\n"
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".sh": "sh", ".toml": "toml"}


def on_files(files: Any, *, config: Any) -> Any:
    """Add a page for all that pages link to outside docs/, and what those link to."""
    waiting = [(source(page.src_uri), page.content_string) for page in files.documentation_pages()]
    while waiting:
        for target in linked(*waiting.pop()):
            if target.startswith("docs/") or files.get_file_from_path(place(target)):
                continue
            text = shown(target)
            files.append(File.generated(config, place(target), content=UNSEARCHED + text))
            waiting.append((target, text))
    return files


def on_page_markdown(text: str, *, page: Any, **_: Any) -> str:
    """Let each link lead to the page that its file has on the site."""
    here = page.file.src_uri

    def moved(match: re.Match[str]) -> str:
        target = match[2] and leads_to(source(here), match[2])
        return posixpath.relpath(place(target), posixpath.dirname(here)) if target else match[0]

    return _LINK.sub(moved, text)


def linked(path: str, text: str) -> Iterator[str]:
    """Yield the files and folders of the repository that a file's text links to."""
    for match in _LINK.finditer(text):
        if match[2] and (target := leads_to(path, match[2])):
            yield target


def leads_to(path: str, link: str) -> str:
    """Return what a file's link leads to in the repository; nothing if there is no such thing."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    return target if not target.startswith("../") and (ROOT / target).exists() else ""


def place(path: str) -> str:
    """Return where a file of the repository is on the site, as a path of its source."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"


def source(uri: str) -> str:
    """Return which file of the repository a page shows: what `place` was asked."""
    if not uri.startswith("source/"):
        return f"docs/{uri}"
    path = uri.removeprefix("source/")
    return path if (ROOT / path).exists() else path.removesuffix(".md")


def shown(path: str) -> str:
    """Return a page that shows a file or a folder of the repository."""
    file = ROOT / path
    if file.is_dir():
        names = sorted(each.name for each in file.iterdir() if each.name[0] not in "._")
        return "\n".join([f"# {path}", "", *(f"- [{n}]({file.name}/{n})" for n in names)])
    if file.suffix == ".md":
        return file.read_text()
    language = _LANGUAGES.get(file.suffix, "text")
    return f"# {path}\n\n~~~~~~ {language}\n{file.read_text()}\n~~~~~~\n"
