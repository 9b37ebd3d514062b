#!/usr/bin/env python3
"""Reads `cargo metadata` on stdin and writes what is in the program as a CycloneDX document: the crates that are linked
into it, and the libraries of the dashboard, each with its version, licence and checksum."""

import datetime
import json
import os
import sys
import tomllib
import uuid
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.validation.json import JsonStrictValidator
from cyclonedx.schema import SchemaVersion
from packageurl import PackageURL


def component(kind: str, name: str, version: str, licence: str | None, sha256: str | None = None) -> Component:
    # `npm` names may have a scope.
    scope, _, short = name.rpartition("/")
    purl = PackageURL(kind, scope or None, short, version)
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=version,
        purl=purl,
        bom_ref=purl.to_string(),
        licenses=[LicenseExpression(licence.replace("/", " OR "))] if licence else [],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else [],
    )


def crates(metadata: dict) -> tuple[dict[str, Component], dict[str, list[str]]]:
    """The crates that are linked into the program, by their ids, and what each of them needs."""
    lock = tomllib.loads(Path("Cargo.lock").read_text())
    sums = {(one["name"], one["version"]): one.get("checksum") for one in lock["package"]}
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    linked, needs, todo = {}, {}, [metadata["resolve"]["root"]]
    while todo:
        at = todo.pop()
        if at in linked:
            continue
        package = packages[at]
        name, version = package["name"], package["version"]
        linked[at] = component("cargo", name, version, package["license"], sums[name, version])
        # Neither what tests use nor what only builds, which runs nowhere else.
        is_linked = lambda dep: any(kind["kind"] is None for kind in dep["dep_kinds"])
        proc_macro = lambda id: any("proc-macro" in target["kind"] for target in packages[id]["targets"])
        needs[at] = [dep["pkg"] for dep in nodes[at]["deps"] if is_linked(dep) and not proc_macro(dep["pkg"])]
        todo += needs[at]
    return linked, needs


def dashboard() -> list[Component]:
    """The libraries that the dashboard's script is bundled from."""
    lock = json.loads(Path("src/ui/package-lock.json").read_text())["packages"]
    used = [(path.rpartition("node_modules/")[2], one) for path, one in lock.items() if path and not one.get("dev")]
    return [component("npm", name, one["version"], one.get("license")) for name, one in used]


def main() -> None:
    metadata = json.load(sys.stdin)
    linked, needs = crates(metadata)
    root = linked[metadata["resolve"]["root"]]
    root.type = ComponentType.APPLICATION
    bom = Bom()
    # The same sources make the same document.
    built = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.UTC)
    bom.metadata.timestamp = built
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"{root.purl}@{built.isoformat()}")
    bom.metadata.component = root
    scripts = dashboard()
    for each in [*linked.values(), *scripts]:
        if each is not root:
            bom.components.add(each)
    for at, others in needs.items():
        bom.register_dependency(linked[at], [linked[other] for other in others])
    bom.register_dependency(root, scripts)
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong:
        sys.exit(f"sbom: {wrong}")
    print(text)


main()
