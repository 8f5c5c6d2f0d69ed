"""Reports of mxcheck gate and mxcheck merge, each held against docs/gate.schema.json.

usage: report_schema_test.py TOOL SCHEMA FAULTY_LIBRARY

The validator knows the keywords that the schema uses and refuses any other, so that no rule is passed over.
"""

import copy
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL, SCHEMA, FAULTY = sys.argv.pop(1), json.loads(Path(sys.argv.pop(1)).read_text()), sys.argv.pop(1)
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
NO_RULES = {"$schema", "title", "description", "$defs"}
RULES = {"$ref", "type", "properties", "required", "additionalProperties", "items", "enum", "const", "minimum", "minItems", "maxItems", "pattern"}


def wrong(value, schema, at="report"):
    """What of the value is not as the schema says, as lines."""
    unknown = set(schema) - NO_RULES - RULES
    if unknown:
        raise ValueError(f"{at}: the test does not know the keywords {sorted(unknown)}")
    if "$ref" in schema:
        return wrong(value, SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]], at)
    if "type" in schema and (not isinstance(value, TYPES[schema["type"]]) or (isinstance(value, bool) and schema["type"] != "boolean")):
        return [f"{at} is {value!r}, no {schema['type']}"]
    found = []
    if "const" in schema and value != schema["const"]:
        found.append(f"{at} is {value!r}, not {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{at} is {value!r}, none of {schema['enum']}")
    if "minimum" in schema and not value >= schema["minimum"]:
        found.append(f"{at} is {value}, below {schema['minimum']}")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{at} is {value!r}, which {schema['pattern']} does not match")
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            found.append(f"{at} has {len(value)} items")
        for i, one in enumerate(value):
            found += wrong(one, schema.get("items", {}), f"{at}[{i}]")
    if isinstance(value, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        found += [f"{at} has no {name}" for name in schema.get("required", []) if name not in value]
        for name, one in value.items():
            if name in properties:
                found += wrong(one, properties[name], f"{at}.{name}")
            elif others is False:
                found.append(f"{at} has {name}, which the schema does not name")
            elif isinstance(others, dict):
                found += wrong(one, others, f"{at}.{name}")
    return found


def report(*arguments, code=0):
    done = subprocess.run([TOOL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert done.returncode == code, (arguments, done.returncode, done.stderr.decode())
    return json.loads(done.stdout.decode())


class Reports(unittest.TestCase):
    def expect_valid(self, value):
        self.assertEqual(wrong(value, SCHEMA)[:5], [])

    def test_of_a_right_library(self):
        self.expect_valid(report("gate", "--only", "scale_layout*", "--seed", "1", "--json"))

    def test_with_a_counterexample(self):
        found = report("gate", "--candidate", FAULTY, "--only", "quantize_equals*", "--seed", "1", "--json", "--save", "", code=1)
        self.assertIn("counterexample", found["statements"][0])
        self.expect_valid(found)
        again = found["statements"][0]["counterexample"]["case"]
        one = report("gate", "--candidate", FAULTY, "--reproduce", "quantize_equals_the_reference: " + again, "--json", "--save", "", code=1)
        self.assertTrue(one["one_case"])
        self.expect_valid(one)

    def test_of_repeated_calls(self):
        found = report("gate", "--only", "scale_layout*", "--seed", "1", "--json", "--soak", "0.01")
        self.assertIn("calls", found["statements"][0])
        self.expect_valid(found)

    def test_of_shards_and_their_merger(self):
        with tempfile.TemporaryDirectory() as folder:
            parts = [f"{folder}/{i}.json" for i in (1, 2)]
            for i, part in enumerate(parts):
                report("gate", "--only", "scale_layout*", "--seed", "1", "--shard", f"{i + 1}/2", "--report", part, "--json")
                self.expect_valid(json.loads(Path(part).read_text()))
            self.expect_valid(report("merge", *parts, "--json"))
            missing = report("merge", parts[0], "--json", code=4)
            self.assertEqual(missing["missing_shards"], [2])
            self.expect_valid(missing)

    def test_that_the_validator_finds_what_is_wrong(self):
        right = report("gate", "--only", "scale_layout*", "--seed", "1", "--json")
        for change, line in (
            (lambda r: r.pop("seed"), "report has no seed"),
            (lambda r: r.update(seed=True), "report.seed is True, no integer"),
            (lambda r: r.update(more=1), "report has more, which the schema does not name"),
            (lambda r: r.update(schema="mxcheck.gate/2"), "report.schema is 'mxcheck.gate/2', not 'mxcheck.gate/1'"),
            (lambda r: r["candidate"].update(digest="12"), "report.candidate.digest is '12', which ^([0-9a-f]{16})?$ does not match"),
            (lambda r: r["machine"].update(cpu=1), "report.machine.cpu is 1, no string"),
            (lambda r: r["statements"][0].update(cases=-1), "report.statements[0].cases is -1, below 0"),
        ):
            one = copy.deepcopy(right)
            change(one)
            self.assertEqual(wrong(one, SCHEMA), [line])
        with self.assertRaisesRegex(ValueError, "does not know the keywords"):
            wrong(1, {"maximum": 3})


if __name__ == "__main__":
    unittest.main(verbosity=2)
