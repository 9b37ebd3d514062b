"""The guide's pictures: each screen of the dashboard over the seeded dueq, some minutes of traffic after."""

import time

from PIL import Image

from seed import Api, batch, receiver

SIZE = {"width": 1200, "height": 760}
#: Screens in dark, to show that too.
DARK = ("message", "callbacks")


def make(stage, directory):
    from world import World

    world = World(stage)
    server, ids = world.open
    api, ill = Api(server), receiver()
    for number in range(7):
        api("POST", "/callbacks", {"url": f"{ill}/broken", "payload": {"order": 100 + number}, "backoff": {"kind": "fixed", "base_ms": 900_000}})
    traffic(api)
    directory.mkdir(parents=True, exist_ok=True)
    screens = {
        "overview": "#/",
        "topic": "#/topics/reminders",
        "message": f"#/messages/{ids['/broken']}",
        "dead": "#/dead",
        "callbacks": "#/callbacks?state=delayed",
        "schedules": "#/schedules",
        "publish": "#/publish?topic=orders",
        "instances": "#/instances",
    }
    for name, place in screens.items():
        view = world.view(server, theme="dark" if name in DARK else "light", width=SIZE["width"], height=SIZE["height"])
        view.open(place)
        view.page.wait_for_timeout(3000)
        shot = stage.dir / f"{name}.png"
        view.page.screenshot(path=str(shot))
        # Flat colours: a palette that is fitted to them loses nothing that can be seen, and is less than half the size.
        palette = Image.open(shot).convert("RGB").quantize(256, kmeans=2, dither=Image.Dither.NONE)
        palette.save(directory / f"{name}.png", optimize=True)
        view.close()


def traffic(api):
    """Minutes in which the charts get their lines: messages that are published, leased and acknowledged in waves."""
    ends = time.monotonic() + 240
    beat = 0
    while time.monotonic() < ends:
        beat += 1
        number = 3 + (beat * beat * 7) % 11
        batch(api, "emails", [{"payload": {"to": f"user{index}@example.com"}, "delay_ms": (index * 37) % 300} for index in range(number)])
        for message in api.lease("emails", 100):
            api("POST", f"/messages/{message['id']}/ack", {"lease_token": message["lease_token"]})
        time.sleep(0.3)
