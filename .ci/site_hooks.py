"""mkdocs: README, CONTRIBUTING, CHANGELOG and SECURITY are pages too; links to files outside docs/ lead to copies below source/."""

import pathlib
import posixpath
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)

sources = {}  # "kernels/candidate.h": its place in the site


def on_files(files, config):
    sources.clear()
    for name, place in PAGES.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / name)))
    for page in [*(ROOT / name for name in PAGES), *sorted((ROOT / "docs").glob("*.md"))]:
        for _, _, target in LINK.findall(page.read_text()):
            path = outside(target, page.parent.relative_to(ROOT).as_posix())
            if path and (ROOT / path).is_file() and path not in sources:
                sources[path] = f"source/{path}.txt"
                files.append(File.generated(config, sources[path], content=(ROOT / path).read_bytes()))
    return files


def outside(target, folder):
    """The path in the checkout of a link's target that is no page of the site; None for pages and other sites."""
    if "://" in target or target.startswith("#"):
        return None
    path = posixpath.normpath(posixpath.join(folder, target.partition("#")[0]))
    return None if path in PAGES or (path.startswith("docs/") and path.count("/") == 1) else path


def on_page_markdown(markdown, page, config, files):
    folder = "docs" if page.file.abs_src_path and pathlib.Path(page.file.abs_src_path).parent.name == "docs" else "."

    def place(match):
        image, text, target = match.groups()
        if "://" in target or target.startswith("#"):
            return match.group(0)
        if path := outside(target, folder):
            if path in sources:
                return f"{image}[{text}]({sources[path]})"
            if not (ROOT / path).exists():
                return match.group(0)  # strict mode then names the page and the link
            return text  # a folder
        path, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(folder, path))
        there = PAGES.get(path, path.removeprefix("docs/"))
        return f"{image}[{text}]({there}{'#' + anchor if anchor else ''})"

    parts = FENCE.split(markdown)
    return "".join(part if FENCE.fullmatch(part) else LINK.sub(place, part) for part in parts)
