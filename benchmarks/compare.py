#!/usr/bin/env python3
"""Compares two saved results of a benchmark on a GPU, case by case: the time of the first over the time of the second.

  compare.py BEFORE.json AFTER.json      each is the output of one of mxcheck_sm90_bench, mxcheck_sm90_gemm_bench,
                                         mxcheck_sm90_route_bench or mxcheck_sm90_moe_bench with --json

Cards of one name differ by up to 9 % and their clocks by more, so results of two cards, clocks or drivers are refused: exit code 2 and a
sentence that names both. A card of the same name may still be another one: run both in one session. For what differs by little, take
contenders that one program times in turn.
"""

import argparse
import json
import sys

CARD = {"name": str, "sm_clock_mhz": int, "memory_clock_mhz": int, "driver": str}
NAMES = ("operation", "case", "name", "recipe")  # what calls an object that has a time, or one around it


class Refused(Exception):
    """What is wrong with the request, in a sentence."""


def card_of(result, where):
    """The card that a result states, as its four facts."""
    card = result.get("card") if isinstance(result, dict) else None
    if not isinstance(card, dict):
        raise Refused(f'{where} does not state its card: its member "card" must have {", ".join(CARD)}; measure again with --json')
    for key, kind in CARD.items():
        if not isinstance(card.get(key), kind) or isinstance(card[key], bool) or card[key] in ("", 0):
            raise Refused(f'{where}: "card" has no {key}: it must be {"a text" if kind is str else "a number of MHz above 0"}; '
                          "measure again with --json")
    return {key: card[key] for key in CARD}


def card_text(card):
    return (f"{card['name']} at {card['sm_clock_mhz']} MHz (memory {card['memory_clock_mhz']} MHz, driver {card['driver']})")


def require_same_card(first, first_where, second, second_where):
    """Refuses a ratio of results whose cards, clocks or drivers differ."""
    if first != second:
        raise Refused(f"no ratio of two cards: {first_where} is of {card_text(first)}, {second_where} of {card_text(second)}; "
                      "measure both on one card at the same clocks")


def times(value, label=()):
    """(what was timed, microseconds) for every object with a time, in order."""
    if isinstance(value, list):
        for element in value:
            yield from times(element, label)
    elif isinstance(value, dict):
        label += tuple(str(value[name]) for name in NAMES if isinstance(value.get(name), str))
        if "tokens" in value:
            label += (",".join(str(value.get(key)) for key in ("tokens", "d", "n", "experts", "top_k")),)
        if isinstance(value.get("us"), (int, float)) and value["us"] > 0:
            yield " ".join(label), value["us"]
        for key, member in value.items():
            if isinstance(member, (dict, list)) and key != "card":
                lists = key in ("cases", "shapes", "recipes", "steps", "times")
                yield from times(member, label if lists else label + (key,))


def by_case(result):
    """Microseconds by what was timed; what has the name of another before it is numbered."""
    found, seen = {}, {}
    for case, us in times(result):
        seen[case] = seen.get(case, 0) + 1
        found[case if seen[case] == 1 else f"{case} #{seen[case]}"] = us
    return found


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path} is not the JSON of a benchmark: {error}") from error


def compare(before, after):
    old, new = read(before), read(after)
    card = card_of(old, before)
    require_same_card(card, before, card_of(new, after), after)
    olds, news = by_case(old), by_case(new)
    both = [case for case in olds if case in news]
    if not both:
        raise Refused(f"{before} and {after} have no case in common: compare two results of one program")
    width = max(len(case) for case in both)
    print(card_text(card))
    print(f"{'case':<{width}} {'us before':>12} {'us after':>12} {'ratio':>7}")
    for case in both:
        print(f"{case:<{width}} {olds[case]:12.2f} {news[case]:12.2f} {olds[case] / news[case]:7.3f}")
    for path, only in ((before, olds.keys() - news.keys()), (after, news.keys() - olds.keys())):
        if only:
            print(f"{len(only)} only in {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    arguments = parser.parse_args()
    try:
        compare(arguments.before, arguments.after)
    except Refused as refused:
        print(f"compare.py: {refused}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
