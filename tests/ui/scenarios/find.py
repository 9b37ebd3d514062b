"""Scenarios of a person who looks for something: a message, a time, a reason."""

import socket
import time

from seed import Api, batch


def finds_why_order_42_was_not_called(world):
    view = world.view().open("#/")
    view.page.click("nav a:has-text('Callbacks')")
    view.page.click("[aria-label=State] button:has-text('Delayed')")
    view.page.wait_for_selector("[aria-label='Search delayed messages']")
    view.press("f")
    view.page.keyboard.type("payload.$.order:42")
    view.until("document.querySelectorAll('tbody [data-open]').length === 1")
    view.page.click("tr:has-text('answered 500') [data-open]")
    view.see("Called", "500", "Falls due")
    view.page.click("summary:has-text('Answer')")
    view.see("the card was declined")
    assert view.clicks() <= 5, view.clicks()
    view.check()


def jumps_to_anything_with_the_keyboard_only(world):
    server, ids = world.open
    host = world.target.removeprefix("http://")
    for topic in ("jumps-one", "jumps-two"):
        batch(Api(server), topic, [{"payload": 1}])
    view = world.view().open("#/publish")
    # A key that is typed into a field is typed; ctrl-K is none.
    view.page.locator("textarea").first.fill("")
    view.page.keyboard.type("/")
    assert view.page.locator("textarea").first.input_value() == "/" and view.page.locator("dialog").count() == 0
    view.press("Control+k")
    view.page.wait_for_selector("dialog.jump[open] input:focus")
    view.press("Escape")
    view.until("!document.querySelector('dialog') && document.activeElement.matches('textarea')")
    view.page.evaluate("document.activeElement.blur()")
    for text, steps, place, shown in [
        (ids["exact"], 0, f"#/messages/{ids['exact']}", "order/42"),
        ("cart/7", 0, "#/messages/", "cart/7"),
        ("orders/order/42", 0, f"#/messages/{ids['exact']}", "order/42"),
        ("JUMPS", 1, "#/topics/jumps-two", "jumps-two"),
        ("month", 0, "#/schedules/month-end", "month-end"),
        (host, 0, "#/callbacks?q=host", host),
        ("customer-2", 0, "#/topics/payments?view=groups&filter=customer-2", "1 group"),
    ]:
        view.press("/")
        view.page.keyboard.type(text)
        view.page.wait_for_selector("dialog.jump [role=option]")
        if steps:
            view.axe()
        view.press(*["ArrowDown"] * steps, "Enter")
        view.until("(place) => !document.querySelector('dialog') && location.hash.startsWith(place)", place)
        view.see(shown)
    view.press("/")
    # Enter before there is an answer goes where the answer says; where there is none, nowhere.
    view.page.keyboard.type("cart/8")
    view.press("Enter")
    view.until("!document.querySelector('dialog') && location.hash.startsWith('#/messages/')")
    view.press("/")
    view.page.keyboard.type("no such thing")
    view.see("Nothing found.")
    view.axe()
    assert view.clicks() == 0
    view.check()
    view = world.view(width=390, theme="dark").open("#/")
    view.page.click("[aria-label='Jump to']")
    view.page.keyboard.type("daily")
    view.page.locator("[role=option]").first.wait_for()
    view.axe()
    view.page.click("[role=option]:has-text('daily-report')")
    view.page.wait_for_selector("h1:has-text('daily-report')")
    view.check()


def says_when_tonights_peak_is(world):
    view = world.view().open("#/")
    view.page.click("tbody a:has-text('reminders')")
    view.see("in the next day", "peak")
    view.page.click("summary:has-text('Numbers')")
    view.page.locator("[aria-label='What falls due, by an hour'] tbody tr").nth(23).wait_for()
    assert view.page.locator("[aria-label='What falls due, by an hour'] tbody tr").count() == 24
    assert view.clicks() <= 5, view.clicks()
    view.check()


def shows_the_messages_of_a_bar(world):
    view = world.view().open("#/topics/reminders")
    view.page.click("summary:has-text('Numbers')")
    bars = view.page.locator("[aria-label='What falls due, by an hour'] tbody tr")
    told = int(bars.nth(1).locator("td").nth(1).inner_text())
    bars.nth(1).locator("button").click()
    view.page.wait_for_selector("main footer:has-text('looked at')")
    assert view.page.locator("tbody [data-row]").count() == min(told, 50)
    view.check()


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


def says_what_a_message_waits_for_and_ends_it(world):
    server, _ = world.open
    api = Api(server)
    made = api("POST", "/topics/waits/messages", {"payload": 1, "delay_ms": 86_400_000})
    api("POST", "/topics/waits/pause", {})
    view = world.view().open("#/")
    view.page.click("[aria-label='Jump to']")
    view.page.keyboard.type(made["id"])
    view.page.locator("[role=option]").first.wait_for()
    view.press("Enter")
    view.see("Its topic is paused.")
    assert view.clicks() <= 2, view.clicks()
    assert view.page.locator("button:has-text('Run now')").count() == 0
    view.page.click(".waits button:has-text('Resume')")
    view.see("waits goes on")
    view.see("It is due")
    view.page.wait_for_selector("button:has-text('Run now')")
    view.check()


def shows_who_waits_in_groups_and_pauses_one(world):
    server, _ = world.open
    api = Api(server)
    api("PUT", "/topics/tenants", {"group_order": "fair"})
    batch(api, "tenants", [{"payload": 1, "group": group} for group in ["busy"] * 12 + ["quiet"]])
    batch(api, "tenants", [{"payload": 1, "group": "later", "delay_ms": 3_600_000}])
    api("PUT", "/topics/tenants/groups/busy", {"concurrency": 2, "rate_per_s": 0.5, "weight": 3})
    view = world.view().open("#/topics/tenants?view=groups")

    def row(group):
        return view.page.locator(f"tbody tr:has(th .cut:text-is('{group}'))").inner_text().split("\t")

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


def tells_how_each_instance_is(world):
    view = world.view().open("#/instances")
    row = view.page.locator("[aria-label=Instances] tbody tr")
    process, _, _, lanes, waiters, memory, clock, *_ = row.locator("td").all_inner_texts()
    pid, host = process.split(" on ")
    assert int(pid) > 1 and host == socket.gethostname(), process
    assert (lanes, waiters) == ("2", "0") and memory.endswith("MiB") and clock.endswith("ms"), (lanes, waiters, memory, clock)
    view.see("There are no keys")
    view.check()


def draws_what_falls_due_with_axes_and_on_a_log_scale(world):
    server, _ = world.open
    batch(Api(server), "axes", [{"payload": 1, "delay_ms": 90_000}] * 300 + [{"payload": 1, "delay_ms": 40_000_000}])
    view = world.view().open("#/topics/axes")
    view.see("messages in an hour")
    label = "(kind) => [...document.querySelectorAll(`.mark-${kind}`)].map((mark) => mark.textContent)"
    height = "(at) => document.querySelectorAll('.bars i')[at].getBoundingClientRect().height / document.querySelector('.bars').getBoundingClientRect().height"
    assert view.page.evaluate(label, "y") == ["0", "100", "200", "300", "400"]
    times = view.page.evaluate(label, "x")
    assert len(times) == 6 and all(time.endswith(":00") for time in times), times
    assert abs(view.page.evaluate(height, 0) - 0.75) < 0.02
    view.page.click("[aria-label=Scale] button:has-text('Log')")
    view.until("location.hash.includes('scale=log')")
    assert view.page.evaluate(label, "y") == ["1", "10", "100", "1k"]
    one = max(view.page.evaluate(height, at) for at in (10, 11, 12))
    assert 0.09 < one < 0.11, one
    view.page.click("[aria-label='Forecast for the next'] button:has-text('Month')")
    view.see("messages in a day")
    view.until("document.querySelectorAll('.mark-x').length > 4 && document.querySelector('.mark-x').textContent.length === 5")
    assert all("-" in day for day in view.page.evaluate(label, "x"))
    view.axe()
    view.check()


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


def helps_where_nothing_is_yet(world):
    server = world.stage.dueq()
    view = world.view(server)
    for place, text in {"#/": "No topics yet", "#/dead": "Nothing is dead", "#/schedules": "No schedules yet", "#/callbacks": "No callbacks yet"}.items():
        view.open(place)
        view.see(text)
        view.axe()
    view.check()


def copies_code_from_the_guide(world):
    server, _ = world.open
    view = world.view(permissions=["clipboard-read", "clipboard-write"])
    view.page.goto(f"{server}/guide/first-worker")
    code = view.page.locator(".code pre")
    assert code.count() == view.page.locator("pre").count() > 3
    view.page.locator(".code button").nth(1).click()
    view.see("Copied")
    assert view.page.evaluate("navigator.clipboard.readText()") == code.nth(1).text_content()
    # As on a page that came by http from another machine.
    view.page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject() }")
    view.page.locator(".code button").nth(2).click()
    view.until("document.querySelectorAll('.code button')[2].textContent === 'Copied'")
    assert view.page.evaluate("navigator.clipboard.readText()").strip() == code.nth(2).text_content().strip()
    view.page.locator("aside a").last.click()
    view.until("location.hash.length > 1 && document.querySelector(location.hash).getBoundingClientRect().top < innerHeight")
    view.axe()
    for width in (1440, 390):
        view.page.set_viewport_size({"width": width, "height": 900})
        assert view.page.locator("aside").is_visible() == (width > 1200)
        assert view.page.evaluate("document.documentElement.scrollWidth") <= width
    view.check()
    without = world.view(java_script_enabled=False)
    without.page.goto(f"{server}/guide/first-worker")
    assert without.page.locator("pre").count() > 3 and without.page.locator("button").count() == 0
