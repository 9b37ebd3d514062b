#!/usr/bin/env python3
"""Checks Cargo's whole tree against deny.toml: banned crates, wildcard versions, licences, sources.

The same as `cargo deny check bans licenses sources`, without the minutes that building cargo-deny takes.
"""

import json
import re
import subprocess
import sys
import tomllib

CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"


def allowed(expression: str, allow: set[str]) -> bool:
    """Whether the SPDX expression can be met by licences in `allow`. AND binds tighter than OR."""
    tokens = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))

    def either() -> bool:
        met = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            met = both() or met
        return met

    def both() -> bool:
        met = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            met = one() and met
        return met

    def one() -> bool:
        token = tokens.pop(0)
        if token == "(":
            met = either()
            if tokens.pop(0) != ")":
                raise ValueError(expression)
            return met
        if tokens and tokens[0] == "WITH":
            token = f"{token} WITH {tokens[1]}"
            del tokens[:2]
        return token in allow

    met = either()
    if tokens:
        raise ValueError(expression)
    return met


def findings(metadata: dict, rules: dict):
    """What in the tree is against the rules, a line each."""
    allow = set(rules["licenses"]["allow"])
    banned = {ban["crate"] for ban in rules["bans"]["deny"]}
    used = set()
    for package in metadata["packages"]:
        name = f"{package['name']} {package['version']}"
        licence = package["license"] or ""
        try:
            if not allowed(licence, allow):
                yield f"{name}: licence {licence!r} is not in [licenses] allow"
        except (IndexError, ValueError):
            yield f"{name}: licence {licence!r} cannot be read"
        used |= {word for word in re.split(r"[\s()/]+", licence) if word in allow}
        if package["name"] in banned:
            yield f"{name}: banned by [bans] deny"
        if package["source"] not in (None, CRATES_IO):
            yield f"{name}: comes from {package['source']}"
        if package["source"] is None:
            for dependency in package["dependencies"]:
                if dependency["req"] == "*" and "path" not in dependency:
                    yield f"{name}: any version of {dependency['name']} will do"
    for licence in sorted(allow - used):
        yield f"deny.toml: no crate needs {licence} any more"


def main() -> int:
    with open("deny.toml", "rb") as file:
        rules = tomllib.load(file)
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    found = list(findings(metadata, rules))
    for line in found:
        print(line, file=sys.stderr)
    if not found:
        print(f"{len(metadata['packages'])} crates: bans, licenses, sources ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
