"""The scenarios. A function whose name begins with a verb in the third person is one; `screens` are looked at in both themes
and two widths."""

import json
import time
from urllib.parse import quote

from seed import Api, batch, receiver, seed
from stage import free_port, monitor, new_key

# Each calls `ran` if anything of it is run as a script, or an alert.
HOSTILE = [
    "<script>ran('script')</script>",
    "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
    "<scr<script>ipt>ran('nested')</scr</script>ipt>",
    "<script\\x20type=module>ran('module')</script>",
    "<script>/*\n*/ran('lines')</script>",
    "<img src=x onerror=ran('img')>",
    "<img src=x onerror=ran('img') //",
    "<IMG \"\"\"><SCRIPT>ran('quotes')</SCRIPT>\">",
    "<img/src/onerror=ran('slashes')>",
    "<svg onload=ran('svg')>",
    "<svg><script>ran('svg script')</script></svg>",
    "<svg><animate onbegin=ran('animate') attributeName=x dur=1s>",
    "<svg><use href='data:image/svg+xml,<svg id=x onload=ran(1)>#x'></svg>",
    "\"><svg/onload=ran('attribute')>",
    "' onmouseover=ran('attribute') x='",
    "\" autofocus onfocus=ran('focus') x=\"",
    "'-ran('quote')-'",
    "\\'-ran('escape')//",
    "javascript:ran('url')",
    "JaVaScRiPt:ran('case')",
    "java\tscript:ran('tab')",
    "javascript://%0aran('comment')",
    "vbscript:msgbox(1)",
    "data:text/html,<script>ran(1)</script>",
    "data:text/html;base64,PHNjcmlwdD5yYW4oMSk8L3NjcmlwdD4=",
    "blob:null/ran",
    "</textarea><script>ran('textarea')</script>",
    "</title><script>ran('title')</script>",
    "</style><script>ran('style')</script>",
    "</script><script>ran('end')</script>",
    "</noscript><script>ran('noscript')</script>",
    "</pre><img src=x onerror=ran('pre')>",
    "{{constructor.constructor('ran(1)')()}}",
    "${ran('template')}",
    "#{ran('ruby')}",
    "<%= ran('erb') %>",
    "`${ran('backtick')}`",
    "<iframe srcdoc='<script>parent.ran(1)</script>'>",
    "<iframe src=javascript:parent.ran('iframe')>",
    "<object data=javascript:ran('object')>",
    "<embed src=javascript:ran('embed')>",
    "<a href='javascript:ran(1)'>click</a>",
    "<form action=javascript:ran('form')><button>send</button></form>",
    "<button formaction=javascript:ran('button')>x</button>",
    "<input autofocus onfocus=ran('input')>",
    "<details open ontoggle=ran('details')>",
    "<video><source onerror=ran('video')></video>",
    "<body onload=ran('body')>",
    "<base href=//evil.example/>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<meta http-equiv=refresh content='0;url=javascript:ran(1)'>",
    "<math><mtext><style><img src=x onerror=ran('mxss')>",
    "<!--><img src=x onerror=ran('comment')>-->",
    "<![CDATA[<script>ran('cdata')</script>]]>",
    "<style>*{background:url(//evil.example/x)}</style>",
    "<x style='animation-name:x' onanimationstart=ran('css')>",
    "&lt;script&gt;ran('entity')&lt;/script&gt;",
    "\\u003cscript\\u003eran('escaped')\\u003c/script\\u003e",
    "%3Cscript%3Eran('percent')%3C/script%3E",
    "__proto__",
    "constructor",
    "toString",
    "a\u202egnp.exe",
    "zero\u200bwidth",
    "\u2066\u2067isolates\u2069",
    "nul\u0001\u001b[31mred",
]


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


def all_of(world):
    """Names and what to call. The views of a theme and width are made once; between screens the page stays."""
    for width in (1440, 390):
        for theme in ("light", "dark"):
            for screen in screens({"exact": "", "/broken": ""}):
                yield f"screen {screen}, {theme}, {width}", lambda s=screen, t=theme, w=width: looks_right(world, s, t, w)
    for name, scenario in list(globals().items()):
        if callable(scenario) and getattr(scenario, "is_scenario", False):
            yield scenario.__name__.replace("_", " "), lambda s=scenario: s(world)


def scenario(function):
    function.is_scenario = True
    return function


def looks_right(world, screen, theme, width):
    server, ids = world.open
    view = world.view(server, theme=theme, width=width)
    view.open(screens(ids)[screen])
    assert view.page.evaluate("document.documentElement.dataset.theme") == theme
    wide = view.page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"{wide} px wider than the window"
    view.axe()
    view.check()


# What people ask.


@scenario
def finds_why_order_42_was_not_called(world):
    view = world.view().open("#/")
    view.page.click("nav a:has-text('Callbacks')")
    view.page.click("[aria-label=State] button:has-text('Delayed')")
    view.page.wait_for_selector("[aria-label='Search delayed messages']")
    view.press("/")
    view.page.keyboard.type("payload.$.order:42")
    view.until("document.querySelectorAll('tbody [data-open]').length === 1")
    view.page.click("tr:has-text('answered 500') [data-open]")
    view.see("Called", "500", "Falls due")
    view.page.click("summary:has-text('Answer')")
    view.see("the card was declined")
    assert view.clicks() <= 5, view.clicks()
    view.check()


@scenario
def redrives_all_timeouts(world):
    server, _ = world.open
    api = Api(server)
    batch(api, "timeouts", [{"payload": number} for number in range(34)])
    api.kill("timeouts", [f"timeout after {number} ms" for number in range(30)] + ["declined"] * 4)
    view = world.view().open("#/")
    view.page.click("nav a:has-text('Dead letters')")
    view.page.click("tr:has-text('timeouts'):has-text('timeout after') button:has-text('Redrive')")
    view.page.click("dialog button:has-text('Redrive 10 first')")
    view.see("10 messages redriven")
    view.page.click("button:has-text('Redrive the other 20')")
    view.page.click("dialog button:has-text('Redrive 20 messages')")
    view.see("20 messages more redriven, due over 10m")
    assert view.clicks() <= 5, view.clicks()
    counts = api("GET", "/topics/timeouts")["counts"]
    assert (counts["dead"], counts["ready"] + counts["delayed"]) == (4, 30), counts
    view.check()


@scenario
def says_when_tonights_peak_is(world):
    view = world.view().open("#/")
    view.page.click("tbody a:has-text('reminders')")
    view.see("in the next day", "peak")
    view.page.click("summary:has-text('Numbers')")
    view.page.locator("[aria-label='What falls due, by an hour'] tbody tr").nth(23).wait_for()
    assert view.page.locator("[aria-label='What falls due, by an hour'] tbody tr").count() == 24
    assert view.clicks() <= 5, view.clicks()
    view.check()


@scenario
def shows_the_messages_of_a_bar(world):
    view = world.view().open("#/topics/reminders")
    view.page.click("summary:has-text('Numbers')")
    bars = view.page.locator("[aria-label='What falls due, by an hour'] tbody tr")
    told = int(bars.nth(1).locator("td").nth(1).inner_text())
    bars.nth(1).locator("button").click()
    view.page.wait_for_selector("main footer:has-text('looked at')")
    assert view.page.locator("tbody [data-row]").count() == min(told, 50)
    view.check()


@scenario
def moves_a_reminder(world):
    server, _ = world.open
    api = Api(server)
    made = api("POST", "/topics/reminders/messages", {"payload": 1, "delay_ms": 86_400_000, "key": "move-me"})
    view = world.view().open("#/")
    view.page.click("tbody a:has-text('reminders')")
    view.page.wait_for_selector("[aria-label='Search delayed messages']")
    view.press("/")
    view.page.keyboard.type("key:move-me")
    view.until("document.querySelectorAll('tbody [data-open]').length === 1")
    view.page.click("tr:has-text('move-me') [data-open]")
    view.page.click("button:has-text('Reschedule')")
    view.page.fill("dialog input", "2h 30m")
    view.page.click("dialog button:has-text('Reschedule')")
    view.see("The message is rescheduled", "in 2h")
    due = api("GET", f"/messages/{made['id']}")["due_at"]
    assert 2.4 < hours_until(due) < 2.6, due
    assert view.clicks() <= 5, view.clicks()
    view.check()


@scenario
def searches_on_until_something_is_found(world):
    server, _ = world.open
    found = Api(server)("GET", "/topics/reminders/messages?state=delayed&limit=1")["items"]
    view = world.view().open("#/topics/reminders")
    # Nothing is asked twice.
    view.press("R")
    pages, asked, held = [], [], []

    def answer(route):
        """So many messages without a hit, page by page; then the one that is found, or nothing any more."""
        asked.append(route.request.url)
        scanned = pages.pop(0) if pages else None
        if scanned is not None:
            route.fulfill(json={"items": [], "scanned": scanned, "next_cursor": f"c{len(asked)}"})
        elif "other" in route.request.url:
            held.append(route)
        else:
            route.fulfill(json={"items": found, "scanned": 1})

    view.page.route(lambda url: "/reminders/messages?" in url and "q=key" in url, answer)
    field = "[aria-label='Search delayed messages']"
    # The first page, and 5,000 messages more.
    pages[:] = [10_000, 3000, 3000, 9000]
    view.page.fill(field, "key:none")
    view.see("Nothing found so far", "Searched 16,000 messages so far.")
    assert len(asked) == 3, asked
    view.axe()
    view.page.click("button:has-text('Search on')")
    view.until("document.querySelectorAll('tbody [data-open]').length === 1")
    assert len(asked) == 5, asked
    pages[:] = [10]
    view.page.fill(field, "key:other")
    view.see("Searching…", "Searched 10 messages so far.")
    view.axe()
    view.page.click("button:has-text('Stop')")
    view.until("!document.body.innerText.includes('Searching…')")
    view.check()
    for route in held:
        route.abort()


@scenario
def stops_a_bad_host(world):
    server, _ = world.open
    api = Api(server)
    bad = receiver()
    host = bad.removeprefix("http://")
    for _ in range(3):
        api("POST", "/callbacks", {"url": f"{bad}/broken", "backoff": {"kind": "fixed", "base_ms": 600_000}})
    view = world.view().open("#/")
    view.page.click("nav a:has-text('Callbacks')")
    row = view.page.locator(f"[aria-label='Hosts'] tr:has-text('{host}')")
    row.locator(":text('answered 500')").wait_for(timeout=30_000)
    row.locator("button:has-text('Pause')").click()
    row.locator(":text('paused')").wait_for()
    assert view.clicks() <= 5, view.clicks()
    assert next(item for item in api("GET", "/callbacks/hosts")["items"] if item["host"] == host)["paused"]
    row.locator("button:has-text('Resume')").click()
    row.locator("button:has-text('Pause')").wait_for()
    view.check()


def hours_until(instant):
    from datetime import datetime, timezone

    return (datetime.fromisoformat(instant.replace("Z", "+00:00")) - datetime.now(timezone.utc)).total_seconds() / 3600


@scenario
def says_what_a_message_waits_for_and_ends_it(world):
    server, _ = world.open
    api = Api(server)
    made = api("POST", "/topics/waits/messages", {"payload": 1, "delay_ms": 86_400_000})
    api("POST", "/topics/waits/pause", {})
    view = world.view().open(f"#/messages/{made['id']}")
    view.see("Its topic is paused.")
    assert view.page.locator("button:has-text('Run now')").count() == 0
    view.page.click(".waits button:has-text('Resume')")
    view.see("waits goes on")
    view.see("It is due")
    view.page.wait_for_selector("button:has-text('Run now')")
    view.check()


@scenario
def runs_a_delayed_message_now(world):
    server, _ = world.open
    api = Api(server)
    made = api("POST", "/topics/runs/messages", {"payload": 1, "delay_ms": 86_400_000})
    view = world.view().open(f"#/messages/{made['id']}")
    view.page.click("button:has-text('Run now')")
    view.see("The message is due now")
    assert api("GET", f"/messages/{made['id']}")["state"] == "ready"
    view.check()


@scenario
def redrives_selected_messages_with_the_keyboard_only(world):
    server, _ = world.open
    api = Api(server)
    topic = f"keyboard-{time.monotonic_ns()}"
    batch(api, topic, [{"payload": number} for number in range(5)])
    api.kill(topic, ["timeout"] * 5)
    view = world.view().open("#/")
    view.press("g", "t")
    view.page.wait_for_selector("h1:has-text('Topics')")
    view.press("/")
    view.page.keyboard.type(topic)
    view.until("document.querySelectorAll('tbody [data-row]').length === 1")
    view.press("Escape", "j", "Enter")
    view.page.wait_for_selector(f"h1:has-text('{topic}')")
    view.settled()
    view.press("j", "x", "j", "x")
    view.see("2 selected")
    # Tab walks the selection's buttons.
    for _ in range(40):
        if view.page.evaluate("document.activeElement?.textContent?.trim()") == "Redrive":
            break
        view.press("Shift+Tab")
    view.press("Enter")
    view.page.wait_for_selector("dialog[open]")
    view.see(f"Redrive: 2 messages of {topic}")
    view.until("document.querySelector('dialog[open]').contains(document.activeElement)")
    for _ in range(6):
        if view.page.evaluate("document.activeElement?.textContent?.trim()") == "Redrive 2 messages":
            break
        view.press("Tab")
    view.press("Enter")
    view.see("2 messages redriven")
    counts = api("GET", f"/topics/{topic}")["counts"]
    assert (counts["ready"], counts["dead"]) == (2, 3), counts
    view.check()


@scenario
def redrives_the_focused_row_with_one_key(world):
    server, _ = world.open
    api = Api(server)
    batch(api, "one-key", [{"payload": 1}])
    api.kill("one-key", ["timeout"])
    view = world.view().open("#/topics/one-key?state=dead")
    view.press("j", "e")
    view.see("1 message redriven")
    assert api("GET", "/topics/one-key")["counts"]["dead"] == 0
    view.check()


@scenario
def redrives_dead_letters_from_their_screen(world):
    server, _ = world.open
    api = Api(server)
    batch(api, "many-dead", [{"payload": number} for number in range(30)])
    api.kill("many-dead", ["out of paper"] * 30)
    view = world.view().open("#/dead?filter=many-dead")
    view.page.click("tr:has-text('many-dead') button:has-text('Redrive')")
    view.page.click("dialog button:has-text('Redrive 10 first')")
    view.see("10 messages redriven", "Redrive the other 20")
    view.page.click("button:has-text('Redrive the other 20')")
    view.page.click("dialog button:has-text('Redrive 20 messages')")
    view.see("20 messages more redriven, due over 10m")
    counts = api("GET", "/topics/many-dead")["counts"]
    assert counts["dead"] == 0 and counts["ready"] >= 10, counts
    view.check()


@scenario
def deletes_selected_messages_after_a_question(world):
    server, _ = world.open
    api = Api(server)
    batch(api, "deletes", [{"payload": number, "delay_ms": 3_600_000} for number in range(4)])
    view = world.view().open("#/topics/deletes")
    boxes = view.page.locator("tbody input[type=checkbox]")
    boxes.nth(0).click()
    boxes.nth(2).click(modifiers=["Shift"])
    view.see("3 selected")
    view.page.click(".selection button:has-text('Delete')")
    view.page.click("dialog button:has-text('Delete 3 messages')")
    view.see("3 messages deleted")
    assert api("GET", "/topics/deletes")["counts"]["delayed"] == 1
    view.check()


@scenario
def purges_only_what_was_typed(world):
    server, _ = world.open
    api = Api(server)
    batch(api, "purges", [{"payload": number} for number in range(3)])
    view = world.view().open("#/topics/purges")
    view.page.click("[aria-label='More actions'][data-menu]")
    view.page.click(".popover:popover-open button:has-text('Purge')")
    view.page.wait_for_selector("dialog[open] button[type=submit]")
    view.page.click("dialog button[type=submit]", force=True)
    assert api("GET", "/topics/purges")["counts"]["ready"] == 3, "the name was not typed"
    view.page.fill("dialog input", "purges")
    view.page.click("dialog button[type=submit]")
    view.see("3 messages of purges deleted")
    assert api("GET", "/topics/purges")["counts"]["ready"] == 0
    view.check()


@scenario
def pauses_and_resumes_a_topic_from_the_overview(world):
    server, _ = world.open
    api = Api(server)
    api("POST", "/topics/pauses/messages", {"payload": 1})
    view = world.view().open("#/?filter=pauses")
    for label, expected in (("Pause", True), ("Resume", False)):
        view.page.click("[aria-label='Actions for pauses']")
        view.page.click(f".popover:popover-open button:has-text('{label}')")
        view.until("(paused) => Boolean(document.querySelector('tbody .badge.warn')) === paused", expected)
        assert api("GET", "/topics/pauses")["paused"] is expected
    view.check()


@scenario
def shows_who_waits_in_groups_and_pauses_one(world):
    server, _ = world.open
    api = Api(server)
    api("PUT", "/topics/tenants", {"group_order": "fair"})
    batch(api, "tenants", [{"payload": 1, "group": group} for group in ["busy"] * 12 + ["quiet"]])
    batch(api, "tenants", [{"payload": 1, "group": "later", "delay_ms": 3_600_000}])
    api("PUT", "/topics/tenants/groups/busy", {"concurrency": 2, "rate_per_s": 0.5, "weight": 3})
    view = world.view().open("#/topics/tenants?view=groups")

    def row(group):
        return view.page.locator(f"tbody tr:has(th:text-is('{group}'))").inner_text().split("\t")

    view.see("2 at a time, 0.5/s, weight 3")
    assert row("busy")[1:4] == ["0", "12", "0"], row("busy")
    assert row("later")[1:4] == ["0", "1", "0"] and row("later")[4].startswith("in 59m"), row("later")
    time.sleep(1.1)
    view.until("[...document.querySelectorAll('tbody tr')].every((row) => !row.innerText.includes('quiet') || / s\\b/.test(row.innerText))")
    for label, expected in (("Pause", True), ("Resume", False)):
        view.page.click(f"[aria-label='{label} quiet']")
        view.until("(paused) => Boolean(document.querySelector('tbody .badge.warn')) === paused", expected)
        assert api("GET", "/topics/tenants/groups/quiet")["paused"] is expected
    view.check()


@scenario
def changes_settings_after_showing_the_difference(world):
    server, _ = world.open
    api = Api(server)
    api("PUT", "/topics/settings", {"max_attempts": 4})
    view = world.view().open("#/topics/settings?view=settings")
    view.page.get_by_label("Attempts", exact=False).first.fill("7")
    view.page.click("button:has-text('Review 1 change')")
    assert view.page.locator("dialog[open] .diff tbody tr").inner_text().split() == ["max_attempts", "4", "7"]
    view.page.click("dialog button:has-text('Save 1 change')")
    view.see("The settings of settings are saved")
    # The form begins anew with what was saved.
    view.until("(revision) => document.body.innerText.includes(`revision ${revision}`)", api("GET", "/topics/settings")["revision"])
    view.page.get_by_label("What it gets", exact=False).select_option("raw")
    view.page.click("button:has-text('Review 1 change')")
    assert view.page.locator("dialog[open] .diff tbody tr").inner_text().split() == ["dead_form", "letter", "raw"]
    view.page.click("dialog button:has-text('Save 1 change')")
    view.until("document.querySelector('dialog') === null")
    config = api("GET", "/topics/settings")["config"]
    assert (config["max_attempts"], config["dead_form"]) == (7, "raw"), config
    view.check()


@scenario
def refuses_settings_that_somebody_else_changed(world):
    server, _ = world.open
    api = Api(server)
    api("PUT", "/topics/races", {"max_attempts": 4})
    view = world.view().open("#/topics/races?view=settings")
    view.press("R")
    view.page.get_by_label("Attempts", exact=False).first.fill("7")
    api("PATCH", "/topics/races", {"max_attempts": 5})
    view.page.click("button:has-text('Review 1 change')")
    view.page.click("dialog button:has-text('Save 1 change')")
    view.see("The settings were changed meanwhile")
    assert api("GET", "/topics/races")["config"]["max_attempts"] == 5
    view.check()


@scenario
def publishes_what_the_curl_line_says(world):
    server, _ = world.open
    view = world.view().open("#/publish?topic=by-hand")
    view.page.locator("textarea").first.fill('{"order": 9007199254740993, "order": "it\'s"}')
    view.page.get_by_role("textbox", name="Delay").fill("1h")
    view.page.get_by_role("textbox", name="Key").fill("order/7")
    view.see("--json '{\"payload\": {\"order\": 9007199254740993, \"order\": \"it'\\''s\"}, \"delay_ms\": 3600000, \"key\": \"order/7\"}'")
    for language, line in {
        "Python": "client.publish(\"by-hand\", {\"order\": 9007199254740993, \"order\": \"it's\"}, delay=3600, key=\"order/7\")",
        "TypeScript": "delayMs: 3600000, key: \"order/7\" });",
        "Go": "dueq.Delay(3600000 * time.Millisecond), dueq.Key(\"order/7\"))",
    }.items():
        view.page.click(f"[aria-label=Language] button:has-text('{language}')")
        view.see(line)
    view.page.click("button:has-text('Publish')")
    view.see("Published:")
    view.page.click(".result a")
    view.see("by-hand", "order/7")
    view.page.click("button:has-text('Raw')")
    view.see('{"order": 9007199254740993, "order": "it\'s"}')
    view.check()


@scenario
def refuses_to_publish_what_is_not_json(world):
    view = world.view().open("#/publish?topic=by-hand")
    view.page.locator("textarea").first.fill("{order: 1}")
    assert view.page.locator("button[type=submit]").get_attribute("aria-disabled") == "true"
    view.check()


@scenario
def shows_payloads_byte_for_byte(world):
    server, ids = world.open
    view = world.view().open(f"#/messages/{ids['exact']}")
    view.see("9007199254740993", "1E400")
    assert view.page.locator(".tree .leaf:has-text('\"twice\"')").count() == 2
    view.page.click("button:has-text('Raw')")
    raw = view.page.locator("[aria-label='Payload as text']").inner_text()
    assert '"big": 9007199254740993, "huge": 1E400, "twice": 1, "twice": 2, "note": "a \\u0000 b"' in raw, raw
    view.page.click("button:has-text('Hex')")
    view.see("7b 22 6f 72 64 65 72 22")
    view.check()


@scenario
def shows_binary_payloads_in_hexadecimal(world):
    import base64

    server, _ = world.open
    data = base64.b64encode(bytes(range(256)) * 64).decode()
    made = Api(server)("POST", "/topics/binary/messages", {"payload_base64": data, "content_type": "image/png"})
    view = world.view().open(f"#/messages/{made['id']}")
    view.see("image/png", "16.0 KiB", "000000  00 01 02 03")
    view.check()


@scenario
def shows_a_payload_of_a_megabyte(world):
    server, _ = world.open
    api = Api(server)
    api("PUT", "/topics/large", {"max_payload_bytes": 1_048_576})
    payload = {"rows": [{"n": number, "text": "x" * 80} for number in range(9000)]}
    made = api("POST", "/topics/large/messages", {"payload": payload})
    view = world.view().open(f"#/messages/{made['id']}")
    view.see("9,000 items", "Show more of 9000")
    view.page.click("button:has-text('Raw')")
    view.page.click("button:has-text('Show all')")
    assert view.page.locator("[aria-label='Payload as text']").text_content() == json.dumps(payload)
    view.check()


@scenario
def exports_every_message_as_it_was_published(world):
    server, _ = world.open
    api = Api(server)
    for number in range(3):
        api("POST", "/topics/exports/messages", raw=b'{"payload": {"big":\n 9007199254740993}, "delay_ms": 3600000}')
    view = world.view().open("#/topics/exports")
    with view.page.expect_download() as download:
        view.page.click("[aria-label='Actions on the list']")
        view.page.click(".popover:popover-open button:has-text('Export NDJSON')")
    lines = open(download.value.path()).read().splitlines()
    assert len(lines) == 3 and all("9007199254740993" in line and json.loads(line)["topic"] == "exports" for line in lines), lines
    view.check()


@scenario
def makes_edits_and_deletes_a_schedule(world):
    server, _ = world.open
    api = Api(server)
    view = world.view().open("#/schedules/%2B")
    view.page.get_by_label("Name", exact=True).fill("made-here")
    view.page.get_by_label("Topic", exact=True).fill("ticks")
    view.page.get_by_label("Cron", exact=False).last.fill("*/15 8-18 * * MON-FRI")
    view.see("Every 15 minutes from 08:00 to 18:59 on Monday to Friday in UTC")
    assert view.page.locator(".ticks li").count() == 5
    view.page.click("button:has-text('Save')")
    view.page.wait_for_selector("h1:has-text('made-here')")
    assert api("GET", "/schedules/made-here")["cron"] == "*/15 8-18 * * MON-FRI"
    view.page.click("button:has-text('Run now')")
    view.see("made-here published its message")
    view.page.click("button:has-text('Edit')")
    view.page.locator("textarea").last.fill('{"payload": {"big": 9007199254740993}}')
    view.page.click("button:has-text('Save')")
    view.see("made-here is saved")
    view.page.click("[aria-label='Delete the schedule']")
    view.page.fill("dialog input", "made-here")
    view.press("Enter")
    view.page.wait_for_selector("h1:has-text('Schedules')")
    assert "made-here" not in [item["name"] for item in api("GET", "/schedules")["items"]]
    view.check()


@scenario
def lists_ticks_that_published_nothing(world):
    server, _ = world.open
    api = Api(server)
    api("PUT", "/topics/full", {"max_messages": 1})
    api("POST", "/topics/full/messages", {"payload": 1})
    api("PUT", "/schedules/often", {"every_ms": 1000, "topic": "full", "message": {"payload": 1}})
    view = world.view().open("#/schedules/often")
    view.see("Ticks that published nothing")
    view.page.wait_for_selector(".card:has-text('Refused, or missed') .ticks li")
    api("POST", "/schedules/often/pause")
    missed = api("GET", "/schedules/often")["missed_ticks"]
    view.until("(many) => document.querySelectorAll('.ticks li').length === many", len(missed))
    view.axe()
    view.open("#/schedules")
    view.page.wait_for_selector(f"tr:has-text('often') .badge:has-text('{len(missed)} missed')")
    api("DELETE", "/schedules/often")
    view.check()


@scenario
def tells_how_each_instance_is(world):
    view = world.view().open("#/instances")
    row = view.page.locator("[aria-label=Instances] tbody tr")
    lanes, waiters, memory, clock = row.locator("td").all_inner_texts()[2:6]
    assert (lanes, waiters) == ("2", "0") and memory.endswith("MiB") and clock.endswith("ms"), (lanes, waiters, memory, clock)
    view.see("There are no keys")
    view.check()


@scenario
def tells_the_same_ticks_as_the_server(world):
    server, _ = world.open
    api = Api(server)
    view = world.view()
    view.open("#/schedules/%2B")
    for cron, zone in [
        ("*/7 * * * *", "UTC"),
        ("30 2 * * *", "Europe/Berlin"),
        ("0 9 1,15 * MON", "America/New_York"),
        ("15 4 29 2 *", "Asia/Kolkata"),
        ("5 0 0 * JAN SUN", "Pacific/Auckland"),
        ("0 9 * * MON#1", "America/Vancouver"),
        ("30 23 L * *", "America/Nuuk"),
    ]:
        view.page.get_by_label("Cron", exact=False).last.fill(cron)
        view.page.get_by_label("Time zone", exact=True).fill(zone)
        expected = api("PUT", "/schedules/compare", {"cron": cron, "timezone": zone, "topic": "ticks", "message": {"payload": 1}})["next_at"]
        told = view.page.evaluate(
            """([instant, timeZone]) => [new Intl.DateTimeFormat("en-CA", {timeZone, year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", hourCycle: "h23"}).format(new Date(instant)).replace(", ", " ")]""",
            [expected, zone],
        )[0]
        view.page.wait_for_selector(f".ticks li:first-child b:has-text('{told}')")
    api("DELETE", "/schedules/compare")
    for label, text in [("Cron", "0 25 * * *"), ("Time zone", "Europe/Nowhere")]:
        view.page.get_by_label(label, exact=False).last.fill(text)
        reason = view.page.locator(".field .error").last
        reason.wait_for()
        field = label.lower().replace(" ", "")
        body = {"topic": "ticks", "message": {"payload": 1}, "cron": "0 9 * * *", field: text}
        try:
            refused = api("PUT", "/schedules/compare", body)
        except AssertionError as error:
            refused = str(error)
        assert f'"reason":{json.dumps(reason.inner_text())}' in refused, (refused, reason.inner_text())
        view.page.get_by_label("Cron", exact=False).last.fill("0 9 * * *")
        view.page.get_by_label("Time zone", exact=False).last.fill("UTC")
        view.page.wait_for_selector(".field .error", state="detached")
    view.check()


@scenario
def duplicates_a_message(world):
    _, ids = world.open
    view = world.view().open(f"#/messages/{ids['exact']}")
    view.until("document.querySelector('.tree')")
    view.page.click("[aria-label='More actions'][data-menu]")
    view.page.click(".popover:popover-open button:has-text('Duplicate')")
    view.page.wait_for_selector("h1:has-text('Publish')")
    assert "9007199254740993" in view.page.locator("textarea").first.input_value()
    view.check()


@scenario
def mends_and_redrives_a_dead_message(world):
    server, _ = world.open
    api = Api(server)
    api("POST", "/topics/mends/messages", {"payload": {"a": 1}})
    dead = api.kill("mends", ["KeyError: 'tenant'"])[0]
    view = world.view().open(f"#/messages/{dead}")
    view.see("KeyError: 'tenant'", "Last error")
    view.until("document.querySelector('.tree')")
    view.page.click("[aria-label='More actions'][data-menu]")
    view.page.click(".popover:popover-open button:has-text('Edit')")
    view.page.fill("dialog textarea", '{"a": 1, "tenant": 42}')
    view.page.click("dialog button:has-text('Save and redrive')")
    view.see("The message is mended and redriven")
    message = api("GET", f"/messages/{dead}")
    assert (message["state"], message["payload"]) == ("ready", {"a": 1, "tenant": 42})
    view.check()


# How it behaves.


@scenario
def keeps_focus_and_scroll_while_it_refreshes(world):
    view = world.view(height=500).open("#/topics/orders?state=dead")
    view.press("j", "j", "j")
    before = view.page.evaluate("document.activeElement.closest('tr').textContent.slice(0, 20)")
    view.page.evaluate("scrollTo(0, 300)")
    view.page.wait_for_timeout(4500)
    assert view.page.evaluate("document.activeElement.closest('tr')?.textContent.slice(0, 20)") == before
    assert view.page.evaluate("scrollY") == 300
    view.check()


@scenario
def asks_nothing_while_it_is_stopped(world):
    view = world.view().open("#/")
    view.press("R")
    view.see("Refreshing is stopped")
    asked = []
    view.page.on("request", lambda request: asked.append(request.url))
    view.page.wait_for_timeout(3000)
    assert not asked, asked
    view.press("R")
    view.until("!document.querySelector('.banner.quiet')")
    view.page.wait_for_timeout(500)
    assert asked
    view.check()


@scenario
def shows_new_messages_without_a_reload(world):
    server, _ = world.open
    view = world.view().open("#/?filter=appears")
    Api(server)("POST", "/topics/appears/messages", {"payload": 1})
    view.page.wait_for_selector("tbody [data-open]:has-text('appears')")
    view.check()


@scenario
def switches_theme_and_remembers_it(world):
    view = world.view().open("#/")
    view.press("t")
    view.until("document.documentElement.dataset.theme === 'dark'")
    view.page.reload()
    view.page.wait_for_selector("main h1")
    view.until("document.documentElement.dataset.theme === 'dark'")
    view.check()


@scenario
def goes_everywhere_by_keyboard(world):
    view = world.view().open("#/")
    for key, title in {"t": "Topics", "d": "Dead letters", "c": "Callbacks", "s": "Schedules", "p": "Publish", "i": "Instances", "o": "Overview"}.items():
        view.press("g", key)
        view.page.wait_for_selector(f"h1:has-text('{title}')")
    view.press("?")
    view.page.wait_for_selector("dialog[open] h2:has-text('Keyboard')")
    view.axe()
    view.press("Escape")
    view.until("!document.querySelector('dialog')")
    view.check()


@scenario
def opens_row_actions_by_keyboard(world):
    view = world.view().open("#/?filter=emails")
    view.press("j", ".")
    view.page.wait_for_selector(".popover:popover-open")
    view.until("document.activeElement.closest('.popover') !== null")
    view.axe()
    view.press("Escape")
    view.until("!document.querySelector('.popover:popover-open')")
    view.check()


@scenario
def keeps_its_state_in_the_link(world):
    view = world.view().open("#/?filter=ema&sort=dead")
    assert view.page.locator("tbody [data-row]").count() == 1
    assert view.page.locator("select").first.input_value() == "dead"
    view.check()


@scenario
def says_what_is_not_there(world):
    view = world.view()
    for place, text in {
        "#/topics/nowhere": "This topic does not exist",
        "#/messages/01a214d5-049e-8000-8003-0000001fffff": "This message is not there",
        "#/schedules/nowhere": "This schedule does not exist",
        "#/nonsense": "There is no such page",
        "#/topics/%E0%A4%A": "topic",
    }.items():
        view.open(place, wait="main")
        view.see(text)
    view.check()


@scenario
def helps_where_nothing_is_yet(world):
    server = world.stage.dueq()
    view = world.view(server)
    for place, text in {"#/": "No topics yet", "#/dead": "Nothing is dead", "#/schedules": "No schedules yet", "#/callbacks": "No callbacks yet"}.items():
        view.open(place)
        view.see(text)
        view.axe()
    view.check()


# What attackers and accidents do.


@scenario
def runs_nothing_of_hostile_strings(world):
    server, _ = world.open
    api = Api(server)
    batch(api, "hostile", [{"payload": text, "key": text, "group": text} for text in HOSTILE])
    api.kill("hostile", HOSTILE)
    called = []
    for number, text in enumerate(HOSTILE):
        fields = {"payload": {text: text, "list": [text]}, "key": text, "headers": {"x-hostile": printable(text)}}
        # Of a URL only what may stand in one.
        query = quote(text, safe="'()*!;:@&=+$,/?").replace("%", "%25" if number % 2 else "%")
        url = f"{world.target}/say/{text.encode().hex()}?{query}"
        called.append(api("POST", "/callbacks", {"url": url, "max_attempts": 1, **fields})["id"])
        api("PUT", f"/schedules/hostile-{number}", {"every_ms": 3_600_000, "callback": {"url": url}, "message": fields})
    ends = time.monotonic() + 30
    while any("answer" not in json.dumps(api("GET", f"/messages/{id}")["events"]) for id in called):
        assert time.monotonic() < ends, "not all were called"
        time.sleep(0.2)
    view = world.view()
    for place in ["#/topics/hostile?state=dead", "#/topics/hostile", "#/topics/hostile?view=groups", "#/dead", "#/schedules", "#/callbacks?state=dead"]:
        view.open(place)
    for number, id in enumerate(called):
        # The answer lies in a closed part.
        view.open(f"#/messages/{id}", wait=".timeline pre", still=False, state="attached")
        view.page.wait_for_selector(".tree")
        view.page.evaluate("() => document.querySelectorAll('[aria-label=\"Payload as\"] button')[1].click()")
        if number % 3 == 0:
            view.open(f"#/schedules/hostile-{number}", wait="pre", still=False)
    view.check()
    for number in range(len(HOSTILE)):
        api("DELETE", f"/schedules/hostile-{number}")


@scenario
def runs_nothing_of_hostile_links(world):
    view = world.view()
    places = ["#/topics/orders?q=", "#/dead?filter=", "#/topics/", "#/schedules/", "#/", "#/messages/", "#/?filter="]
    for number, text in enumerate(HOSTILE):
        for place in places[number % 3 :: 3]:
            view.open(place + quote(text, safe=""), wait="main", still=False)
    view.check()


def printable(text):
    return "".join(character for character in text if 32 <= ord(character) < 127)


@scenario
def marks_characters_that_would_hide_or_turn_text(world):
    server, _ = world.open
    api = Api(server)
    made = api("POST", "/topics/marks/messages", raw='{"payload": "a\u202eb", "key": "k\u2066\u200b"}'.encode())
    view = world.view().open(f"#/messages/{made['id']}")
    view.see("U+202E", "U+2066", "U+200B")
    assert "\u202e" not in view.page.locator("main").inner_text()
    view.check()


@scenario
def logs_in_and_out_and_keeps_no_key(world):
    server, admin, _ = world.keyed
    view = world.view(server)
    view.open(wait="#log-in input")
    view.axe()
    view.page.fill("#log-in input", "not-the-key-at-all")
    view.press("Enter")
    view.page.wait_for_selector("#log-in [role=alert]")
    view.page.fill("#log-in input", admin)
    view.press("Enter")
    view.page.wait_for_selector("nav")
    view.see("ada", "orders")
    kept = view.page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href, document.documentElement.outerHTML])")
    assert admin not in kept
    cookie = next(cookie for cookie in view.context.cookies() if "dueq_session" in cookie["name"])
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict" and cookie["path"] == "/dueq", cookie
    view.page.click("[aria-label='Log out']")
    view.page.wait_for_selector("#log-in")
    view.page.reload()
    view.page.wait_for_selector("#log-in")
    view.check()


@scenario
def lists_keys_without_their_secrets(world):
    server, admin, reader = world.keyed
    view = world.logged_in(admin).open("#/instances")
    rows = view.page.locator("[aria-label=Keys] tbody tr")
    assert [text.split() for text in rows.all_inner_texts()] == [["ada", "you", "admin", "–"], ["rita", "read:*", "–"]]
    page = view.page.content()
    assert "sha256" not in page and admin not in page and reader not in page
    view.axe()
    view.check()
    view = world.logged_in(reader).open("#/instances")
    view.see("Keys are not available", "lacks admin")
    view.axe()
    view.check()


@scenario
def names_the_key_that_published_a_callback(world):
    server, admin, reader = world.keyed
    made = Api(server, admin)("POST", "/callbacks", {"url": "http://127.0.0.1:9/late", "delay_ms": 3_600_000})
    view = world.logged_in(reader).open(f"#/messages/{made['id']}")
    fact = view.page.locator("dl.facts > div", has_text="Published by")
    assert fact.locator("dd").inner_text() == "ada"
    view.axe()
    view.check()
    # Of other messages that is not kept.
    message = Api(server, admin)("GET", "/topics/orders/messages?state=dead&limit=1")["items"][0]
    view = world.logged_in(reader).open(f"#/messages/{message['id']}")
    view.see("Published")
    assert view.page.get_by_text("Published by").count() == 0
    view.check()


@scenario
def shows_sizes_where_payloads_are_hidden(world):
    server, admin, _ = world.keyed
    api = Api(server, admin)
    delayed = api("GET", "/topics/orders/messages?state=delayed&payload=true")["items"][0]
    assert delayed["payload"] == {"order": 9}, "the API shows it"
    view = world.logged_in(admin).open(f"#/messages/{delayed['id']}")
    view.see("application/json · 12 bytes", "Payloads are hidden")
    assert '"order"' not in view.page.content()
    view.page.click("[aria-label='More actions'][data-menu]")
    for action in ("Edit…", "Duplicate…", "As curl…"):
        assert view.page.locator(f".popover button:has-text('{action}')").get_attribute("aria-disabled") == "true", action
    view.press("Escape")
    view.axe()
    view.open("#/schedules/daily").see("hidden, about 1 byte")
    assert view.page.locator("main button:has-text('Edit')").get_attribute("aria-disabled") == "true"
    view.open("#/topics/orders?state=delayed")
    with view.page.expect_download() as download:
        view.page.click("[aria-label='Actions on the list']")
        view.page.click(".popover:popover-open button:has-text('Export NDJSON')")
    lines = open(download.value.path()).read().splitlines()
    assert len(lines) == 1 and "payload" not in json.loads(lines[0]), lines
    view.check()


@scenario
def goes_to_the_login_when_the_session_ends(world):
    _, admin, _ = world.keyed
    view = world.logged_in(admin)
    view.context.clear_cookies()
    view.page.wait_for_selector("#log-in")
    view.check()


@scenario
def works_below_a_base_path(world):
    _, admin, _ = world.keyed
    view = world.logged_in(admin)
    asked = []
    view.page.on("request", lambda request: asked.append(request.url))
    for place in ("#/topics/orders", "#/dead", "#/callbacks", "#/schedules", "#/instances"):
        view.open(place)
    view.page.wait_for_timeout(2500)
    assert asked and all("/dueq/" in url for url in asked), asked
    view.check()


@scenario
def lets_a_reader_do_nothing_and_says_why(world):
    server, admin, reader = world.keyed
    view = world.logged_in(reader)
    view.see("This key may only read")
    api = Api(server, admin)
    dead = api("GET", "/topics/orders/messages?state=dead")["items"][0]["id"]
    delayed = api("GET", "/topics/orders/messages?state=delayed")["items"][0]["id"]
    verbs = "Redrive|Run now|Reschedule|Pause|Resume|Delete|Purge|Save|Edit|Duplicate|Publish$"
    for place in (f"#/messages/{dead}", f"#/messages/{delayed}", "#/topics/orders?state=dead", "#/dead", "#/schedules/daily", "#/publish?topic=orders", "#/topics"):
        view.open(place)
        view.press("j", "e")
        enabled = view.page.evaluate(
            """(verbs) => [...document.querySelectorAll('main button:not([aria-disabled=true])')]
                .map((button) => (button.textContent.trim() || button.title)).filter((text) => new RegExp(`^(${verbs})`).test(text))""",
            verbs,
        )
        assert not enabled, (place, enabled)
        assert view.page.locator("main [aria-disabled=true]").count() > 0, place
    view.axe()
    view.check()
    titles = view.open(f"#/messages/{dead}").page.locator("main button[aria-disabled=true]").first.get_attribute("title")
    assert "operate:orders" in titles, titles
    assert api("GET", "/topics/orders")["counts"]["dead"] == 3
    status = view.page.evaluate("fetch('../dueq/messages/%s/redrive', {method: 'POST', headers: {'dueq-ui': '1'}}).then((answer) => answer.status)" % dead)
    assert status == 403, status


@scenario
def tells_that_redis_is_gone_and_recovers_by_itself(world):
    port = free_port()
    redis = world.stage.redis(port)
    server = world.stage.dueq("--redis-url", f"redis://127.0.0.1:{port}")
    api = Api(server)
    api("POST", "/topics/survives/messages", {"payload": 1})
    view = world.view(server).open("#/")
    redis.stop()
    view.page.wait_for_selector(".banner.bad:has-text('Redis cannot be used'):has-text('The numbers are as of')")
    view.see("survives")
    view.axe()
    world.stage.redis(port)
    view.until("!document.querySelector('.banner.bad')")
    # That Redis kept nothing.
    view.see("No topics yet")
    api("POST", "/topics/again/messages", {"payload": 1})
    view.see("again")
    view.check()


@scenario
def tells_that_the_server_is_gone(world):
    server = world.stage.dueq()
    view = world.view(server).open("#/")
    world.stage.processes[-1].stop()
    view.page.wait_for_selector(".banner.bad:has-text('does not answer')")
    view.check()


@scenario
def draws_a_thousand_topics_quickly(world):
    server = world.stage.dueq()
    api = Api(server)
    for number in range(1000):
        api("POST", f"/topics/t{number:04}/messages", {"payload": 1})
    view = world.view(server)
    # The assets and the connection are there, as for whoever looks a second time.
    view.open("#/instances")
    began = time.monotonic()
    view.page.evaluate("location.hash = '#/topics'")
    view.page.wait_for_selector("tbody [data-row]")
    # The machine of the tests does other things besides: a good browser alone needs a fifth.
    assert time.monotonic() - began < 5
    view.press("R", "/")
    # From the key to the drawn frame, without the pause that waits for the end of typing.
    took = view.page.evaluate(
        """() => new Promise((done) => {
            const table = document.querySelector('tbody');
            const began = performance.now();
            document.querySelector('select').value = 'ready';
            document.querySelector('select').dispatchEvent(new Event('change', {bubbles: true}));
            requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
        })"""
    )
    assert took < 500, f"{took} ms"
    view.page.keyboard.type("t0999")
    view.until("document.querySelectorAll('tbody [data-row]').length === 1")
    view.check()


@scenario
def ten_tabs_ask_redis_little(world):
    port = free_port()
    world.stage.redis(port)
    server = world.stage.dueq("--redis-url", f"redis://127.0.0.1:{port}")
    seed(Api(server), receiver())
    places = ["#/", "#/", "#/topics", "#/topics/orders?state=dead", "#/topics/orders?view=charts", "#/topics/reminders", "#/dead", "#/callbacks", "#/schedules", "#/instances"]
    views = [world.view(server).open(place) for place in places]
    views[0].page.wait_for_timeout(1500)
    # Commands that dueq sends, not those within its scripts.
    with monitor(port) as commands:
        views[0].page.wait_for_timeout(6000)
        rate = commands() / 6
    assert 1 < rate <= 100, f"{rate} commands a second"
    for view in views:
        view.check()


@scenario
def a_second_look_is_304(world):
    view = world.view().open("#/topics/orders?state=dead")
    statuses = []
    view.page.on("response", lambda answer: statuses.append(answer.status))
    view.page.wait_for_timeout(4500)
    assert statuses.count(304) >= 2, statuses
    assert set(statuses) <= {200, 304}, statuses
    view.check()


@scenario
def works_behind_nginx_below_a_path(world):
    port = free_port()
    inner = world.stage.dueq("--public-url", f"http://127.0.0.1:{port}/dueq", "--allow-host", "127.0.0.1")
    server = world.stage.nginx(port, inner)
    api = Api(server)
    batch(api, "proxied", [{"payload": number} for number in range(3)])
    view = world.view(server)
    asked = []
    view.page.on("request", lambda request: asked.append(request.url))
    for place in ("#/", "#/topics/proxied", "#/dead", "#/callbacks", "#/schedules", "#/instances"):
        view.open(place)
    view.open("#/topics/proxied").see("proxied", "3")
    view.page.click("main a:has-text('Publish')")
    view.page.locator("textarea").first.fill("1")
    view.page.click("button[type=submit]")
    view.see("Published:")
    assert api("GET", "/topics/proxied")["counts"]["ready"] == 4
    assert all(url.startswith(f"{server}/") for url in asked), asked
    view.check()
