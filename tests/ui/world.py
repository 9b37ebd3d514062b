"""What scenarios happen in: servers with and without keys, and the pages that are open."""

import time

from seed import Api, batch, receiver, seed
from stage import new_key


class World:
    """The servers, each started when a scenario first wants it, and the pages that are open."""

    def __init__(self, stage):
        self.stage = stage
        self.views = []
        self._open = None
        self._keyed = None

    @property
    def open(self):
        """A seeded dueq without keys: its URL and ids to look at."""
        if self._open is None:
            server = self.stage.dueq()
            self.target = receiver()
            self._open = server, seed(Api(server), self.target)
            time.sleep(1)
        return self._open

    @property
    def keyed(self):
        """A dueq with keys below a base path, whose dashboard shows no payloads: its URL, an admin's key and a reader's."""
        if self._keyed is None:
            admin, first = new_key(self.stage.binary, "ada", "admin")
            reader, second = new_key(self.stage.binary, "rita", "read:*")
            path = self.stage.dir / "keys"
            path.write_text(f"{first}\n{second}\n")
            path.chmod(0o600)
            server = self.stage.dueq("--api-key-file", str(path), "--ui-hide-payloads", base="/dueq")
            api = Api(server, admin)
            batch(api, "orders", [{"payload": {"order": number}} for number in range(8)])
            api.kill("orders", ["timeout"] * 3)
            batch(api, "orders", [{"payload": {"order": 9}, "delay_ms": 3_600_000}])
            api("PUT", "/schedules/daily", {"cron": "0 9 * * *", "topic": "reports", "message": {"payload": 1}})
            self._keyed = server, admin, reader
        return self._keyed

    def view(self, server=None, **how):
        view = self.stage.view(server or self.open[0], **how)
        self.views.append(view)
        return view

    def logged_in(self, key, **how):
        view = self.view(self.keyed[0], **how)
        view.open(wait="#log-in input")
        view.page.fill("#log-in input", key)
        view.press("Enter")
        view.page.wait_for_selector("nav")
        return view

    def close_views(self):
        for view in self.views:
            view.close()
        self.views = []

    def shown(self):
        """The text of the page that was open last."""
        return [view.page.evaluate("document.body.innerText") for view in self.views[-1:]]

    def shoot(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        for view in self.views[-1:]:
            view.page.screenshot(path=str(path))
