"""The pages and pictures that mxcheck writes, opened in Chromium: browser_test.py MXCHECK SOURCE_DIR LIBRARIES OUT

LIBRARIES: the folder of libmxcheck_fault_*.so. Each page is opened at 1280 and at 390 px, in light and in dark, and
in_page.js says what a reader would miss. OUT keeps the pages and their pictures. 77: there is no Chromium.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import browser  # noqa: E402

MXCHECK, SOURCE, LIBRARIES, OUT = (pathlib.Path(argument).resolve() for argument in sys.argv[1:5])
SKIPPED = 77
LOOK = (pathlib.Path(__file__).parent / "in_page.js").read_text()

# One fault of each kind that in_page.js knows, and words of what it says; the last has none.
FAULTS = {
    "cut off": '<div style="width:60px;overflow:hidden;white-space:nowrap">a long line of words</div>',
    "hides": '<div style="width:60px;overflow:hidden;white-space:nowrap">a long line of words</div>',
    "px wide in a window": '<div style="width:2000px">wide</div>',
    'covers "second"': '<svg width="200" height="40"><text x="10" y="20">first</text><text x="20" y="22">second</text></svg>',
    "cut off by": '<svg width="40" height="40"><text x="10" y="20">first and last</text></svg>',
    "contrast of": '<p style="color:#999">pale</p>',
    "contrast of 1": '<svg width="90" height="40"><rect width="90" height="40"/><text x="9" y="20">dark</text></svg>',
    "text of 7.0 px": '<p style="font-size:7px">small</p>',
    "red, and no failure": '<svg width="90" height="40"><rect width="90" height="40" style="fill:#c2261c"/></svg>',
    "": '<p class="bad" style="color:#b3261e">failed</p><div style="width:60px;overflow:auto"><pre>a long line of words</pre></div>',
}


def findings(program, path, width, dark, picture=None):
    program.open(path, width, dark)
    program.as_high_as_the_page(width)
    if picture:
        program.picture(picture)
    program.evaluate("document.querySelectorAll('details').forEach((d) => d.open = true)")
    program.as_high_as_the_page(width, 1 << 20)
    return program.evaluate(LOOK)


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        OUT.mkdir(parents=True, exist_ok=True)
        cls.program = cls.enterClassContext(browser.Browser())

    def mxcheck(self, *arguments, code=0):
        answer = subprocess.run([str(MXCHECK), *map(str, arguments)], cwd=OUT, capture_output=True, text=True, check=False)
        self.assertEqual(answer.returncode, code, answer.stderr)

    def look_at(self, name, widths=(1280, 390)):
        for width in widths:
            for dark in (False, True):
                picture = OUT / f"{name.split('.')[0]}_{width}_{'dark' if dark else 'light'}.png"
                with self.subTest(page=picture.stem):
                    self.assertEqual(findings(self.program, OUT / name, width, dark, picture), [])

    def test_a_fault_of_each_kind_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            for words, body in FAULTS.items():
                page = pathlib.Path(folder) / "page.html"
                page.write_text(f"<!DOCTYPE html><html><body>{body}</body></html>")
                found = findings(self.program, page, 1280, False)
                self.assertEqual(any(words in line for line in found), words != "", f"{words}: {found}")

    def test_gate_of_a_library_that_fails(self):
        library = LIBRARIES / "libmxcheck_fault_ties_away_from_zero.so"
        self.mxcheck("gate", "--candidate", library, "--cases", 60, "--only", "[e-q]*", "--save", "", "--html", "gate_failed.html", code=1)
        self.look_at("gate_failed.html")

    def test_gate_of_a_library_that_holds(self):
        self.mxcheck("gate", "--candidate", "cpu", "--cases", 60, "--only", "route_*", "--html", "gate_held.html")
        self.look_at("gate_held.html")

    def test_recipes(self):
        self.mxcheck("recipes", "real:layer3.dh", "--pair", "real:layer0.x", "real:layer0.w1", "--html", "recipes.html")
        self.look_at("recipes.html")

    def test_parity(self):
        runs = sorted((SOURCE / "goldens/parity/h200_full_2").glob("*.h5"))
        self.mxcheck("parity", "compare", *runs, "--html", "parity.html", code=4)  # too few seeds for a verdict
        self.look_at("parity.html")

    # A file for a wide window or for paper, shown inside a page.
    def test_layer(self):
        self.mxcheck("layer", "--recipe", "dsv3_pow2", "--show", "--svg", "layer.svg")
        picture = (OUT / "layer.svg").read_text().split("?>", 1)[1]
        (OUT / "layer.html").write_text(f'<!DOCTYPE html><html><body style="margin:0">{picture}</body></html>')
        self.look_at("layer.html", widths=(1280,))


if __name__ == "__main__":
    if not browser.find():
        print("no Chromium: the pages are not opened (apt-get install --no-install-recommends chromium fonts-dejavu-core)")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
