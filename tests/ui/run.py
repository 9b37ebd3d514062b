"""The dashboard in a real browser over a real dueq. Each scenario is a person's question or an attacker's attempt.

Usage: run.py DUEQ [--part K/N] [--pictures DIR] [NAME…]: the scenarios whose name contains one of the names, and of these
every Nth from the Kth on; with --pictures it makes the guide's pictures instead. DUEQ_UI_DIST is a directory of assets to use in
place of those in the binary. Where a scenario fails there is a screenshot in DUEQ_UI_SHOTS, if that is set.
"""

import os
import sys
import time
import traceback
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parent))
import scenarios  # noqa: E402
from stage import Stage  # noqa: E402
from world import World  # noqa: E402


def main():
    args = sys.argv[1:]
    binary = args.pop(0)
    part, parts = 1, 1
    if args[:1] == ["--part"]:
        part, parts = map(int, args[1].split("/"))
        args = args[2:]
    with sync_playwright() as playwright:
        stage = Stage(binary, playwright)
        try:
            if args[:1] == ["--pictures"]:
                import pictures

                pictures.make(stage, Path(args[1]))
                return 0
            return run(stage, args, part, parts)
        finally:
            stage.close()


def run(stage, names, part, parts):
    failed = []
    count = 0
    began = time.monotonic()
    world = World(stage)
    wanted = [(name, scenario) for name, scenario in scenarios.all_of(world) if not names or any(part in name for part in names)]
    for name, scenario in wanted[part - 1 :: parts]:
        count += 1
        if not passes(world, name, scenario):
            failed.append(name)
    print(f"{count - len(failed)} of {count} scenarios passed in {time.monotonic() - began:.0f} s", flush=True)
    for name in failed:
        print(f"failed: {name}")
    return 1 if failed or count == 0 else 0


def passes(world, name, scenario):
    start = time.monotonic()
    try:
        scenario()
        print(f"ok   {name} ({time.monotonic() - start:.1f} s)", flush=True)
        return True
    except Exception:
        print(f"FAIL {name}\n{traceback.format_exc()}\nshown: {world.shown()}", flush=True)
        if shots := os.environ.get("DUEQ_UI_SHOTS"):
            world.shoot(Path(shots) / f"{name}.png".replace(" ", "-"))
        return False
    finally:
        world.close_views()


if __name__ == "__main__":
    sys.exit(main())
