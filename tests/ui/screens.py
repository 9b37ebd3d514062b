"""The screens, each looked at in both themes and three widths."""

from pathlib import Path


def screens(ids):
    return {
        "overview": "#/",
        "topics": "#/topics",
        "topic, delayed": "#/topics/reminders?state=delayed",
        "topic, dead": "#/topics/orders?state=dead",
        "topic, charts": "#/topics/orders?view=charts",
        "topic, groups": "#/topics/payments?view=groups",
        "topic, settings": "#/topics/payments?view=settings",
        "message": f"#/messages/{ids['exact']}",
        "message, called": f"#/messages/{ids['/broken']}",
        "dead letters": "#/dead",
        "callbacks": "#/callbacks",
        "schedules": "#/schedules",
        "schedule": "#/schedules/daily-report",
        "publish": "#/publish",
        "instances": "#/instances",
    }


def looks_right(world, screen, theme, width):
    server, ids = world.open
    view = world.view(server, theme=theme, width=width)
    view.open(screens(ids)[screen])
    assert view.page.evaluate("document.documentElement.dataset.theme") == theme
    misplaced = view.page.evaluate(Path(__file__).with_name("misplaced.js").read_text())
    assert not misplaced, "\n".join(misplaced)
    view.axe()
    view.check()
