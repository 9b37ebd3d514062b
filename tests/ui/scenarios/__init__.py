"""The scenarios: each says in its name, with a verb in the third person, what the dashboard does. What begins with _ helps them."""

from scenarios import act, find, hostile, keys, lists, payloads, strain
from screens import looks_right, screens


def all_of(world):
    """Names and what to call. The views of a theme and width are made once; between screens the page stays."""
    for width in (1440, 1280, 390):
        for theme in ("light", "dark"):
            for screen in screens({"exact": "", "/broken": ""}):
                yield f"screen {screen}, {theme}, {width}", lambda s=screen, t=theme, w=width: looks_right(world, s, t, w)
    for module in (find, act, lists, payloads, hostile, keys, strain):
        for name, scenario in vars(module).items():
            if getattr(scenario, "__module__", None) == module.__name__ and not name.startswith("_"):
                yield name.replace("_", " "), lambda s=scenario: s(world)
